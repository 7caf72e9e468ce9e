// Attention sums, sum_j w_ij v_j with w_ij = e^{<q_i, k_j> + c_j}, in one pass over the pairs.
//
// For each row: the logits are written to a buffer that stays in the first-level cache; then follow their maximum, one
// vectorised exponential for each pair, and the products with the values. No n x n array is written. Row i sees the
// columns from i - before to i + after; hidden columns cost nothing.
//
// Rows are independent of each other, so neither the number of threads nor the columns that a row does not see change a
// bit of its sums.

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

#include "simd.h"
#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kRowsPerBlock = 16;          // rows that a thread takes at a time
constexpr double kNegligibleExponent = 37.0;   // e^-37 < 2^-53: a smaller term does not change a sum in float64
constexpr int64_t kPairsPerThread = 1 << 17;   // with fewer pairs to sum, starting a thread costs more than it saves

// The arguments and results of one call, with keys and values transposed and padded to whole vectors.
template <typename T>
struct Problem {
  int64_t rows, columns, coordinates, channels;
  int64_t before, after;
  bool relative;  // subtract each row's maximum first
  bool scaled;    // multiply the differences to it by `scale`
  const int64_t* self = nullptr;  // (rows): the column of each row's own token, which is then hidden from the row
  T scale;
  const T* queries;
  const Vector<T>* keys;     // (coordinates, vectors)
  const Vector<T>* values;   // (channels, vectors)
  const Vector<T>* weights;  // (vectors): c_j
  int64_t vectors;
  T* sums;           // (rows, channels + 1): the last is the sum of the weights
  T* best = nullptr;  // (rows): the largest logit of each row, if it is to be returned
};

// The numbers 0, 1, ... of the lanes of a vector.
template <typename T>
INLINE Integers<T> lane_numbers() {
  Integers<T> numbers{};
  for (int lane = 0; lane < Lanes<T>::kCount; ++lane) numbers[lane] = lane;
  return numbers;
}

// The columns [first, last) that a row sees, which lie in the vectors [begin, end).
template <typename T>
struct View {
  int64_t first, last, begin, end;

  // Set the hidden lanes of the first and of the last vector to minus infinity.
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

// The logits of one row. kSize is the number of coordinates if it is known at compile time, which unrolls the inner
// loop, and 0 otherwise.
template <typename T, int kSize>
INLINE void scores_of_row(const Problem<T>& p, const T* query, const View<T>& view, Vector<T>* logits) {
  const int64_t size = kSize ? kSize : p.coordinates;
  for (int64_t v = view.begin; v < view.end; ++v) {
    Vector<T> score = query[0] * p.keys[v];
    for (int64_t c = 1; c < size; ++c) score += query[c] * p.keys[c * p.vectors + v];
    logits[v] = p.scaled ? score : score + p.weights[v];
  }
}

// The weights of one row and their sum; if kSize > 0, also the sums of all kSize channels of values in the same pass.
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

// The sums of all channels of values, from the weights of one row.
template <typename T>
INLINE void sum_channels(const Problem<T>& p, const Vector<T>* weights, const View<T>& view, T* sums) {
  for (int64_t channel = 0; channel < p.channels; ++channel) {
    Vector<T> total{};
    for (int64_t v = view.begin; v < view.end; ++v) total += weights[v] * p.values[channel * p.vectors + v];
    sums[channel] = sum_of_lanes<T>(total);
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
  if (p.scaled) {
    const T best = finite_maximum<T>(logits, view);
    for (int64_t v = view.begin; v < view.end; ++v) logits[v] = p.scale * (logits[v] - best) + p.weights[v];
    view.hide_ends(logits);  // again: a scale that has underflowed to zero turns minus infinity into NaN
  }
  if (p.relative) {
    const T best = finite_maximum<T>(logits, view);
    exponentials_of_row<T, kSize, true>(p, best, view, logits, sums);
  } else {
    exponentials_of_row<T, kSize, false>(p, T(0), view, logits, sums);
  }
  if (!kSize) sum_channels(p, logits, view, sums);
}

// The sums of a row that sees all columns but its own. Vectors of columns whose weights are negligible are left out, so
// that distant tokens cost no exponential.
INLINE void sum_row_of_others(const Problem<double>& p, int64_t row, Vector<double>* logits, int64_t* kept) {
  constexpr int count = Lanes<double>::kCount;
  const View<double> view{0, p.columns, 0, p.vectors};
  scores_of_row<double, 0>(p, p.queries + row * p.coordinates, view, logits);
  view.hide_ends(logits);
  logits[p.self[row] / count][p.self[row] % count] = -std::numeric_limits<double>::infinity();
  const double best = p.best[row] = finite_maximum<double>(logits, view);
  int64_t number = 0;
  for (int64_t v = 0; v < p.vectors; ++v) {
    kept[number] = v;
    number += !(largest_lane<double>(logits[v]) < best - kNegligibleExponent);  // NaN is kept
  }
  Vector<double> total{};
  for (int64_t k = 0; k < number; ++k) total += logits[k] = exponential<double, true>(logits[kept[k]] - best);
  double* sums = p.sums + row * (p.channels + 1);
  sums[p.channels] = sum_of_lanes<double>(total);
  for (int64_t channel = 0; channel < p.channels; ++channel) {
    Vector<double> sum{};
    for (int64_t k = 0; k < number; ++k) sum += logits[k] * p.values[channel * p.vectors + kept[k]];
    sums[channel] = sum_of_lanes<double>(sum);
  }
}

template <typename T, int kSize>
INLINE void sum_rows_of_size(const Problem<T>& p, int64_t begin, int64_t end, Vector<T>* logits) {
  for (int64_t row = begin; row < end; ++row) sum_row<T, kSize>(p, row, logits);
}

template <typename T>
INLINE void sum_rows_by_size(const Problem<T>& p, int64_t begin, int64_t end, Vector<T>* logits) {
  switch (p.coordinates == p.channels ? p.coordinates : 0) {
    case 1: return sum_rows_of_size<T, 1>(p, begin, end, logits);
    case 2: return sum_rows_of_size<T, 2>(p, begin, end, logits);
    case 3: return sum_rows_of_size<T, 3>(p, begin, end, logits);
    case 4: return sum_rows_of_size<T, 4>(p, begin, end, logits);
    default: return sum_rows_of_size<T, 0>(p, begin, end, logits);
  }
}

FOR_EVERY_PROCESSOR void sum_rows(const Problem<double>& p, int64_t begin, int64_t end, Vector<double>* logits) {
  if (!p.self) return sum_rows_by_size(p, begin, end, logits);
  std::vector<int64_t> kept(p.vectors + 1);
  for (int64_t row = begin; row < end; ++row) sum_row_of_others(p, row, logits, kept.data());
}

FOR_EVERY_PROCESSOR void sum_rows(const Problem<float>& p, int64_t begin, int64_t end, Vector<float>* logits) {
  sum_rows_by_size(p, begin, end, logits);
}

// The rows of a problem in blocks, which idle threads take one at a time; the calling thread takes blocks, too. It
// waits for the blocks that were taken, not for threads that have not started, so a busy pool cannot delay it.
template <typename T>
class Work {
 public:
  explicit Work(const Problem<T>& problem) : problem_(problem) {
    blocks_ = (problem.rows + kRowsPerBlock - 1) / kRowsPerBlock;
  }

  void take_part() {
    if (next_ >= blocks_) return;
    Vectors<T> logits(problem_.vectors);
    for (int64_t block = next_++; block < blocks_; block = next_++) {
      const int64_t begin = block * kRowsPerBlock;
      sum_rows(problem_, begin, std::min(problem_.rows, begin + kRowsPerBlock), logits.data());
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

// The memory of the keys, values and weights of a problem as vectors of columns; the problem points into it.
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
  const int64_t helpers = std::min(pool.num_threads() - 1, p.rows * p.columns / kPairsPerThread);
  for (int64_t helper = 0; helper < helpers; ++helper) pool.Schedule([work]() mutable { work->take_part(); });
  work->take_part();
  work->wait();
  return ffi::Error::Success();
}

}  // namespace

// The sums of rows that see all columns but their own (`self`), relative to the largest logit of each row (`best`), for
// NumPy arrays without XLA, on up to `threads` threads.
extern "C" void sums_of_others(int64_t rows, int64_t columns, int64_t coordinates, int64_t channels,
                               const double* queries, const double* keys, const double* values, const double* weights,
                               const int64_t* self, double* sums, double* best, int64_t threads) {
  Problem<double> p{};
  p.rows = rows, p.columns = columns, p.coordinates = coordinates, p.channels = channels;
  p.before = p.after = rows + columns, p.relative = true, p.self = self;
  p.queries = queries, p.sums = sums, p.best = best;
  const Columns<double> transposed(p, keys, values, weights);
  Work<double> work(p);
  std::vector<std::thread> helpers;
  const int64_t useful = std::min(threads - 1, rows * columns / kPairsPerThread);
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
