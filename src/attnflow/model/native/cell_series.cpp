// Taylor series around the centres of equal cells of the circle, for NumPy arrays without XLA.
//
// A token at the angle a lies in the cell c = round(a / h) of G, h = 2 pi / G, at u = 2 (a - c h) / h in [-1, 1].
//   moments:  mu[c][i][p] = sum over the tokens of cell c of column_i u^p
//   values:   f_i = sum_p table[c][i][p] u^p
// Tokens are divided into parts by their number alone, so that the number of threads changes no bit.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

#include "simd.h"

namespace {

constexpr int kTerms = 8;                      // of a series: with `cells_of` in fourier.py, for an error of rounding
constexpr int64_t kParts = 4;                  // of the tokens, each with moments of its own
constexpr int64_t kTokensPerPart = 1 << 15;    // below, one part: starting a thread costs more than it saves
constexpr int kRunLength = 128;                // tokens of a cell that are summed before they join the total of the cell
constexpr double kTwoPi = 6.283185307179586476925286766559;

struct Place {
  int64_t cell;
  double offset;
};

INLINE Place place_of(double angle, double per_radian, double step, int64_t cells) {
  const double number = std::nearbyint(angle * per_radian);
  const double offset = (angle - number * step) * 2 * per_radian;
  int64_t cell = static_cast<int64_t>(number) % cells;
  return {cell < 0 ? cell + cells : cell, offset};
}

// Adds a sum of few terms to a total with its rounding error kept in `lost`: a million equal terms keep all digits.
INLINE void join(double* total, double* lost, double* run, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    const double term = run[k] - lost[k], next = total[k] + term;
    lost[k] = (next - total[k]) - term;
    total[k] = next;
    run[k] = 0;
  }
}

FOR_EVERY_PROCESSOR void add_moments(int64_t begin, int64_t end, int64_t cells, int64_t columns, const double* angles,
                                     const double* values, double* totals) {
  const int64_t size = columns * kTerms;
  const double per_radian = cells / kTwoPi, step = kTwoPi / cells;
  std::vector<double> runs(cells * size, 0.0), lost(cells * size, 0.0);
  std::vector<int> counts(cells, 0);
  for (int64_t token = begin; token < end; ++token) {
    const Place place = place_of(angles[token], per_radian, step, cells);
    double powers[kTerms] = {1.0};
    for (int p = 1; p < kTerms; ++p) powers[p] = powers[p - 1] * place.offset;
    double* run = runs.data() + place.cell * size;
    for (int64_t column = 0; column < columns; ++column)
      for (int p = 0; p < kTerms; ++p) run[column * kTerms + p] += values[token * columns + column] * powers[p];
    if (++counts[place.cell] == kRunLength) {
      join(totals + place.cell * size, lost.data() + place.cell * size, run, size);
      counts[place.cell] = 0;
    }
  }
  join(totals, lost.data(), runs.data(), cells * size);
}

FOR_EVERY_PROCESSOR void evaluate(int64_t begin, int64_t end, int64_t cells, int64_t columns, const double* angles,
                                  const double* table, double* found) {
  const int64_t size = columns * kTerms;
  const double per_radian = cells / kTwoPi, step = kTwoPi / cells;
  for (int64_t token = begin; token < end; ++token) {
    const Place place = place_of(angles[token], per_radian, step, cells);
    double powers[kTerms] = {1.0};
    for (int p = 1; p < kTerms; ++p) powers[p] = powers[p - 1] * place.offset;
    const double* series = table + place.cell * size;
    for (int64_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (int p = kTerms - 1; p >= 0; --p) sum += series[column * kTerms + p] * powers[p];
      found[token * columns + column] = sum;
    }
  }
}

int64_t parts_of(int64_t tokens) { return std::clamp<int64_t>(tokens / kTokensPerPart, 1, kParts); }

template <class Work>
void in_parts(int64_t tokens, int64_t threads, const Work& work) {
  const int64_t parts = parts_of(tokens);
  std::atomic<int64_t> next{0};
  const auto take_part = [&] {
    for (int64_t part = next.fetch_add(1); part < parts; part = next.fetch_add(1))
      work(part, tokens * part / parts, tokens * (part + 1) / parts);
  };
  std::vector<std::thread> helpers;
  for (int64_t helper = 1; helper < std::min(threads, parts); ++helper) helpers.emplace_back(take_part);
  take_part();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

extern "C" int64_t cell_series_terms() { return kTerms; }

extern "C" void cell_moments(int64_t tokens, int64_t cells, int64_t columns, const double* angles, const double* values,
                             double* moments, int64_t threads) {
  const int64_t size = cells * columns * kTerms;
  std::vector<double> partial(size * parts_of(tokens), 0.0);
  in_parts(tokens, threads, [&](int64_t part, int64_t begin, int64_t end) {
    add_moments(begin, end, cells, columns, angles, values, partial.data() + part * size);
  });
  for (int64_t k = 0; k < size; ++k) {
    moments[k] = 0;
    for (int64_t part = 0; part < parts_of(tokens); ++part) moments[k] += partial[part * size + k];
  }
}

extern "C" void cell_values(int64_t tokens, int64_t cells, int64_t columns, const double* angles, const double* table,
                            double* found, int64_t threads) {
  in_parts(tokens, threads, [&](int64_t, int64_t begin, int64_t end) {
    evaluate(begin, end, cells, columns, angles, table, found);
  });
}
