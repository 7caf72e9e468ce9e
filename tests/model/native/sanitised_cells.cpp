// Series in cells of the circle under sanitizers: places at the ends of cells and far beyond the circle, few and many tokens, and
// the same numbers whatever the number of threads.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

extern "C" int64_t cell_series_terms();
extern "C" void cell_moments(int64_t, int64_t, int64_t, const double*, const double*, double*, int64_t);
extern "C" void cell_values(int64_t, int64_t, int64_t, const double*, const double*, double*, int64_t);

namespace {

constexpr double kPi = 3.14159265358979323846;

void require(bool holds, const char* what, int64_t tokens, int64_t cells) {
  if (holds) return;
  std::fprintf(stderr, "%s: %lld tokens, %lld cells\n", what, (long long)tokens, (long long)cells);
  std::exit(1);
}

void try_size(int64_t tokens, int64_t cells, int64_t columns) {
  const int64_t terms = cell_series_terms(), size = cells * columns * terms;
  std::vector<double> angles(tokens), values(tokens * columns), first(size), again(size);
  for (int64_t i = 0; i < tokens; ++i) angles[i] = i % 3 == 0 ? kPi * (i % 5 - 2) : 40 * std::sin(7.0 * i);
  double total = 0;
  for (int64_t i = 0; i < tokens * columns; ++i) values[i] = 1 + 0.5 * std::cos(1.0 * i);
  for (int64_t i = 0; i < tokens; ++i) total += values[i * columns];
  cell_moments(tokens, cells, columns, angles.data(), values.data(), first.data(), 1);
  cell_moments(tokens, cells, columns, angles.data(), values.data(), again.data(), 3);
  require(first == again, "moments depend on the number of threads", tokens, cells);
  double sum = 0;
  for (int64_t cell = 0; cell < cells; ++cell) sum += first[cell * columns * terms];
  require(std::abs(sum - total) <= 1e-12 * (1 + total), "moments of order zero are not the sum", tokens, cells);

  std::vector<double> found(tokens * columns), others(tokens * columns);
  cell_values(tokens, cells, columns, angles.data(), first.data(), found.data(), 1);
  cell_values(tokens, cells, columns, angles.data(), first.data(), others.data(), 3);
  require(found == others, "values depend on the number of threads", tokens, cells);
}

}  // namespace

int main() {
  for (int64_t tokens : {1, 2, 127, 128, 129, 1000, 70000})
    for (int64_t cells : {1, 2, 64, 4096})
      for (int64_t columns : {1, 3}) try_size(tokens, cells, columns);
  std::puts("series in cells: no fault");
  return 0;
}
