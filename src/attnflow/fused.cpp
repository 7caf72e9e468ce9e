// Sums of attention, sum_j w_ij v_j with w_ij = e^{<q_i, k_j> + c_j}, in one pass over the pairs.
//
// Per row: logits into a buffer that stays in the first-level cache, their maximum, one vectorised
// exponential a pair, and the products with the values. No n x n array is ever written. A row sees
// the columns from i - before to i + after; hidden columns cost nothing.
//
// Rows are independent of each other, so neither the number of threads nor the tokens a row
// does not see change a single bit of its sums.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__)
// One build serves every x86 machine: the loader picks the variant its processor has.
#define FOR_EVERY_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EVERY_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))
#define INLINE_MEMBER inline __attribute__((always_inline))

namespace {

constexpr int64_t kRowsAtOnce = 16;              // the unit of work handed to a thread
constexpr int64_t kPairsWorthAThread = 1 << 17;  // below this a second thread costs more than it saves

// What the exponential needs to know of a floating-point type.
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

// The terms x^k / k! for k = kFirst, ..., divided by x^kFirst; squares[j] is x^(2^j). Halves are summed apart, since a
// chain of twelve dependent operations would leave the processor waiting.
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

// e^x to two units in the last place; zero below kLowest, infinity above kHighest, NaN for NaN. Where x is known
// not to be positive (or to be NaN) the upper end needs no care.
template <typename T, bool kNeverPositive>
INLINE Vector<T> exponential(Vector<T> x) {
  using F = Float<T>;
  const Vector<T> shifted = x * T(1.4426950408889634) + F::kRounder;
  const Vector<T> whole = shifted - F::kRounder;
  const Vector<T> rest = (x - whole * F::kLn2High) - whole * F::kLn2Low;
  const Vector<T> second = rest * rest, fourth = second * second;
  const Vector<T> squares[] = {rest, second, fourth, fourth * fourth};
  const Vector<T> fraction = series<T, 0, F::kDegree + 1, 3>(squares);
  // The rounded number of doublings sits in the low bits of `shifted`.
  if constexpr (kNeverPositive) {
    const Integers<T> power_of_two = ((Integers<T>)shifted + F::kBias) << F::kMantissa;
    return x < F::kLowest ? Vector<T>{} : fraction * (Vector<T>)power_of_two;
  }
  // One doubling is done apart, so that the largest results do not pass through infinity.
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

// The problem, with keys and values transposed and padded to whole vectors.
template <typename T>
struct Problem {
  int64_t rows, columns, coordinates, channels;
  int64_t before, after;
  bool relative;  // subtract each row's maximum first
  bool scaled;    // multiply the differences to it by `scale`
  bool skip_self = false;
  T scale;
  const T* queries;
  const Vector<T>* keys;     // (coordinates, vectors)
  const Vector<T>* values;   // (channels, vectors)
  const Vector<T>* weights;  // (vectors): c_j
  int64_t vectors;
  T* sums;           // (rows, channels + 1): the last is the sum of the weights
  T* best = nullptr;  // (rows): the logarithm that a row's weights are relative to, where it is wanted
};

// The lanes' columns, counted from the first column of a vector.
template <typename T>
INLINE Integers<T> lane_numbers() {
  Integers<T> numbers{};
  for (int lane = 0; lane < Lanes<T>::kCount; ++lane) numbers[lane] = lane;
  return numbers;
}

// What a row sees: columns [first, last), which lie in the vectors [begin, end).
template <typename T>
struct View {
  int64_t first, last, begin, end;

  // Minus infinity in the lanes of the first and the last vector that are not seen.
  INLINE_MEMBER void hide_ends(Vector<T>* logits) const {
    const Vector<T> nothing = Vector<T>{} - std::numeric_limits<T>::infinity();
    for (const int64_t v : {begin, end - 1}) {
      const Integers<T> columns = lane_numbers<T>() + typename Float<T>::Integer(v * Lanes<T>::kCount);
      logits[v] = columns < typename Float<T>::Integer(first) ? nothing : logits[v];
      logits[v] = columns >= typename Float<T>::Integer(last) ? nothing : logits[v];
    }
  }
};

template <typename T>
INLINE T finite_maximum(const Vector<T>* logits, const View<T>& view) {
  Vector<T> largest = Vector<T>{} - std::numeric_limits<T>::infinity();
  for (int64_t v = view.begin; v < view.end; ++v) largest = logits[v] > largest ? logits[v] : largest;
  const T maximum = largest_lane<T>(largest);
  const bool finite = maximum - maximum == 0;
  return finite ? maximum : T(0);
}

// kSize is the number of coordinates where it is known at compile time, which unrolls the inner loop, else 0.
template <typename T, int kSize>
INLINE void scores_of_row(const Problem<T>& p, const T* query, const View<T>& view, Vector<T>* logits) {
  const int64_t size = kSize ? kSize : p.coordinates;
  for (int64_t v = view.begin; v < view.end; ++v) {
    Vector<T> score = query[0] * p.keys[v];
    for (int64_t c = 1; c < size; ++c) score += query[c] * p.keys[c * p.vectors + v];
    logits[v] = p.scaled ? score : score + p.weights[v];
  }
}

// Weights from logits, and their sums, with kSize channels of values in the same pass.
template <typename T, int kSize, bool kRelative>
INLINE void exponentials_of_row(const Problem<T>& p, T best, const View<T>& view, Vector<T>* logits, T* sums) {
  Vector<T> total{}, channels[kSize ? kSize : 1] = {};
  for (int64_t v = view.begin; v < view.end; ++v) {
    const Vector<T> weight = exponential<T, kRelative>(logits[v] - best);
    total += weight;
    for (int c = 0; c < kSize; ++c) channels[c] += weight * p.values[c * p.vectors + v];
    if (!kSize) logits[v] = weight;
  }
  for (int c = 0; c < kSize; ++c) sums[c] = sum_of_lanes<T>(channels[c]);
  sums[p.channels] = sum_of_lanes<T>(total);
}

template <typename T>
INLINE void sum_channels(const Problem<T>& p, const Vector<T>* weights, const View<T>& view, T* sums) {
  for (int64_t channel = 0; channel < p.channels; ++channel) {
    Vector<T> one{};
    for (int64_t v = view.begin; v < view.end; ++v) one += weights[v] * p.values[channel * p.vectors + v];
    sums[channel] = sum_of_lanes<T>(one);
  }
}

template <typename T, int kSize>
INLINE void sum_row(const Problem<T>& p, int64_t row, Vector<T>* logits) {
  constexpr int count = Lanes<T>::kCount;
  const int64_t first = std::max<int64_t>(0, row - p.before);
  const int64_t last = std::min<int64_t>(p.columns, row + p.after + 1);
  T* sums = p.sums + row * (p.channels + 1);
  if (first >= last) return std::fill(sums, sums + p.channels + 1, T(0));
  const View<T> view{first, last, first / count, (last + count - 1) / count};
  scores_of_row<T, kSize>(p, p.queries + row * p.coordinates, view, logits);
  view.hide_ends(logits);
  if (p.skip_self) logits[row / count][row % count] = -std::numeric_limits<T>::infinity();
  if (p.scaled) {
    const T best = finite_maximum<T>(logits, view);
    for (int64_t v = view.begin; v < view.end; ++v) logits[v] = p.scale * (logits[v] - best) + p.weights[v];
    view.hide_ends(logits);  // again: a scale that has underflowed to zero makes NaN of minus infinity
  }
  if (p.relative) {
    const T best = finite_maximum<T>(logits, view);
    if (p.best) p.best[row] = best;
    exponentials_of_row<T, kSize, true>(p, best, view, logits, sums);
  } else {
    exponentials_of_row<T, kSize, false>(p, T(0), view, logits, sums);
  }
  if (!kSize) sum_channels(p, logits, view, sums);
}

template <typename T, int kSize>
INLINE void sum_some_rows(const Problem<T>& p, int64_t begin, int64_t end, Vector<T>* logits) {
  for (int64_t row = begin; row < end; ++row) sum_row<T, kSize>(p, row, logits);
}

template <typename T>
INLINE void sum_rows_by_size(const Problem<T>& p, int64_t begin, int64_t end, Vector<T>* logits) {
  switch (p.coordinates == p.channels ? p.coordinates : 0) {
    case 1: return sum_some_rows<T, 1>(p, begin, end, logits);
    case 2: return sum_some_rows<T, 2>(p, begin, end, logits);
    case 3: return sum_some_rows<T, 3>(p, begin, end, logits);
    case 4: return sum_some_rows<T, 4>(p, begin, end, logits);
    default: return sum_some_rows<T, 0>(p, begin, end, logits);
  }
}

FOR_EVERY_PROCESSOR void sum_rows(const Problem<double>& p, int64_t begin, int64_t end, Vector<double>* logits) {
  sum_rows_by_size(p, begin, end, logits);
}

FOR_EVERY_PROCESSOR void sum_rows(const Problem<float>& p, int64_t begin, int64_t end, Vector<float>* logits) {
  sum_rows_by_size(p, begin, end, logits);
}

// Memory for a number of vectors, at an address they may live at.
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

// Blocks of rows are taken by whoever is free, the caller included. The caller waits for the blocks that were
// taken, never for a thread that has not begun: it cannot be held up by a busy pool.
template <typename T>
class Work {
 public:
  explicit Work(const Problem<T>& problem) : problem_(problem) {
    blocks_ = (problem.rows + kRowsAtOnce - 1) / kRowsAtOnce;
  }

  void take_part() {
    if (next_ >= blocks_) return;
    Vectors<T> logits(problem_.vectors);
    for (int64_t block = next_++; block < blocks_; block = next_++) {
      const int64_t begin = block * kRowsAtOnce;
      sum_rows(problem_, begin, std::min(problem_.rows, begin + kRowsAtOnce), logits.data());
      if (++done_ == blocks_) {
        std::lock_guard<std::mutex> lock(mutex_);
        finished_.notify_all();
      }
    }
  }

  void wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    finished_.wait(lock, [this] { return done_ == blocks_; });
  }

 private:
  const Problem<T> problem_;
  int64_t blocks_;
  std::atomic<int64_t> next_{0}, done_{0};
  std::mutex mutex_;
  std::condition_variable finished_;
};

template <typename T>
void transpose(const T* from, int64_t rows, int64_t columns, int64_t vectors, Vector<T>* into) {
  T* out = reinterpret_cast<T*>(into);
  const int64_t stride = vectors * Lanes<T>::kCount;
  std::fill(out, out + columns * stride, T(0));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) out[column * stride + row] = from[row * columns + column];
}

// The columns of a problem as vectors, which it points into.
template <typename T>
class Columns {
 public:
  Columns(Problem<T>& p, const T* keys, const T* values, const T* weights)
      : vectors_((p.columns + Lanes<T>::kCount - 1) / Lanes<T>::kCount),
        memory_(vectors_ * (p.coordinates + p.channels + 1)) {
    Vector<T>* key_columns = memory_.data();
    Vector<T>* value_columns = key_columns + vectors_ * p.coordinates;
    Vector<T>* weight_column = value_columns + vectors_ * p.channels;
    transpose(keys, p.columns, p.coordinates, vectors_, key_columns);
    transpose(values, p.columns, p.channels, vectors_, value_columns);
    transpose(weights, p.columns, 1, vectors_, weight_column);
    p.vectors = vectors_, p.keys = key_columns, p.values = value_columns, p.weights = weight_column;
  }

 private:
  int64_t vectors_;
  Vectors<T> memory_;
};

template <ffi::DataType kType>
ffi::Error weighted_sums(ffi::ThreadPool pool, ffi::Buffer<kType> queries, ffi::Buffer<kType> keys,
                         ffi::Buffer<kType> values, ffi::Buffer<kType> weights, ffi::Buffer<kType> scale,
                         ffi::ResultBuffer<kType> sums, int64_t before, int64_t after, bool relative, bool scaled) {
  using T = ffi::NativeType<kType>;
  const auto query_shape = queries.dimensions(), value_shape = values.dimensions();
  Problem<T> p{};
  p.rows = query_shape[0], p.columns = value_shape[0], p.coordinates = query_shape[1], p.channels = value_shape[1];
  p.before = before, p.after = after, p.relative = relative, p.scaled = scaled, p.scale = *scale.typed_data();
  p.queries = queries.typed_data(), p.sums = sums->typed_data();
  const Columns<T> columns(p, keys.typed_data(), values.typed_data(), weights.typed_data());
  auto work = std::make_shared<Work<T>>(p);
  const int64_t helpers = std::min(pool.num_threads() - 1, p.rows * p.columns / kPairsWorthAThread);
  for (int64_t helper = 0; helper < helpers; ++helper) pool.Schedule([work]() mutable { work->take_part(); });
  work->take_part();
  work->wait();
  return ffi::Error::Success();
}

}  // namespace

// The same for NumPy arrays, without XLA: every row sees all others but not itself, relative to its best, on `threads`
// threads.
extern "C" void sums_of_others(int64_t rows, int64_t coordinates, int64_t channels, const double* queries,
                               const double* keys, const double* values, const double* weights, double* sums,
                               double* best, int64_t threads) {
  Problem<double> p{};
  p.rows = p.columns = rows, p.coordinates = coordinates, p.channels = channels;
  p.before = p.after = rows, p.relative = true, p.skip_self = true;
  p.queries = queries, p.sums = sums, p.best = best;
  const Columns<double> columns(p, keys, values, weights);
  Work<double> work(p);
  std::vector<std::thread> helpers;
  const int64_t useful = std::min(threads - 1, rows * rows / kPairsWorthAThread);
  for (int64_t helper = 0; helper < useful; ++helper) helpers.emplace_back([&work] { work.take_part(); });
  work.take_part();
  for (std::thread& helper : helpers) helper.join();
}

#define DEFINE(name, type)                                                                                         \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, weighted_sums<type>,                                                         \
                                ffi::Ffi::Bind()                                                                   \
                                    .Ctx<ffi::ThreadPool>()                                                        \
                                    .Arg<ffi::Buffer<type>>()                                                      \
                                    .Arg<ffi::Buffer<type>>()                                                      \
                                    .Arg<ffi::Buffer<type>>()                                                      \
                                    .Arg<ffi::Buffer<type>>()                                                      \
                                    .Arg<ffi::Buffer<type>>()                                                      \
                                    .Ret<ffi::Buffer<type>>()                                                      \
                                    .Attr<int64_t>("before")                                                       \
                                    .Attr<int64_t>("after")                                                        \
                                    .Attr<bool>("relative")                                                        \
                                    .Attr<bool>("scaled"))

DEFINE(WeightedSumsF64, ffi::F64);
DEFINE(WeightedSumsF32, ffi::F32);
