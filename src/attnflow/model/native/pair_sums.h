// Attention sums over tokens, for row i over the columns j from i - before to i + after:
//
//     S_i = sum_j e^{<q_i, k_j> + c_j - s_i} v_j      and      Z_i = sum_j e^{<q_i, k_j> + c_j - s_i}.
//
// Layout. Arrays are coordinate-major: coordinate c of token i of an array `x` is x[c * stride + i]. They begin at a
// multiple of 64 bytes, and `stride` is a multiple of kPadding that is not below the numbers of rows and columns. Padding
// may hold anything on entry and holds anything on return.
//
// Shifts. `bounds[i]` is a bound on |<q_i, k_j> + c_j| over the columns that row i sees; on the sphere it is
// beta |Q^T K| plus the largest |c_j|, and `score_bounds` finds one for any arrays. A row whose bound is at most
// kSafeExponent has s_i = 0: its exponentials neither overflow nor vanish beside each other, so that no maximum is sought
// and no exponent is checked. All other rows, and all rows if `bounds` is null, have as s_i their largest exponent (zero
// if that is not finite), which costs one more pass over the scores. If `fixed` is set, s_i = 0 in all rows, and
// exponentials may overflow.
//
// Scale. If `scaled` is set, exponents are scale * (<q_i, k_j> - m_i) + c_j - s_i with m_i = max_j <q_i, k_j>: for scales
// with which the scores themselves would overflow. `bounds` is then not used.
//
// Each row is a lane of a vector, and its terms are added in the order of the columns, in parts of kColumnsPerPart. Hence
// no bit of a row depends on other rows, on columns that it does not see, or on the rows computed in one call. Bits do
// depend on whether the processor has a fused multiply-add.
//
// `pair_sums(problem, begin, end)` computes the rows from `begin` to `end`; `begin` is a multiple of kPadding. Calls for
// different rows may run at the same time. Keys and values have at most kMaxSize coordinates.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "simd.h"

namespace {

constexpr int64_t kPadding = 16;          // numbers: 64 bytes in float32
constexpr int64_t kColumnsPerPart = 512;  // the rounding error of a sum grows with the length and the number of parts
constexpr int64_t kMaxSize = 64;          // coordinates: the sums of two vectors of rows then take 8 kB

// The largest bound on exponents for which s_i = 0: e^{300} is 1e130 and e^{30} is 1e13, which leaves room for values.
template <typename Real>
constexpr Real kSafeExponent = sizeof(Real) == 8 ? Real(300) : Real(30);

template <typename Real>
struct PairProblem {
  int64_t rows = 0, columns = 0;         // numbers of queries, and of keys and values
  int64_t stride = 0;                    // of all arrays
  int64_t key_size = 0, value_size = 0;  // coordinates of queries and keys, and of values
  int64_t before = 0, after = 0;
  const Real* queries = nullptr;      // (key_size, stride)
  const Real* keys = nullptr;         // (key_size, stride)
  const Real* values = nullptr;       // (value_size, stride)
  const Real* log_weights = nullptr;  // (stride): c_j; null for zero
  const Real* bounds = nullptr;       // (stride): of the exponents of each row; null if unknown
  bool fixed = false;                 // s_i = 0 in all rows
  bool scaled = false;
  Real scale = 1;
  Real* sums = nullptr;    // (value_size + 1, stride): S_i, and Z_i as the last
  Real* shifts = nullptr;  // (stride): s_i; null if not wanted
};

INLINE int64_t padded(int64_t tokens) { return (tokens + kPadding - 1) / kPadding * kPadding; }

// What is done with the pairs of a row: its largest exponent is found, or its exponentials are summed, without checks of
// the exponents if they are known to be safe.
enum class Pass { kLargest, kSum, kSafeSum };

// The sums of one vector of rows, beginning at `row`. kSize is the number of coordinates of keys and of values if it is
// known at compile time, which keeps the sums in registers, and 0 otherwise.
//
// Columns are visited in tiles, whose exponentials do not depend on each other and are computed together. Tiles with
// columns that some of the rows do not see are masked.
template <typename Real, int kWidth, int kSize>
class RowVector {
  using V = Vector<Real, kWidth>;
  using I = Integers<Real, kWidth>;
  using Integer = typename Float<Real>::Integer;
  typedef std::make_unsigned_t<Integer> U __attribute__((vector_size(kWidth)));
  static constexpr int kLanes = Lanes<Real, kWidth>::kCount;
  static constexpr int kTile = kSize ? 4 : 8;  // columns; a divisor of kPadding
  static constexpr int kSums = kSize ? kSize + 1 : kMaxSize + 1;

 public:
  INLINE_MEMBER RowVector(const PairProblem<Real>& problem, int64_t row) : p(problem), row_(row) {
    const int64_t end = std::min(row + kLanes, p.rows);
    begin_ = std::max<int64_t>(0, row - p.before), end_ = std::min(p.columns, end + p.after);
    shared_begin_ = std::max<int64_t>(0, end - 1 - p.before), shared_end_ = std::min(p.columns, row + p.after + 1);
    for (int c = 0; c < kSize; ++c) query_[c] = load(p.queries + c * p.stride);
  }

  INLINE_MEMBER void run() {
    if (is_safe()) {
      sum<Pass::kSafeSum>();
    } else {
      find_shifts();
      sum<Pass::kSum>();
    }
    if (p.shifts) store(p.shifts, shift_);
  }

 private:
  INLINE_MEMBER V load(const Real* from) const { return *(const V*)(from + row_); }
  INLINE_MEMBER void store(Real* to, V values) const { *(V*)(to + row_) = values; }
  INLINE_MEMBER int64_t value_size() const { return kSize ? kSize : p.value_size; }

  INLINE_MEMBER bool is_safe() const {
    if (p.scaled || !p.bounds) return false;
    bool safe = true;
    for (int64_t i = row_; i < std::min(row_ + kLanes, p.rows); ++i) safe &= p.bounds[i] <= kSafeExponent<Real>;
    return safe;
  }

  INLINE_MEMBER void find_shifts() {
    for (const bool of_scores : {true, false}) {
      const bool is_zero = of_scores ? !p.scaled : p.scaled ? !p.log_weights : p.fixed;
      if (is_zero) continue;
      is_raw_ = of_scores;
      V largest[kSums] = {V{} - std::numeric_limits<Real>::infinity()};
      over_columns<Pass::kLargest>(begin_, end_, largest);
      // Zero where no column is visible or an exponent is infinite, as in `attention._row_maximum`.
      (of_scores ? best_ : shift_) = largest[0] - largest[0] == V{} ? largest[0] : V{};
    }
    is_raw_ = false;
    if (!p.scaled && p.bounds) shift_ = load(p.bounds) <= kSafeExponent<Real> ? V{} : shift_;
  }

  template <Pass kPass>
  INLINE_MEMBER void sum() {
    V total[kSums], part[kSums];
    for (int64_t c = 0; c <= value_size(); ++c) total[c] = V{};
    for (int64_t begin = begin_ / kColumnsPerPart * kColumnsPerPart; begin < end_; begin += kColumnsPerPart) {
      for (int64_t c = 0; c <= value_size(); ++c) part[c] = V{};
      over_columns<kPass>(std::max(begin, begin_), std::min(begin + kColumnsPerPart, end_), part);
      for (int64_t c = 0; c <= value_size(); ++c) total[c] += part[c];
    }
    for (int64_t c = 0; c <= value_size(); ++c) store(p.sums + c * p.stride, total[c]);
  }

  template <Pass kPass>
  INLINE_MEMBER void over_columns(int64_t begin, int64_t end, V* result) {
    const int64_t shared_end = std::min(end, shared_end_) - kTile;
    for (int64_t column = begin / kTile * kTile; column < end; column += kTile) {
      for (; column >= shared_begin_ && column <= shared_end; column += kTile) visit<kPass, false>(column, result);
      if (column < end) visit<kPass, true>(column, result);
    }
  }

  template <Pass kPass, bool kMasked>
  INLINE_MEMBER void visit(int64_t column, V* result) {
    V weight[kTile];
    exponents<kPass>(column, weight);
    I hidden[kTile];
    for (int b = 0; b < kTile; ++b) hidden[b] = kMasked ? hides(column + b) : I{};
    if constexpr (kPass == Pass::kLargest) {
      for (int b = 0; b < kTile; ++b)
        result[0] = unless_hidden<kMasked>(hidden[b], weight[b] > result[0] ? weight[b] : result[0], result[0]);
      return;
    }
    exponentials<Real, kPass == Pass::kSafeSum ? Exponents::kSafe : Exponents::kAny, kWidth, kTile>(weight);
    constexpr int group = kSize ? kSize : 4;  // sums that advance together, since each alone is a chain of additions
    int64_t c = 0;
    for (; c + group <= value_size(); c += group) add_values<kMasked, group>(c, column, weight, hidden, result);
    for (; c < value_size(); ++c) add_values<kMasked, 1>(c, column, weight, hidden, result);
    V sum = result[value_size()];
    for (int b = 0; b < kTile; ++b) sum = unless_hidden<kMasked>(hidden[b], sum + weight[b], sum);
    result[value_size()] = sum;
  }

  // Add the products of the weights of a tile with kCount coordinates of the values, from coordinate `first` on.
  template <bool kMasked, int kCount>
  INLINE_MEMBER void add_values(int64_t first, int64_t column, const V* weight, const I* hidden, V* result) const {
    const Real* value = p.values + first * p.stride + column;
    V sum[kCount];
    for (int c = 0; c < kCount; ++c) sum[c] = result[first + c];
    for (int b = 0; b < kTile; ++b)
      for (int c = 0; c < kCount; ++c)
        sum[c] = unless_hidden<kMasked>(hidden[b], sum[c] + weight[b] * value[c * p.stride + b], sum[c]);
    for (int c = 0; c < kCount; ++c) result[first + c] = sum[c];
  }

  template <bool kMasked>
  static INLINE_MEMBER V unless_hidden(I hidden, V next, V now) {
    return kMasked ? (V)(((I)next & ~hidden) | ((I)now & hidden)) : next;
  }

  // The exponents of a tile minus the shifts, or the scores alone.
  template <Pass kPass>
  INLINE_MEMBER void exponents(int64_t column, V* result) {
    const int64_t size = kSize ? kSize : p.key_size;
    for (int b = 0; b < kTile; ++b) result[b] = V{};
    for (int64_t c = 0; c < size; ++c) {
      const Real* key = p.keys + c * p.stride + column;
      const V query = kSize ? query_[kSize ? c : 0] : load(p.queries + c * p.stride);
      for (int b = 0; b < kTile; ++b) result[b] += query * key[b];
    }
    constexpr bool safe = kPass == Pass::kSafeSum;
    if (!safe && is_raw_) return;
    if (!safe && p.scaled)
      for (int b = 0; b < kTile; ++b) result[b] = p.scale * (result[b] - best_);
    if (p.log_weights)
      for (int b = 0; b < kTile; ++b) result[b] += p.log_weights[column + b];
    if (!safe)
      for (int b = 0; b < kTile; ++b) result[b] -= shift_;
  }

  // All bits of a row are set if it does not see the column. They come from the sign of an integer: compilers take
  // comparisons whose results are used more than once apart, lane by lane.
  INLINE_MEMBER I hides(int64_t column) const {
    if (column >= p.columns) return I{} - 1;
    const I rows = lane_numbers<Real, kWidth>() + Integer(row_);
    const int64_t far = p.rows + p.columns;
    const I inside = (rows - Integer(column - std::min(p.after, far))) | (Integer(column + std::min(p.before, far)) - rows);
    return I{} - (I)((U)inside >> (8 * sizeof(Real) - 1));
  }

  const PairProblem<Real>& p;
  const int64_t row_;
  int64_t begin_, end_;                // columns that at least one of the rows sees
  int64_t shared_begin_, shared_end_;  // columns that all of them see
  bool is_raw_ = false;
  V query_[kSize ? kSize : 1], best_{}, shift_{};
};

// The sums of rows, in vectors of any width.
template <typename Real, int kSize>
struct RowSums {
  const PairProblem<Real>& p;
  const int64_t begin, end;

  template <int kWidth>
  INLINE_MEMBER void run() const {
    constexpr int size = kWidth == 16 && kHasWiderVectors ? 0 : kSize;  // one variant for the few processors left with these
    for (int64_t row = begin; row < end; row += Lanes<Real, kWidth>::kCount) RowVector<Real, kWidth, size>(p, row).run();
  }
};

template <typename Real>
void pair_sums(const PairProblem<Real>& p, int64_t begin, int64_t end) {
  switch (p.key_size == p.value_size ? p.key_size : 0) {
    case 1: return with_widest_vectors(RowSums<Real, 1>{p, begin, end});
    case 2: return with_widest_vectors(RowSums<Real, 2>{p, begin, end});
    case 3: return with_widest_vectors(RowSums<Real, 3>{p, begin, end});
    case 4: return with_widest_vectors(RowSums<Real, 4>{p, begin, end});
    default: return with_widest_vectors(RowSums<Real, 0>{p, begin, end});
  }
}

// The largest x_j over the columns j that row i sees, for every row; zero for a row that sees none. NaN is left out.
// With blocks of as many columns as a row sees, the columns of a row are the end of one block and the beginning of the
// next, or one of them where the row sees the first or the last column.
template <typename Real>
INLINE void largest_of_visible(const PairProblem<Real>& p, const Real* x, Real* memory, Real* result) {
  const auto larger = [](Real a, Real b) { return a > b ? a : b; };
  if (p.before >= p.rows && p.after >= p.columns) {
    Real lanes[8] = {};  // independent of each other, so that they form vectors
    for (int64_t j = 0; j + 8 <= p.columns; j += 8)
      for (int lane = 0; lane < 8; ++lane) lanes[lane] = larger(x[j + lane], lanes[lane]);
    for (int64_t j = p.columns / 8 * 8; j < p.columns; ++j) lanes[0] = larger(x[j], lanes[0]);
    std::fill(result, result + p.rows, *std::max_element(lanes, lanes + 8));
    return;
  }
  const int64_t block = std::max<int64_t>(1, std::min(p.before, p.rows + p.columns) + std::min(p.after, p.columns) + 1);
  Real *from_begin = memory, *to_end = memory + p.stride;
  for (int64_t j = 0, place = 0; j < p.columns; ++j, place = place + 1 == block ? 0 : place + 1)
    from_begin[j] = larger(x[j], place ? from_begin[j - 1] : Real(0));
  if (p.before < p.rows)
    for (int64_t j = p.columns - 1; j >= 0; --j)
      to_end[j] = larger(x[j], (j + 1) % block && j + 1 < p.columns ? to_end[j + 1] : Real(0));
  for (int64_t i = 0; i < p.rows; ++i) {
    const int64_t first = std::max<int64_t>(0, i - p.before), last = std::min(p.columns, i + p.after + 1) - 1;
    if (first > last) result[i] = 0;
    else if (first == 0 || first % block == 0) result[i] = from_begin[last];
    else if (first / block == last / block) result[i] = to_end[first];
    else result[i] = larger(to_end[first], from_begin[last]);
  }
}

// Bounds on |<q_i, k_j> + c_j|: |q_i| max_j |k_j| + max_j |c_j| over the columns j that row i sees. `memory` has room for
// 4 * stride numbers.
template <typename Real>
INLINE void score_bounds(const PairProblem<Real>& p, Real* memory, Real* bounds) {
  Real *squares = memory + 2 * p.stride, *largest = memory + 3 * p.stride;
  const auto sum_squares = [&](const Real* x, int64_t tokens) {
    std::fill(squares, squares + tokens, Real(0));
    for (int64_t c = 0; c < p.key_size; ++c)
      for (int64_t i = 0; i < tokens; ++i) squares[i] += x[c * p.stride + i] * x[c * p.stride + i];
  };
  sum_squares(p.keys, p.columns);
  largest_of_visible(p, squares, memory, largest);
  sum_squares(p.queries, p.rows);
  for (int64_t i = 0; i < p.rows; ++i) bounds[i] = std::sqrt(squares[i] * largest[i]);
  if (!p.log_weights) return;
  for (int64_t j = 0; j < p.columns; ++j) squares[j] = std::abs(p.log_weights[j]);
  largest_of_visible(p, squares, memory, largest);
  for (int64_t i = 0; i < p.rows; ++i) bounds[i] += largest[i];
}

}  // namespace
