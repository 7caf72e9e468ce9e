// What the native kernels share: vectors of floats, their exponential, and aligned memory for them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
// One build serves every x86 machine: the loader picks the variant its processor has.
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

namespace {

// The constants of a floating-point type that the exponential needs.
template <typename T>
struct Float;

template <>
struct Float<double> {
  using Integer = int64_t;
  static constexpr int kMantissa = 52;
  static constexpr int64_t kBias = 1023;
  static constexpr double kRounder = 0x1.8p52;
  static constexpr double kLowest = -707.0, kHighest = 709.782712893384;
  static constexpr double kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
  static constexpr int kDegree = 12;
};

template <>
struct Float<float> {
  using Integer = int32_t;
  static constexpr int kMantissa = 23;
  static constexpr int32_t kBias = 127;
  static constexpr float kRounder = 0x1.8p23f;
  static constexpr float kLowest = -86.0f, kHighest = 88.72283f;
  static constexpr float kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr int kDegree = 7;
};

constexpr int kBytes = 32;
template <typename T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kBytes), aligned(kBytes)));
  typedef typename Float<T>::Integer Integers __attribute__((vector_size(kBytes), aligned(kBytes)));
  static constexpr int kCount = kBytes / sizeof(T);
};
template <typename T>
using Vector = typename Lanes<T>::Vector;
template <typename T>
using Integers = typename Lanes<T>::Integers;

constexpr double inverse_factorial(int k) { return k < 2 ? 1.0 : inverse_factorial(k - 1) / k; }

// The sum of kTerms terms x^(k - kFirst) / k! from k = kFirst on; squares[j] is x^(2^j). The two halves are summed
// independently (Estrin's scheme), since a chain of twelve dependent operations would leave the processor idle.
template <typename T, int kFirst, int kTerms, int kLevel>
INLINE Vector<T> series(const Vector<T>* squares) {
  if constexpr (kTerms == 1) {
    return Vector<T>{} + T(inverse_factorial(kFirst));
  } else if constexpr (kTerms <= (1 << kLevel)) {
    return series<T, kFirst, kTerms, kLevel - 1>(squares);
  } else {
    constexpr int half = 1 << kLevel;
    return series<T, kFirst, half, kLevel - 1>(squares) +
           squares[kLevel] * series<T, kFirst + half, kTerms - half, kLevel - 1>(squares);
  }
}

// e^x to two units in the last place; zero below kLowest, infinity above kHighest, NaN for NaN. If x is known to be
// negative, zero or NaN, the upper limit is not checked.
template <typename T, bool kNeverPositive>
INLINE Vector<T> exponential(Vector<T> x) {
  using F = Float<T>;
  const Vector<T> shifted = x * T(1.4426950408889634) + F::kRounder;
  const Vector<T> whole = shifted - F::kRounder;
  const Vector<T> rest = (x - whole * F::kLn2High) - whole * F::kLn2Low;
  const Vector<T> second = rest * rest, fourth = second * second;
  const Vector<T> squares[] = {rest, second, fourth, fourth * fourth};
  const Vector<T> fraction = series<T, 0, F::kDegree + 1, 3>(squares);
  // The low bits of `shifted` hold the rounded exponent of two.
  if constexpr (kNeverPositive) {
    const Integers<T> power_of_two = ((Integers<T>)shifted + F::kBias) << F::kMantissa;
    return x < F::kLowest ? Vector<T>{} : fraction * (Vector<T>)power_of_two;
  }
  // One factor of two is applied to the fraction, so that the power of two of the largest results is finite.
  const Integers<T> power_of_two = ((Integers<T>)shifted + (F::kBias - 1)) << F::kMantissa;
  Vector<T> result = (fraction + fraction) * (Vector<T>)power_of_two;
  result = x < F::kLowest ? Vector<T>{} : result;
  return x > F::kHighest ? Vector<T>{} + std::numeric_limits<T>::infinity() : result;
}

template <typename T>
INLINE T largest_lane(Vector<T> values) {
  T largest = values[0];
  for (int lane = 1; lane < Lanes<T>::kCount; ++lane) largest = values[lane] > largest ? values[lane] : largest;
  return largest;
}

template <typename T>
INLINE T sum_of_lanes(Vector<T> values) {
  for (int width = Lanes<T>::kCount / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) values[lane] += values[lane + width];
  return values[0];
}

// Memory for a number of vectors, at an aligned address.
template <typename T>
class Vectors {
 public:
  explicit Vectors(int64_t size) : bytes_((size + 1) * kBytes) {
    void* start = bytes_.data();
    size_t space = bytes_.size();
    vectors_ = static_cast<Vector<T>*>(std::align(kBytes, size * kBytes, start, space));
  }
  Vector<T>* data() { return vectors_; }

 private:
  std::vector<char> bytes_;
  Vector<T>* vectors_;
};

}  // namespace
