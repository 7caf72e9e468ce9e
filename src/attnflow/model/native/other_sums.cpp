// Attention sums of rows that see all columns but their own, relative to the largest exponent of each row, for NumPy
// arrays without XLA.
//
// Vectors of columns whose weights are negligible are left out, so that distant tokens cost no exponential. Rows are
// independent of each other, so that the number of threads changes no bit.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t kRowsPerBlock = 16;         // rows that a thread takes at a time
constexpr double kNegligibleExponent = 37.0;  // e^-37 < 2^-53: a smaller term does not change a sum in float64
constexpr int64_t kPairsPerThread = 1 << 17;  // with fewer pairs to sum, starting a thread costs more than it saves

using Vec = Vector<double>;
constexpr int64_t kCount = Lanes<double, kBytes>::kCount;

// The arguments and results of one call, with keys, values and log weights transposed and padded to whole vectors.
struct OtherSums {
  int64_t rows, columns, coordinates, channels, vectors;
  const double* queries;      // (rows, coordinates)
  const Vec *keys, *values;   // (coordinates, vectors) and (channels, vectors)
  const Vec* log_weights;     // (vectors): minus infinity in the padding
  const int64_t* self;        // (rows): the column of each row's own token, which is hidden from the row
  double *sums, *best;        // (rows, channels + 1): the last is the sum of the weights; (rows)
};

INLINE void sum_row_of_others(const OtherSums& p, int64_t row, Vec* logits, int64_t* kept) {
  const double* query = p.queries + row * p.coordinates;
  for (int64_t v = 0; v < p.vectors; ++v) {
    Vec score = query[0] * p.keys[v];
    for (int64_t c = 1; c < p.coordinates; ++c) score += query[c] * p.keys[c * p.vectors + v];
    logits[v] = score + p.log_weights[v];
  }
  const double hidden = -std::numeric_limits<double>::infinity();
  logits[p.self[row] / kCount][p.self[row] % kCount] = hidden;
  Vec largest = Vec{} + hidden;
  for (int64_t v = 0; v < p.vectors; ++v) largest = logits[v] > largest ? logits[v] : largest;
  double best = largest_lane<double>(largest);
  best = p.best[row] = best - best == 0 ? best : 0;
  int64_t number = 0;
  for (int64_t v = 0; v < p.vectors; ++v) {
    kept[number] = v;
    number += !(largest_lane<double>(logits[v]) < best - kNegligibleExponent);  // NaN is kept
  }
  Vec total{};
  for (int64_t k = 0; k < number; ++k)
    total += logits[k] = exponential<double, Exponents::kNeverPositive>(logits[kept[k]] - best);
  double* sums = p.sums + row * (p.channels + 1);
  sums[p.channels] = sum_of_lanes<double>(total);
  for (int64_t channel = 0; channel < p.channels; ++channel) {
    Vec sum{};
    for (int64_t k = 0; k < number; ++k) sum += logits[k] * p.values[channel * p.vectors + kept[k]];
    sums[channel] = sum_of_lanes<double>(sum);
  }
}

FOR_EVERY_PROCESSOR void sum_rows_of_others(const OtherSums& p, int64_t begin, int64_t end, Vec* logits,
                                            int64_t* kept) {
  for (int64_t row = begin; row < end; ++row) sum_row_of_others(p, row, logits, kept);
}

void transpose(const double* from, int64_t rows, int64_t columns, int64_t vectors, double padding, Vec* into) {
  double* out = reinterpret_cast<double*>(into);
  const int64_t stride = vectors * kCount;
  std::fill(out, out + columns * stride, padding);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) out[column * stride + row] = from[row * columns + column];
}

}  // namespace

extern "C" void sums_of_others(int64_t rows, int64_t columns, int64_t coordinates, int64_t channels,
                               const double* queries, const double* keys, const double* values, const double* weights,
                               const int64_t* self, double* sums, double* best, int64_t threads) {
  const int64_t vectors = (columns + kCount - 1) / kCount;
  Vectors<double> memory(vectors * (coordinates + channels + 1));
  Vec *key_columns = memory.data(), *value_columns = key_columns + vectors * coordinates;
  Vec* weight_column = value_columns + vectors * channels;
  transpose(keys, columns, coordinates, vectors, 0.0, key_columns);
  transpose(values, columns, channels, vectors, 0.0, value_columns);
  transpose(weights, columns, 1, vectors, -std::numeric_limits<double>::infinity(), weight_column);
  const OtherSums p{rows,    columns,     coordinates,   channels,      vectors, queries,
                    key_columns, value_columns, weight_column, self,    sums,    best};
  std::atomic<int64_t> next{0};
  const auto take_part = [&] {
    Vectors<double> logits(vectors);
    std::vector<int64_t> kept(vectors + 1);
    for (int64_t begin = next.fetch_add(kRowsPerBlock); begin < rows; begin = next.fetch_add(kRowsPerBlock))
      sum_rows_of_others(p, begin, std::min(rows, begin + kRowsPerBlock), logits.data(), kept.data());
  };
  std::vector<std::thread> helpers;
  const int64_t useful = std::min(threads - 1, rows * columns / kPairsPerThread);
  for (int64_t helper = 0; helper < useful; ++helper) helpers.emplace_back(take_part);
  take_part();
  for (std::thread& helper : helpers) helper.join();
}
