// The transposed derivative of the sums of `pair_sums.h`: from the derivatives of a number in the results to those in
// queries, keys, values and log weights.
//
// With e_ij = e^{<q_i, k_j> + c_j}, Z_i = sum_j e_ij, p_ij = e_ij / Z_i, the averages o_i = sum_j p_ij v_j, and their
// cotangents g_i,
//
//     s_ij = p_ij <g_i, v_j - o_i>,                        which is the derivative in the exponent of the pair,
//     dq_i = sum_j s_ij k_j,   dk_j = sum_i s_ij q_i,   dv_j = sum_i p_ij g_i,   dc_j = sum_i s_ij.
//
// If `fixed` is set, results are the sums S_i and Z_i themselves, with cotangents g_i and h_i: p_ij = e_ij and
// s_ij = e_ij (<g_i, v_j> + h_i).
//
// Rounding. <g_i, v_j - o_i> is computed as <g_i, v_j> - sum_k p_ik <g_i, v_k>, which loses |g| |v| units in the last
// place. Where a value is longer than kLongValue, as in flows that grow, o_i is computed first and subtracted from v_j.
//
// Layout. Rows are lanes of vectors in the sums over columns, and coordinates are in those over rows, so that neither
// adds lanes: queries and cotangents are given both by coordinate and by token. A block of rows keeps its p_ij and s_ij.
// Rows are added to dk_j, dv_j in their order: no bit depends on threads.

#pragma once

#include "pair_sums.h"

namespace {

constexpr int64_t kBlockPairs = 1 << 14;  // of a block of rows: 256 kB in float64, which is in the second cache
constexpr double kLongValue = 100;        // its products lose 1e4 units in the last place

template <typename Real>
struct PullbackProblem {
  int64_t rows = 0, columns = 0, stride = 0;  // of arrays by coordinate, as in `PairProblem`
  int64_t key_size = 0, value_size = 0;
  int64_t key_room = 0, value_room = 0;  // numbers of a token in arrays by token, multiples of kPadding
  int64_t before = 0, after = 0;
  const Real *queries = nullptr, *cotangents = nullptr, *keys = nullptr, *values = nullptr;  // by coordinate, padded by zeros
  const Real *row_queries = nullptr, *row_cotangents = nullptr;  // by token; coordinate `key_size` of a query is one
  const Real* log_weights = nullptr;  // null for zero
  const Real* added = nullptr;        // h_i, if `fixed`
  bool fixed = false, long_values = false;
  Real* query_results = nullptr;  // (key_size, stride)
  Real *key_results = nullptr, *value_results = nullptr;  // by token, zero on entry; coordinate `key_size` of a key is dc_j
};

template <typename Real, int kWidth>
class RowBlock {
  using V = Vector<Real, kWidth>;
  using I = Integers<Real, kWidth>;
  using Integer = typename Float<Real>::Integer;
  static constexpr int kLanes = Lanes<Real, kWidth>::kCount;
  static constexpr int kTile = 8;   // columns in a sum over coordinates; a divisor of kPadding
  static constexpr int kGroup = 8;  // columns, or coordinates, whose sums advance together; a divisor of kPadding

 public:
  // `memory` has room for two numbers for each pair of a row and a column.
  INLINE_MEMBER RowBlock(const PullbackProblem<Real>& problem, int64_t begin, int64_t end, Real* memory)
      : p(problem), row_begin_(begin), row_end_(end), width_(padded(end - begin)) {
    column_begin_ = std::max<int64_t>(0, begin - p.before) / kTile * kTile;
    column_end_ = padded(std::max(std::min(p.columns, end + p.after), column_begin_));
    weights_ = memory, slopes_ = memory + (column_end_ - column_begin_) * width_;
  }

  INLINE_MEMBER void run() {
    for (int64_t row = row_begin_; row < row_end_; row += kLanes) {
      const V shift = exponents(row);
      p.long_values ? slopes<true>(row, shift) : slopes<false>(row, shift);
      add_keys(row);
    }
    add_rows(slopes_, p.row_queries, p.key_room, p.key_size + (p.log_weights ? 1 : 0), p.key_results);
    add_rows(weights_, p.row_cotangents, p.value_room, p.value_size, p.value_results);
  }

 private:
  INLINE_MEMBER V& weight(int64_t row, int64_t column) const { return pair(weights_, row, column); }
  INLINE_MEMBER V& slope(int64_t row, int64_t column) const { return pair(slopes_, row, column); }
  INLINE_MEMBER V& pair(Real* of, int64_t row, int64_t column) const {
    return *(V*)(of + (column - column_begin_) * width_ + row - row_begin_);
  }

  // The inner products of a vector of rows of x with a tile of columns of y, both by coordinate.
  INLINE_MEMBER void products(const Real* x, const Real* y, int64_t size, int64_t row, int64_t column, V* result) const {
    for (int b = 0; b < kTile; ++b) result[b] = V{};
    for (int64_t c = 0; c < size; ++c) {
      const V left = *(const V*)(x + c * p.stride + row);
      const Real* right = y + c * p.stride + column;
      for (int b = 0; b < kTile; ++b) result[b] += left * right[b];
    }
  }

  // All bits of a row are set if it does not see the column.
  INLINE_MEMBER I hides(int64_t row, int64_t column) const {
    if (column >= p.columns) return I{} - 1;
    const I rows = lane_numbers<Real, kWidth>() + Integer(row);
    const int64_t far = p.rows + p.columns;
    return (I)(rows < Integer(column - std::min(p.after, far))) | (I)(rows > Integer(column + std::min(p.before, far)));
  }

  // Keeps the exponents, minus infinity for hidden pairs, and returns what is subtracted from those of each row.
  INLINE_MEMBER V exponents(int64_t row) const {
    const V lowest = V{} - std::numeric_limits<Real>::infinity();
    V largest[kTile];
    for (int b = 0; b < kTile; ++b) largest[b] = lowest;
    for (int64_t column = column_begin_; column < column_end_; column += kTile) {
      V scores[kTile];
      products(p.queries, p.keys, p.key_size, row, column, scores);
      const bool is_seen_by_all = column + kTile <= p.columns && column >= row + kLanes - 1 - p.before && column + kTile - 1 <= row + p.after;
      for (int b = 0; b < kTile; ++b) {
        if (p.log_weights) scores[b] += p.log_weights[column + b];
        if (!is_seen_by_all) scores[b] = hides(row, column + b) ? lowest : scores[b];
        largest[b] = scores[b] > largest[b] ? scores[b] : largest[b];
        weight(row, column + b) = scores[b];
      }
    }
    for (int b = 1; b < kTile; ++b) largest[0] = largest[b] > largest[0] ? largest[b] : largest[0];
    if (p.fixed) return V{};
    return largest[0] - largest[0] == V{} ? largest[0] : V{};
  }

  template <bool kLong>
  INLINE_MEMBER void slopes(int64_t row, V shift) const {
    V totals[kTile] = {}, means[kTile] = {}, centre[kLong ? kMaxSize : 1];
    if (kLong) find_centre(row, shift, centre);
    for (int64_t column = column_begin_; column < column_end_; column += kTile) {
      V weights[kTile], rates[kTile];
      for (int b = 0; b < kTile; ++b) weights[b] = weight(row, column + b) - shift;
      exponentials<Real, Exponents::kAny, kWidth, kTile>(weights);
      if (kLong)
        deviations(centre, row, column, rates);
      else
        products(p.cotangents, p.values, p.value_size, row, column, rates);
      for (int b = 0; b < kTile; ++b) {
        totals[b] += weights[b], means[b] += weights[b] * rates[b];
        weight(row, column + b) = weights[b], slope(row, column + b) = rates[b];
      }
    }
    const V total = sum_of_tile(totals);
    const V factor = p.fixed ? V{} + 1 : total > V{} ? 1 / total : V{};
    const V mean = p.fixed ? -*(const V*)(p.added + row) : sum_of_tile(means) * factor;
    // A weight near one would keep the rounding error of the mean, which is the mean of the differences from it. The
    // largest e_ij of a row is one, so that its weight is the factor.
    bool has_weight_near_one = false;
    for (int lane = 0; lane < kLanes; ++lane) has_weight_near_one |= factor[lane] > Real(0.5);
    const V rest = !p.fixed && has_weight_near_one ? sum_of_differences(row, mean) * factor : V{};
    for (int64_t column = column_begin_; column < column_end_; column += kTile)
      for (int b = 0; b < kTile; ++b) {
        const V share = weight(row, column + b) * factor;
        weight(row, column + b) = share;
        slope(row, column + b) = share * ((slope(row, column + b) - mean) - rest);
      }
  }

  INLINE_MEMBER V sum_of_differences(int64_t row, V mean) const {
    V sums[kTile] = {};
    for (int64_t column = column_begin_; column < column_end_; column += kTile)
      for (int b = 0; b < kTile; ++b) sums[b] += weight(row, column + b) * (slope(row, column + b) - mean);
    return sum_of_tile(sums);
  }

  // o_i, from the exponents.
  INLINE_MEMBER void find_centre(int64_t row, V shift, V* centre) const {
    V total{};
    for (int64_t c = 0; c < p.value_size; ++c) centre[c] = V{};
    if (p.fixed) return;
    for (int64_t column = column_begin_; column < column_end_; ++column) {
      V weight_now = weight(row, column) - shift;
      exponentials<Real, Exponents::kAny, kWidth, 1>(&weight_now);
      total += weight_now;
      for (int64_t c = 0; c < p.value_size; ++c) centre[c] += weight_now * p.values[c * p.stride + column];
    }
    for (int64_t c = 0; c < p.value_size; ++c) centre[c] = total > V{} ? centre[c] / total : V{};
  }

  static INLINE_MEMBER V sum_of_tile(const V* values) {
    return ((values[0] + values[1]) + (values[2] + values[3])) + ((values[4] + values[5]) + (values[6] + values[7]));
  }

  INLINE_MEMBER void deviations(const V* centre, int64_t row, int64_t column, V* result) const {
    for (int b = 0; b < kTile; ++b) result[b] = V{};
    for (int64_t c = 0; c < p.value_size; ++c) {
      const V left = *(const V*)(p.cotangents + c * p.stride + row);
      for (int b = 0; b < kTile; ++b) result[b] += left * (p.values[c * p.stride + column + b] - centre[c]);
    }
  }

  // dq_i of a vector of rows.
  INLINE_MEMBER void add_keys(int64_t row) const {
    int64_t c = 0;
    for (; c + kGroup <= p.key_size; c += kGroup) add_keys<kGroup>(row, c);
    for (; c < p.key_size; ++c) add_keys<1>(row, c);
  }

  template <int kCount>
  INLINE_MEMBER void add_keys(int64_t row, int64_t first) const {
    const Real* key = p.keys + first * p.stride;
    V sums[2][kCount] = {};  // over even and odd columns: each alone is a chain of additions
    for (int64_t column = column_begin_; column < column_end_; column += 2)
      for (int odd = 0; odd < 2; ++odd) {
        const V one = slope(row, column + odd);
        for (int c = 0; c < kCount; ++c) sums[odd][c] += one * key[c * p.stride + column + odd];
      }
    for (int c = 0; c < kCount; ++c) *(V*)(p.query_results + (first + c) * p.stride + row) = sums[0][c] + sums[1][c];
  }

  // Adds sum_i f_ij x_i over the rows of the block to the result of every column j, by token.
  INLINE_MEMBER void add_rows(const Real* factors, const Real* x, int64_t room, int64_t size, Real* results) const {
    for (int64_t column = column_begin_; column < column_end_; column += kGroup) {
      int64_t c = 0;
      for (; c + kLanes < size; c += 2 * kLanes) add_rows<2>(factors, x, room, column, c, results);
      if (c < size) add_rows<1>(factors, x, room, column, c, results);
    }
  }

  template <int kVectors>
  INLINE_MEMBER void add_rows(const Real* factors, const Real* x, int64_t room, int64_t column, int64_t c, Real* results) const {
    const Real* factor = factors + (column - column_begin_) * width_;
    V sums[kGroup][kVectors];
    for (int b = 0; b < kGroup; ++b)
      for (int v = 0; v < kVectors; ++v) sums[b][v] = *(V*)(results + (column + b) * room + c + v * kLanes);
    for (int64_t i = 0; i < row_end_ - row_begin_; ++i) {
      V rows[kVectors];
      for (int v = 0; v < kVectors; ++v) rows[v] = *(const V*)(x + (row_begin_ + i) * room + c + v * kLanes);
      for (int b = 0; b < kGroup; ++b)
        for (int v = 0; v < kVectors; ++v) sums[b][v] += factor[b * width_ + i] * rows[v];
    }
    for (int b = 0; b < kGroup; ++b)
      for (int v = 0; v < kVectors; ++v) *(V*)(results + (column + b) * room + c + v * kLanes) = sums[b][v];
  }

  const PullbackProblem<Real>& p;
  const int64_t row_begin_, row_end_, width_;
  int64_t column_begin_, column_end_;
  Real *weights_, *slopes_;
};

// The rows from `begin` to `end`, in blocks.
template <typename Real>
struct PulledRows {
  const PullbackProblem<Real>& p;
  const int64_t begin, end;
  Real* const memory;

  static int64_t block(int64_t columns) { return std::max(kPadding, kBlockPairs / padded(columns) / kPadding * kPadding); }

  template <int kWidth>
  INLINE_MEMBER void run() const {
    const int64_t rows = block(p.columns);
    for (int64_t row = begin; row < end; row += rows)
      RowBlock<Real, kWidth>(p, row, std::min(end, row + rows), memory).run();
  }
};

}  // namespace
