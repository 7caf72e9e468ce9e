// The sums of `pair_sums.h` where scores are symmetric, <q_i, k_j> = <q_j, k_i>, every row sees every column, exponents are
// safe and no column has a weight of its own: every exponential then serves both tokens of a pair.
//
// Rows are taken in blocks of one vector. The exponentials w_ij of a block with the columns behind it are added to the sums
// of the rows, S_i += w_ij v_j, lane by lane, and to the sums that the columns receive, S_j += w_ij v_i, for which every
// column has a vector with one lane for each row of a block. At the end the lanes of these vectors are added up.
//
// With d = 3 in float64 this takes 1.03 of the time of `pair_sums.h` for 16 tokens, 0.98 for 24, 0.88 for 32, 0.77 for 64,
// 0.72 for 200 and 0.67 for 1,024; in float32 it is 1.12 for 32 tokens, 0.92 for 64 and 0.76 for 200 (AVX-512). Bits depend
// on the width of the processor's vectors.

#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "pair_sums.h"
#include "simd.h"

namespace {

constexpr int64_t kLeastSymmetric = 24;      // tokens, from which on it is faster in float64
constexpr int64_t kMostSymmetric = 1024;     // tokens: the received sums of 4 coordinates then take 320 kB
constexpr int64_t kMostSymmetricSize = 4;    // coordinates, for which the sums of a block stay in registers
constexpr int64_t kVectorBytes = 64;         // of the widest vectors

// Numbers of memory for the sums that the columns receive.
template <typename Real>
constexpr int64_t symmetric_memory(int64_t stride, int64_t value_size) {
  return stride * (value_size + 1) * (kVectorBytes / sizeof(Real));
}

// Whether `symmetric_sums` serves a problem whose scores are symmetric and whose exponents are at most `bound`.
template <typename Real>
INLINE bool serves_symmetric(const PairProblem<Real>& p, Real bound) {
  const bool is_small = p.key_size == p.value_size && p.value_size <= kMostSymmetricSize && p.rows <= kMostSymmetric;
  const bool is_full = p.rows == p.columns && p.before >= p.rows - 1 && p.after >= p.rows - 1;
  return is_small && is_full && p.rows >= kLeastSymmetric && !p.log_weights && !p.scaled && bound <= kSafeExponent<Real>;
}

// The sums of neighbouring groups of kStep lanes of two vectors: a group of the first, then one of the second, and so on.
template <typename Real, int kWidth, int kStep, int... kLane>
INLINE Vector<Real, kWidth> sums_of_groups(Vector<Real, kWidth> first, Vector<Real, kWidth> second,
                                           std::integer_sequence<int, kLane...>) {
  constexpr int lanes = sizeof...(kLane);
#ifdef __clang__
  return __builtin_shufflevector(first, second, (kLane & kStep ? lanes + kLane - kStep : kLane)...) +
         __builtin_shufflevector(first, second, (kLane & kStep ? lanes + kLane : kLane + kStep)...);
#else
  using I = Integers<Real, kWidth>;
  return __builtin_shuffle(first, second, I{(kLane & kStep ? lanes + kLane - kStep : kLane)...}) +
         __builtin_shuffle(first, second, I{(kLane & kStep ? lanes + kLane : kLane + kStep)...});
#endif
}

// Add the lanes of each of as many vectors as a vector has lanes; lane i of the result is the sum of vector i. Each round
// halves the number of vectors and of lanes that are still to be added.
template <typename Real, int kWidth, int kStep = 1>
INLINE Vector<Real, kWidth> sums_of_lanes(Vector<Real, kWidth>* vectors) {
  constexpr int lanes = Lanes<Real, kWidth>::kCount;
  if constexpr (kStep == lanes) {
    return vectors[0];
  } else {
    for (int v = 0; v < lanes / kStep / 2; ++v)
      vectors[v] = sums_of_groups<Real, kWidth, kStep>(vectors[2 * v], vectors[2 * v + 1],
                                                       std::make_integer_sequence<int, lanes>());
    return sums_of_lanes<Real, kWidth, 2 * kStep>(vectors);
  }
}

// The sums of one block of rows beginning at `row` with the columns from there on.
template <typename Real, int kWidth, int kSize>
class SymmetricBlock {
  using V = Vector<Real, kWidth>;
  static constexpr int kLanes = Lanes<Real, kWidth>::kCount;
  static constexpr int kTile = 4;  // columns, a divisor of the lanes

 public:
  INLINE_MEMBER SymmetricBlock(const PairProblem<Real>& problem, V* received, int64_t row)
      : p(problem), received_(received), row_(row) {
    for (int c = 0; c < kSize; ++c)
      query_[c] = *(const V*)(p.queries + c * p.stride + row), value_[c] = *(const V*)(p.values + c * p.stride + row);
  }

  INLINE_MEMBER void run() {
    int64_t column = row_;
    for (; column < std::min(row_ + kLanes, p.columns); column += kTile) visit<false>(column);
    for (; column < p.columns; column += kTile) visit<true>(column);
    for (int c = 0; c <= kSize; ++c) *(V*)(p.sums + c * p.stride + row_) = sum_[c];
  }

 private:
  template <bool kIsBehind>
  INLINE_MEMBER void visit(int64_t column) {
    V weight[kTile] = {};
    for (int c = 0; c < kSize; ++c)
      for (int b = 0; b < kTile; ++b) weight[b] += query_[c] * p.keys[c * p.stride + column + b];
    exponentials<Real, Exponents::kSafe, kWidth, kTile>(weight);
    if (column + kTile <= p.columns)
      for (int b = 0; b < kTile; ++b) add<kIsBehind>(column + b, weight[b]);
    else
      for (int b = 0; column + b < p.columns; ++b) add<kIsBehind>(column + b, weight[b]);
  }

  template <bool kIsBehind>
  INLINE_MEMBER void add(int64_t column, V weight) {
    V* received = received_ + column * (kSize + 1);
    for (int c = 0; c < kSize; ++c) {
      sum_[c] += weight * p.values[c * p.stride + column];
      if (kIsBehind) received[c] += weight * value_[c];
    }
    sum_[kSize] += weight;
    if (kIsBehind) received[kSize] += weight;
  }

  const PairProblem<Real>& p;
  V* const received_;
  const int64_t row_;
  V query_[kSize], value_[kSize], sum_[kSize + 1] = {};
};

template <typename Real, int kSize>
struct SymmetricSums {
  const PairProblem<Real>& p;
  Real* const memory;

  template <int kWidth>
  INLINE_MEMBER void run() const {
    using V = Vector<Real, kWidth>;
    constexpr int lanes = Lanes<Real, kWidth>::kCount;
    V* received = (V*)memory;
    for (int64_t k = 0; k < padded(p.columns) * (kSize + 1); ++k) received[k] = V{};
    for (int64_t row = 0; row < p.rows; row += lanes) SymmetricBlock<Real, kWidth, kSize>(p, received, row).run();
    for (int64_t column = lanes; column < p.columns; column += lanes)  // the first block has received nothing
      for (int c = 0; c <= kSize; ++c) {
        V parts[lanes];
        for (int lane = 0; lane < lanes; ++lane) parts[lane] = received[(column + lane) * (kSize + 1) + c];
        *(V*)(p.sums + c * p.stride + column) += sums_of_lanes<Real, kWidth>(parts);
      }
  }
};

// The sums of all rows of a problem that `serves_symmetric`; `memory` has 64-byte alignment.
template <typename Real>
void symmetric_sums(const PairProblem<Real>& p, Real* memory) {
  switch (p.value_size) {
    case 1: return with_widest_vectors(SymmetricSums<Real, 1>{p, memory});
    case 2: return with_widest_vectors(SymmetricSums<Real, 2>{p, memory});
    case 3: return with_widest_vectors(SymmetricSums<Real, 3>{p, memory});
    default: return with_widest_vectors(SymmetricSums<Real, 4>{p, memory});
  }
}

}  // namespace
