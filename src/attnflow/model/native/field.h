// The velocity of one run's tokens: scores, weights, sums over tokens, value matrices, tangent part.
//
//     x_i' = P_i( sum_h O_h sum_j A_ij V_h x_j ) / slowness_i,    A_ij = e^{<Q_h x_i, K_h x_j> + c_j} / D_i,
//
// with c_j the logarithm of the mass of token j, D_i the divisor of `divide_sums`, P_i the projector onto the tangent space
// at x_i (the identity in R^d), and the slowness of `slow_down`; zero for frozen tokens. The velocity of rescaled flows is
// that of `velocity_in_frame`.
//
// Tokens are stored coordinate by coordinate, each coordinate padded with zeros to whole vectors (`stride` numbers).
// Padding behaves like tokens that no row sees and that rest.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "matrix_exponential.h"
#include "pair_sums.h"
#include "runs.h"
#include "simd.h"
#include "symmetric_sums.h"

namespace {

constexpr int64_t kAlignment = 64;  // bytes

INLINE Vector<double>& vector_at(double* numbers) { return *reinterpret_cast<Vector<double>*>(numbers); }
INLINE Vector<float>& vector_at(float* numbers) { return *reinterpret_cast<Vector<float>*>(numbers); }
INLINE const Vector<double>& vector_at(const double* numbers) { return *reinterpret_cast<const Vector<double>*>(numbers); }
INLINE const Vector<float>& vector_at(const float* numbers) { return *reinterpret_cast<const Vector<float>*>(numbers); }

// The first aligned address in memory that has kAlignment bytes more than needed.
template <typename T>
T* aligned(char* memory) {
  return reinterpret_cast<T*>((reinterpret_cast<uintptr_t>(memory) + kAlignment - 1) / kAlignment * kAlignment);
}

template <typename T>
INLINE Vector<T> square_root(Vector<T> values) {
  for (int lane = 0; lane < Lanes<T, kBytes>::kCount; ++lane) values[lane] = std::sqrt(values[lane]);
  return values;
}

template <typename T>
INLINE Vector<T> larger(Vector<T> first, Vector<T> second) {
  return first > second ? first : second;
}

template <typename T>
INLINE Vector<T> absolute(Vector<T> values) {
  return values < 0 ? -values : values;
}

// The problem `p` in the precision T, with n tokens of d coordinates, and memory for one evaluation of the velocity.
//
// Arrays are rows of `stride` numbers, one number for each token; row c of x is coordinate c of all tokens. With `width_`
// the largest number of coordinates of a token, a query, a key or a value, they have the rows:
//
//     queries, keys, values                 width_       Q_h x_i, K_h x_i, V_h x_i of one head
//     sums                                  width_ + 1   S_i by coordinate, and Z_i as the last, see pair_sums.h
//     shifts, log_masses, moves, bounds     1            s_i; c_i; 1 for tokens that move, else 0; bounds of pair_sums.h
//     framed                                width_       M z_i, see `velocity_in_frame`
//     received                              memory of `symmetric_sums`, none where that does not serve the problem
template <typename T>
class Field {
 public:
  explicit Field(const RunsProblem& problem)
      : p(problem),
        n(problem.tokens),
        d(problem.dimension),
        stride(padded(n)),
        size(d * stride),
        width_(largest_width(problem)),
        bytes_((rows() * stride + received_size(problem)) * sizeof(T) + kAlignment) {
    queries = aligned<T>(bytes_.data());
    keys = queries + width_ * stride, values = keys + width_ * stride, sums = values + width_ * stride;
    shifts = sums + (width_ + 1) * stride, log_masses = shifts + stride, moves = log_masses + stride;
    bounds = moves + stride, framed = bounds + stride, received = framed + width_ * stride;
    std::fill(queries, received, T(0));
    for (int64_t i = 0; i < n; ++i) {
      if (p.log_masses) log_masses[i] = static_cast<const T*>(p.log_masses)[i];
      largest_log_mass = std::max(largest_log_mass, std::abs(log_masses[i]));
      moves[i] = p.is_frozen && static_cast<const char*>(p.is_frozen)[i] ? T(0) : T(1);
    }
  }

  const RunsProblem& p;
  const int64_t n, d, stride, size;  // size: of an array with the coordinates of all tokens, d * stride

 private:
  int64_t rows() const { return 5 * width_ + 5; }  // of all arrays but `received`

  static int64_t largest_width(const RunsProblem& problem) {
    int64_t width = problem.dimension;
    for (int64_t h = 0; h < problem.heads; ++h)
      width = std::max({width, problem.head[h].coordinates, problem.head[h].channels});
    return width;
  }

  static int64_t received_size(const RunsProblem& problem) {
    const bool is_small = problem.dimension <= kMostSymmetricSize && problem.tokens <= kMostSymmetric;
    return is_small ? symmetric_memory<T>(padded(problem.tokens), problem.dimension) : 0;
  }

  const int64_t width_;
  std::vector<char> bytes_;

 public:
  T *queries, *keys, *values, *sums, *shifts, *log_masses, *moves, *bounds, *framed, *received;
  T largest_log_mass = 0;  // max_j |c_j|
};

// out_r = sum_c matrix_rc x_c, or out_r = scale x_r where the matrix is null; x_c and out_r are rows of `stride` numbers.
template <typename T>
INLINE void multiply(const void* matrix, T scale, int64_t rows, int64_t columns, const T* x, int64_t stride, T* out) {
  constexpr int count = Lanes<T, kBytes>::kCount;
  const T* entries = static_cast<const T*>(matrix);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < stride; i += count) {
      Vector<T> total = (entries ? entries[row * columns] : scale) * vector_at(x + (entries ? 0 : row) * stride + i);
      for (int64_t c = 1; entries && c < columns; ++c) total += entries[row * columns + c] * vector_at(x + c * stride + i);
      vector_at(out + row * stride + i) = total;
    }
}

// The largest length of the columns of x; NaN if one has a NaN.
template <typename T>
INLINE T largest_length(const T* x, int64_t rows, int64_t stride) {
  Vector<T> largest{};
  for (int64_t i = 0; i < stride; i += Lanes<T, kBytes>::kCount) {
    Vector<T> square{};
    for (int64_t c = 0; c < rows; ++c) square += vector_at(x + c * stride + i) * vector_at(x + c * stride + i);
    largest = square <= largest ? largest : square;
  }
  T result = 0;
  for (int lane = 0; lane < Lanes<T, kBytes>::kCount; ++lane) result = largest[lane] <= result ? result : largest[lane];
  return std::sqrt(result);
}

// The sums of `pair_sums` under hardmax: weights of one (times masses) for the scores s_ij of a row with
// s_ij >= max_k s_ik - tolerance * max_k |s_ik|, and zero for others.
template <typename T>
void sums_of_largest(const PairProblem<T>& p, T tolerance) {
  std::vector<T> scores(p.columns);
  for (int64_t i = 0; i < p.rows; ++i) {
    const int64_t begin = std::max<int64_t>(0, i - p.before), end = std::min(p.columns, i + p.after + 1);
    std::fill(scores.begin(), scores.end(), T(0));
    for (int64_t c = 0; c < p.key_size; ++c) {
      const T query = p.queries[c * p.stride + i], *keys = p.keys + c * p.stride;
      for (int64_t j = begin; j < end; ++j) scores[j] += query * keys[j];
    }
    T largest = -std::numeric_limits<T>::infinity(), least = -largest;
    for (int64_t j = begin; j < end; ++j)
      largest = scores[j] > largest ? scores[j] : largest, least = scores[j] < least ? scores[j] : least;
    const T smallest_tie = largest - tolerance * std::max(std::abs(largest), std::abs(least));
    for (int64_t c = 0; c <= p.value_size; ++c) p.sums[c * p.stride + i] = 0;
    for (int64_t j = begin; j < end; ++j) {
      if (!(scores[j] >= smallest_tie)) continue;
      const T weight = p.log_weights ? std::exp(p.log_weights[j]) : T(1);
      for (int64_t c = 0; c < p.value_size; ++c) p.sums[c * p.stride + i] += weight * p.values[c * p.stride + j];
      p.sums[p.value_size * p.stride + i] += weight;
    }
  }
}

// The tokens that enter a head. The scores are those of one array, the values those of another (the two are one array
// except in a moving frame):
//
//     exponents  scale <Q y_i, K y_j>,  y = score_tokens,      values  V w_j,  w = value_tokens.
template <typename T>
struct HeadInput {
  const T *score_tokens, *value_tokens;
  bool is_scaled = false;     // whether there is a scale
  T scale = 1;
  const T* output = nullptr;  // O in place of the head's own; null: the head's own
};

// Fill `queries`, `keys` and `values`. A missing matrix K or V is the identity; then the tokens themselves are used.
template <typename T>
INLINE void project(const Field<T>& f, const RunsHead& head, const HeadInput<T>& in) {
  multiply<T>(head.query, T(head.query_scale), head.coordinates, f.d, in.score_tokens, f.stride, f.queries);
  // Weights that are not normalised overflow where their scores do. For others `pair_sums` multiplies by the scale, after
  // the largest score of a row is subtracted.
  if (in.is_scaled && !f.p.is_normalised)
    multiply<T>(nullptr, in.scale, head.coordinates, head.coordinates, f.queries, f.stride, f.queries);
  if (head.key) multiply<T>(head.key, T(1), head.coordinates, f.d, in.score_tokens, f.stride, f.keys);
  if (head.value) multiply<T>(head.value, T(1), head.channels, f.d, in.value_tokens, f.stride, f.values);
}

// Fill `sums` and `shifts`: S_i, Z_i and s_i of pair_sums.h, by the method that serves the head. Its exponents are bounded
// by max_i |q_i| max_j |k_j| + max_j |c_j|.
template <typename T>
INLINE void sum_pairs(const Field<T>& f, const RunsHead& head, const HeadInput<T>& in) {
  const T* keys = head.key ? f.keys : in.score_tokens;
  const T bound = largest_length(f.queries, head.coordinates, f.stride) * largest_length(keys, head.coordinates, f.stride);
  std::fill(f.bounds, f.bounds + f.stride, bound + f.largest_log_mass);
  PairProblem<T> pairs;
  pairs.rows = pairs.columns = f.n, pairs.stride = f.stride;
  pairs.key_size = head.coordinates, pairs.value_size = head.channels;
  pairs.before = f.p.before, pairs.after = f.p.after;
  pairs.queries = f.queries, pairs.keys = keys, pairs.values = head.value ? f.values : in.value_tokens;
  pairs.log_weights = f.p.log_masses ? f.log_masses : nullptr;
  pairs.bounds = f.bounds, pairs.sums = f.sums, pairs.shifts = f.shifts;
  pairs.scaled = in.is_scaled && f.p.is_normalised, pairs.scale = in.scale;
  if (f.p.tie_tolerance > 0) {
    sums_of_largest(pairs, T(f.p.tie_tolerance));
  } else if (head.is_symmetric && serves_symmetric<T>(pairs, bound)) {
    symmetric_sums(pairs, f.received);
    std::fill(f.shifts, f.shifts + f.stride, T(0));
  } else {
    pair_sums(pairs, 0, f.n);
  }
}

// S_i <- sum_j A_ij V x_j, the mean values of a head: normalised rows are divided by Z_i, others by the total mass M,
//
//     S_i / Z_i      or      S_i e^{s_i + log_factor} / M.
//
// A row without weights has sums of zero, which stay zero.
template <typename T>
INLINE void divide_sums(const Field<T>& f, int64_t channels) {
  const Vector<T> tiny = Vector<T>{} + std::numeric_limits<T>::min();
  for (int64_t i = 0; i < f.stride; i += Lanes<T, kBytes>::kCount) {
    Vector<T> factor = 1 / larger<T>(vector_at(f.sums + channels * f.stride + i), tiny);
    if (!f.p.is_normalised)
      factor = exponential<T, Exponents::kAny>(vector_at(f.shifts + i) + T(f.p.log_factor)) / T(f.p.total_mass);
    for (int64_t c = 0; c < channels; ++c) vector_at(f.sums + c * f.stride + i) *= factor;
  }
}

// out_i += O sum_j A_ij V x_j for one head.
template <typename T>
INLINE void add_head(const Field<T>& f, const RunsHead& head, const HeadInput<T>& in, T* out) {
  const int64_t channels = head.channels;
  project<T>(f, head, in);
  sum_pairs<T>(f, head, in);
  divide_sums<T>(f, channels);
  const T* entries = in.output ? in.output : static_cast<const T*>(head.output);  // null: a multiple of the identity
  for (int64_t row = 0; row < f.d; ++row)
    for (int64_t i = 0; i < f.stride; i += Lanes<T, kBytes>::kCount) {
      Vector<T>& total = vector_at(out + row * f.stride + i);
      if (!entries) total += T(head.output_scale) * vector_at(f.sums + row * f.stride + i);
      for (int64_t c = 0; entries && c < channels; ++c)
        total += entries[row * channels + c] * vector_at(f.sums + c * f.stride + i);
    }
}

// out_i <- out_i - <x_i, out_i> x_i on the sphere, and zero for tokens that rest.
template <typename T>
INLINE void constrain(const Field<T>& f, const T* x, T* out) {
  for (int64_t i = 0; i < f.stride; i += Lanes<T, kBytes>::kCount) {
    Vector<T> along{};
    if (f.p.space == kSphere)
      for (int64_t c = 0; c < f.size; c += f.stride) along += vector_at(x + c + i) * vector_at(out + c + i);
    for (int64_t c = 0; c < f.size; c += f.stride) {
      const Vector<T> tangent = vector_at(out + c + i) - along * vector_at(x + c + i);
      vector_at(out + c + i) = vector_at(f.moves + i) != 0 ? tangent : Vector<T>{};
    }
  }
}

// out_i <- out_i / slowness_i: sqrt(1 + t), or |out_i| / alpha with alpha = `slowness_scale`, which gives out_i that length.
template <typename T>
INLINE void slow_down(const Field<T>& f, T time, T* out) {
  const Vector<T> tiny = Vector<T>{} + std::numeric_limits<T>::min();
  for (int64_t i = 0; i < f.stride; i += Lanes<T, kBytes>::kCount) {
    Vector<T> slowness = Vector<T>{} + std::sqrt(time + 1);
    if (f.p.slowness == kOutputLength) {
      Vector<T> square{};
      for (int64_t c = i; c < f.size; c += f.stride) square += vector_at(out + c) * vector_at(out + c);
      slowness = larger<T>(square_root<T>(square), tiny) / T(f.p.slowness_scale);
    }
    for (int64_t c = i; c < f.size; c += f.stride) vector_at(out + c) /= slowness;
  }
}

// The velocity of z = e^{-tV} x where x_i' = sum_h sum_j A_ij V_h x_j, with V = `rescaling`. In terms of e^{tV} = e^s M, M
// of size about one and s = `log_scale`,
//
//     z_i' = sum_h sum_j A_ij M^{-1} V_h M z_j - V z_i,      scores  <Q x_i, K x_j> = e^{2s} <Q M z_i, K M z_j>,
//
// and M^{-1} V_h M = V_h where the frame is that of the head. Frozen tokens, constant in x, move like z_i' = -V z_i.
template <typename T>
void velocity_in_frame(const Field<T>& f, T time, const T* z, T* out) {
  const T* v = static_cast<const T*>(f.p.rescaling);
  const auto [frame, log_scale] = scaled_exponential<T>(v, f.d, time);
  // e^{2s} stays finite in normalised weights: long before, all of a row's weight is on its largest scores.
  const T limit = std::log(std::numeric_limits<T>::max()) - 1;
  const T scale = std::exp(f.p.is_normalised ? std::min(2 * log_scale, limit) : 2 * log_scale);
  multiply<T>(frame.data(), T(1), f.d, f.d, z, f.stride, f.framed);
  for (int64_t h = 0; h < f.p.heads; ++h) {
    const RunsHead& head = f.p.head[h];
    HeadInput<T> in{f.framed, z, true, scale};
    Matrix<T> value_in_frame;  // M^{-1} V_h M
    if (!f.p.is_frame_of_head) {
      const T* value = static_cast<const T*>(head.output);
      value_in_frame = solve<T>(frame, product<T>(Matrix<T>(value, value + f.d * f.d), frame, f.d), f.d);
      in.output = value_in_frame.data();
    }
    add_head<T>(f, head, in, out);
  }
  constrain<T>(f, z, out);
  for (int64_t row = 0; row < f.d; ++row)
    for (int64_t c = 0; c < f.d; ++c)
      for (int64_t i = 0; i < f.stride; i += Lanes<T, kBytes>::kCount)
        vector_at(out + row * f.stride + i) -= v[row * f.d + c] * vector_at(z + c * f.stride + i);
}

template <typename T>
INLINE void velocity_of(const Field<T>& f, T time, const T* x, T* out) {
  std::fill(out, out + f.size, T(0));
  if (f.p.space == kRescaled) return velocity_in_frame<T>(f, time, x, out);
  for (int64_t h = 0; h < f.p.heads; ++h) add_head<T>(f, f.p.head[h], {x, x}, out);
  if (f.p.slowness != kNoSlowness) slow_down<T>(f, time, out);
  constrain<T>(f, x, out);
}

FOR_EVERY_PROCESSOR void velocity(const Field<double>& f, double time, const double* x, double* out) {
  velocity_of<double>(f, time, x, out);
}

FOR_EVERY_PROCESSOR void velocity(const Field<float>& f, float time, const float* x, float* out) {
  velocity_of<float>(f, time, x, out);
}

}  // namespace
