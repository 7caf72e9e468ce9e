// Transposed derivatives under sanitizers, in arrays that end where they may: a finite number for every result, and rows
// that add up to the same sums in one piece and in two.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "pair_pullback.h"

namespace {

using Real = double;

struct Free {
  void operator()(Real* memory) const { std::free(memory); }
};

// `size` numbers, aligned, in memory of exactly this size.
std::unique_ptr<Real, Free> numbers(int64_t size, Real scale) {
  std::unique_ptr<Real, Free> made(static_cast<Real*>(std::aligned_alloc(64, (size * sizeof(Real) + 63) / 64 * 64)));
  for (int64_t i = 0; i < size; ++i) made.get()[i] = scale * std::sin(3.0 * i + 1);
  return made;
}

void try_size(int64_t rows, int64_t size, int64_t before, int64_t after, bool fixed, bool long_values) {
  PullbackProblem<Real> p;
  p.rows = p.columns = rows, p.stride = padded(rows), p.key_size = p.value_size = size;
  p.key_room = padded(size + 1), p.value_room = padded(size);
  p.before = before, p.after = after, p.fixed = fixed, p.long_values = long_values;
  const int64_t wide = p.stride * size;
  const auto q = numbers(wide, 1), g = numbers(wide, 1), k = numbers(wide, 1), v = numbers(wide, 1), c = numbers(p.stride, 1);
  const auto h = numbers(p.stride, 1), row_q = numbers(p.stride * p.key_room, 1), row_g = numbers(p.stride * p.value_room, 1);
  const auto memory = numbers(2 * p.stride * std::min(PulledRows<Real>::block(rows), p.stride), 0);
  p.queries = q.get(), p.cotangents = g.get(), p.keys = k.get(), p.values = v.get(), p.log_weights = c.get();
  p.added = h.get(), p.row_queries = row_q.get(), p.row_cotangents = row_g.get();
  std::vector<std::vector<Real>> found;
  for (const int64_t split : {rows, kPadding}) {
    const auto of_queries = numbers(wide, 0), of_keys = numbers(p.stride * p.key_room, 0);
    const auto of_values = numbers(p.stride * p.value_room, 0);
    p.query_results = of_queries.get(), p.key_results = of_keys.get(), p.value_results = of_values.get();
    for (int64_t row = 0; row < rows; row += split)
      with_widest_vectors(PulledRows<Real>{p, row, std::min(rows, row + split), memory.get()});
    std::vector<Real> all;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t s = 0; s < size; ++s) {
        all.push_back(of_queries.get()[s * p.stride + i]);
        all.push_back(of_keys.get()[i * p.key_room + s]);
        all.push_back(of_values.get()[i * p.value_room + s]);
      }
    found.push_back(all);
  }
  for (size_t i = 0; i < found[0].size(); ++i)
    if (!(std::abs(found[0][i] - found[1][i]) <= 1e-9 * (1 + std::abs(found[0][i])))) {
      std::fprintf(stderr, "rows in pieces have other sums: %lld tokens, d = %lld\n", (long long)rows, (long long)size);
      std::exit(1);
    }
}

}  // namespace

int main() {
  const int64_t far = int64_t(1) << 40;
  for (const int64_t rows : {1, 7, 16, 17, 65, 300})
    for (const int64_t size : {1, 3, 8, 16, 17, 32})
      for (const bool fixed : {false, true})
        for (const bool long_values : {false, true}) {
          try_size(rows, size, far, far, fixed, long_values);
          try_size(rows, size, far, -1, fixed, long_values);
          try_size(rows, size, 3, 2, fixed, long_values);
        }
  std::puts("transposed derivatives: no fault");
  return 0;
}
