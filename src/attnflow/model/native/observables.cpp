// The observables of `solvers/observables.py` for many states, one number a state. Tokens are (states, n, d), row after row,
// and finite.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "pair_sums.h"
#include "simd.h"

namespace {

enum Observable { kMeanCosine = 0, kOrderParameter = 1, kDiameter = 2, kLargestNorm = 3, kEnergy = 4, kClosePairs = 5 };

// The tokens of a state, coordinate by coordinate, padded with zeros to whole vectors.
template <typename T>
class Observed {
  using V = Vector<T>;
  static constexpr int kCount = Lanes<T, kBytes>::kCount;

 public:
  Observed(int64_t n, int64_t d)
      : n_(n), d_(d), vectors_(padded(n) / kCount), memory_((d + 1) * vectors_), x_(memory_.data()), hidden_(x_ + d * vectors_) {
    std::fill(x_, x_ + d * vectors_, V{});
    for (int64_t i = 0; i < vectors_ * kCount; ++i) hidden_[i / kCount][i % kCount] = i < n ? T(0) : -infinity();
  }

  INLINE_MEMBER void read(const T* rows) {
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t c = 0; c < d_; ++c) at(c)[i] = rows[i * d_ + c];
  }

  INLINE_MEMBER T value(int64_t kind, T parameter) {
    const T pairs = T(std::max<int64_t>(n_ * (n_ - 1), 1));
    switch (kind) {
      case kMeanCosine: return (square_of_sum() - sum_of_squares()) / pairs;
      case kOrderParameter: return std::sqrt(square_of_sum()) / T(n_);
      case kDiameter: return std::sqrt(largest_distance());
      case kLargestNorm: return std::sqrt(largest_square());
      case kEnergy: return energy(parameter) / (T(n_) * T(n_));
      default: return close_pairs(parameter) / pairs;
    }
  }

 private:
  static constexpr T infinity() { return std::numeric_limits<T>::infinity(); }
  INLINE_MEMBER T* at(int64_t coordinate) { return reinterpret_cast<T*>(x_ + coordinate * vectors_); }

  INLINE_MEMBER T square_of_sum() {
    T square = 0;
    for (int64_t c = 0; c < d_; ++c) {
      V sum{};
      for (int64_t v = 0; v < vectors_; ++v) sum += x_[c * vectors_ + v];
      const T total = sum_of_lanes<T>(sum);
      square += total * total;
    }
    return square;
  }

  INLINE_MEMBER T sum_of_squares() {
    V sum{};
    for (int64_t v = 0; v < d_ * vectors_; ++v) sum += x_[v] * x_[v];
    return sum_of_lanes<T>(sum);
  }

  INLINE_MEMBER T largest_square() {
    V largest{};
    for (int64_t v = 0; v < vectors_; ++v) {
      V square{};
      for (int64_t c = 0; c < d_; ++c) square += x_[c * vectors_ + v] * x_[c * vectors_ + v];
      largest = square > largest ? square : largest;
    }
    return largest_lane<T>(largest);
  }

  // The largest |x_i - x_j|^2; that of padding is -infinity.
  INLINE_MEMBER T largest_distance() {
    V largest{};
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t v = i / kCount; v < vectors_; ++v) {
        V square = hidden_[v];
        for (int64_t c = 0; c < d_; ++c) {
          const V difference = x_[c * vectors_ + v] - at(c)[i];
          square += difference * difference;
        }
        largest = square > largest ? square : largest;
      }
    return largest_lane<T>(largest);
  }

  INLINE_MEMBER V inner_products(int64_t i, int64_t v) {
    V product{};
    for (int64_t c = 0; c < d_; ++c) product += at(c)[i] * x_[c * vectors_ + v];
    return product;
  }

  // sum_ij e^{beta (<x_i, x_j> - 1)}, row by row.
  INLINE_MEMBER T energy(T beta) {
    T total = 0;
    for (int64_t i = 0; i < n_; ++i) {
      V row{};
      for (int64_t v = 0; v < vectors_; ++v)
        row += exponential<T, Exponents::kAny>(beta * (inner_products(i, v) - T(1)) + hidden_[v]);
      total += sum_of_lanes<T>(row);
    }
    return total;
  }

  // The number of ordered pairs of different tokens with <x_i, x_j> above the limit. Products of a token with itself are
  // formed like all others, so that they are counted and subtracted by the same rule.
  INLINE_MEMBER T close_pairs(T limit) {
    V count{};
    T selves = 0;
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t v = 0; v < vectors_; ++v) count += inner_products(i, v) + hidden_[v] > limit ? V{} + T(1) : V{};
      selves += inner_products(i, i / kCount)[i % kCount] > limit;
    }
    return sum_of_lanes<T>(count) - selves;
  }

  const int64_t n_, d_, vectors_;
  Vectors<T> memory_;
  V* const x_;
  V* const hidden_;  // zero for tokens, -infinity for padding
};

template <typename T>
INLINE void observe(Observed<T>& state, int64_t kind, T parameter, int64_t states, int64_t size, const T* tokens, T* values) {
  for (int64_t k = 0; k < states; ++k) {
    state.read(tokens + k * size);
    values[k] = state.value(kind, parameter);
  }
}

FOR_EVERY_PROCESSOR void observe_all(Observed<double>& state, int64_t kind, double parameter, int64_t states, int64_t size,
                                     const double* tokens, double* values) {
  observe<double>(state, kind, parameter, states, size, tokens, values);
}
FOR_EVERY_PROCESSOR void observe_all(Observed<float>& state, int64_t kind, float parameter, int64_t states, int64_t size,
                                     const float* tokens, float* values) {
  observe<float>(state, kind, parameter, states, size, tokens, values);
}

template <typename T>
void observe_states_of(int64_t kind, double parameter, int64_t states, int64_t n, int64_t d, const void* tokens, void* values) {
  Observed<T> state(n, d);
  observe_all(state, kind, T(parameter), states, n * d, static_cast<const T*>(tokens), static_cast<T*>(values));
}

}  // namespace

// The values of an observable, with its parameter if it has one. Numbers have 8 bytes, or 4.
extern "C" void observe_states(int64_t bytes_per_number, int64_t kind, double parameter, int64_t states, int64_t n, int64_t d,
                               const void* tokens, void* values) {
  if (bytes_per_number == 8) return observe_states_of<double>(kind, parameter, states, n, d, tokens, values);
  observe_states_of<float>(kind, parameter, states, n, d, tokens, values);
}
