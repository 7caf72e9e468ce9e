// What the native kernels share: vectors of floats, their exponential, and aligned memory for them.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

// One build serves every x86-64 machine: functions have a variant for each level of vector instructions, and the one for
// the processor at hand is chosen when the library runs. With FOR_ONE_PROCESSOR defined, there is one variant, for the
// processor that the compiler is told to build for. GCC knows the levels by name from version 12 on.
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#define LEVEL_OF_AVX512 "arch=x86-64-v4"
#define LEVEL_OF_AVX2 "arch=x86-64-v3"
#define CLONE_OF_AVX512 LEVEL_OF_AVX512
#define CLONE_OF_AVX2 LEVEL_OF_AVX2
#else
#define LEVEL_OF_AVX512 "avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"
#define LEVEL_OF_AVX2 "avx2,fma"
#define CLONE_OF_AVX512 "avx512f"  // a clone has one feature
#define CLONE_OF_AVX2 "avx2"
#endif
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(FOR_ONE_PROCESSOR)
#define FOR_EVERY_PROCESSOR __attribute__((target_clones(CLONE_OF_AVX512, CLONE_OF_AVX2, "default")))
#else
#define FOR_EVERY_PROCESSOR  // the system's loader cannot choose among clones
#endif
#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

namespace {

// The constants of a floating-point type that the exponential needs. kSeries are the coefficients of r, r^2, ... in the
// polynomial with constant term one that is nearest to e^r, in relative error, for |r| <= log(2) / 2. Its error is 2e-17
// in float64 and 3e-9 in float32.
template <typename T>
struct Float;

template <>
struct Float<double> {
  using Integer = int64_t;
  static constexpr int kMantissa = 52;
  static constexpr double kRounder = 0x1.8p52, kBias = 1023.0;
  static constexpr double kLowest = -707.0, kHighest = 709.782712893384;
  static constexpr double kLn2High = 0x1.62e42fefa0000p-1, kLn2Low = 0x1.cf79abc9e3b3ap-40;
  static constexpr int kDegree = 11;
  static constexpr double kSeries[kDegree] = {
      0x1.0000000000003p+0,  0x1.0000000000005p-1,  0x1.5555555554825p-3,  0x1.55555555520ecp-5,
      0x1.111111137a245p-7,  0x1.6c16c17f35dd1p-10, 0x1.a019f6252d41cp-13, 0x1.a019a68f8f455p-16,
      0x1.71f6101337804p-19, 0x1.28a29f67e4c72p-22, 0x1.8ad127a2a3f3fp-26,
  };
};

template <>
struct Float<float> {
  using Integer = int32_t;
  static constexpr int kMantissa = 23;
  static constexpr float kRounder = 0x1.8p23f, kBias = 127.0f;
  static constexpr float kLowest = -86.0f, kHighest = 88.72283f;
  static constexpr float kLn2High = 0x1.62e400p-1f, kLn2Low = 0x1.7f7d1cp-20f;
  static constexpr int kDegree = 6;
  static constexpr float kSeries[kDegree] = {
      0x1.000000d555af0p+0f, 0x1.00000175565a7p-1f, 0x1.5553c0dea898bp-3f,
      0x1.55515e99c0b9ap-5f, 0x1.129051970c657p-7f, 0x1.709b99113695cp-10f,
  };
};

// Bytes of a vector, where a kernel does not choose its own width. Clang refuses to pass wider vectors than all
// processors have.
#if defined(__clang__)
constexpr int kBytes = 16;
#else
constexpr int kBytes = 32;
#endif
template <typename T, int kWidth>
struct Lanes {
  typedef T Vector __attribute__((vector_size(kWidth), aligned(kWidth)));
  typedef typename Float<T>::Integer Integers __attribute__((vector_size(kWidth), aligned(kWidth)));
  static constexpr int kCount = kWidth / sizeof(T);
};
template <typename T, int kWidth = kBytes>
using Vector = typename Lanes<T, kWidth>::Vector;
template <typename T, int kWidth = kBytes>
using Integers = typename Lanes<T, kWidth>::Integers;

// The numbers 0, 1, ... of the lanes of a vector.
template <typename T, int kWidth = kBytes>
INLINE Integers<T, kWidth> lane_numbers() {
  Integers<T, kWidth> numbers{};
  for (int lane = 0; lane < Lanes<T, kWidth>::kCount; ++lane) numbers[lane] = lane;
  return numbers;
}

// What is known of the exponents x of an exponential. kSafe: they are NaN or so far from the limits that e^x is a normal
// number. kNeverPositive: they are negative, zero or NaN.
enum class Exponents { kAny, kNeverPositive, kSafe };

// Replace kCount vectors x by e^x, to one unit in the last place: x = k log 2 + r, e^x = 2^k e^r. It is zero below
// kLowest, infinity above kHighest, NaN for NaN. Vectors advance together, since each alone is a chain of dependent
// operations.
template <typename T, Exponents kKnown, int kWidth, int kCount>
INLINE void exponentials(Vector<T, kWidth>* x) {
  using F = Float<T>;
  using V = Vector<T, kWidth>;
  using I = Integers<T, kWidth>;
  // The low bits of `shifted` hold the exponent of 2^k with its bias. If 2^k may overflow where e^x does not, it is
  // halved, and e^r is doubled.
  constexpr bool halved = kKnown == Exponents::kAny;
  constexpr T rounder = F::kRounder + F::kBias - (halved ? 1 : 0);
  V shifted[kCount], rest[kCount], fraction[kCount];
  for (int v = 0; v < kCount; ++v) {
    shifted[v] = x[v] * T(1.4426950408889634) + rounder;
    const V k = shifted[v] - rounder;
    rest[v] = (x[v] - k * F::kLn2High) - k * F::kLn2Low;
    fraction[v] = V{} + F::kSeries[F::kDegree - 1];
  }
  for (int power = F::kDegree - 2; power >= 0; --power)
    for (int v = 0; v < kCount; ++v) fraction[v] = fraction[v] * rest[v] + F::kSeries[power];
  for (int v = 0; v < kCount; ++v) {
    fraction[v] = fraction[v] * rest[v] + T(1);
    if (halved) fraction[v] += fraction[v];
    V result = fraction[v] * (V)((I)shifted[v] << F::kMantissa);
    if (kKnown != Exponents::kSafe) result = x[v] < F::kLowest ? V{} : result;
    if (kKnown == Exponents::kAny) result = x[v] > F::kHighest ? V{} + std::numeric_limits<T>::infinity() : result;
    x[v] = result;
  }
}

template <typename T, Exponents kKnown>
INLINE Vector<T> exponential(Vector<T> x) {
  exponentials<T, kKnown, kBytes, 1>(&x);
  return x;
}

// Call `work.run<width>()` with the width, in bytes, of the widest vectors that the processor has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(FOR_ONE_PROCESSOR)
constexpr bool kHasWiderVectors = true;  // some processors of this kind have vectors of more than 16 bytes
template <typename Work>
__attribute__((target(LEVEL_OF_AVX512))) void with_avx512(const Work& work) { work.template run<64>(); }
template <typename Work>
__attribute__((target(LEVEL_OF_AVX2))) void with_avx2(const Work& work) { work.template run<32>(); }
template <typename Work>
void with_sse(const Work& work) { work.template run<16>(); }

template <typename Work>
void with_widest_vectors(const Work& work) {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  static const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                                 __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  has_avx512 ? with_avx512(work) : has_avx2 ? with_avx2(work) : with_sse(work);
}
#else
constexpr bool kHasWiderVectors = false;
#if defined(__AVX512F__)
constexpr int kWidestVector = 64;
#elif defined(__AVX2__)
constexpr int kWidestVector = 32;
#else
constexpr int kWidestVector = 16;
#endif
template <typename Work>
void with_widest_vectors(const Work& work) { work.template run<kWidestVector>(); }
#endif

template <typename T>
INLINE T largest_lane(Vector<T> values) {
  T largest = values[0];
  for (int lane = 1; lane < Lanes<T, kBytes>::kCount; ++lane) largest = values[lane] > largest ? values[lane] : largest;
  return largest;
}

template <typename T>
INLINE T sum_of_lanes(Vector<T> values) {
  for (int width = Lanes<T, kBytes>::kCount / 2; width > 0; width /= 2)
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
