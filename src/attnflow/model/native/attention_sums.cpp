// The XLA call of `pair_sums.h`: attention sums of one or many sets of tokens, on the threads of XLA's pool; and the call
// for NumPy arrays, on threads of its own.
//
// XLA's arrays are token-major, so each set is copied to the layout of `pair_sums.h` and its sums are copied back. Where
// queries and keys are the same numbers, scores are symmetric, and a small set is summed by `symmetric_sums.h`.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "pair_sums.h"
#include "symmetric_sums.h"
#include "xla_calls.h"

namespace {

// The arguments and results of one call, token-major, for a number of sets of tokens of the same size.
template <typename Real>
struct Call {
  int64_t sets;
  PairProblem<Real> shape;  // sizes and options; no arrays
  const Real *queries, *keys, *values, *log_weights, *factors, *scales;
  Real* sums;

  bool is_small() const { return shape.value_size <= kMostSymmetricSize && shape.columns <= kMostSymmetric; }

  int64_t memory() const {
    const int64_t received = is_small() ? symmetric_memory<Real>(shape.stride, shape.value_size) : 0;
    return shape.stride * (2 * shape.key_size + 2 * shape.value_size + 1 + 6) + received;
  }

  bool are_same(const Real* first, const Real* second, int64_t set) const {
    if (shape.rows != shape.columns || shape.key_size != shape.value_size) return false;
    const int64_t size = shape.rows * shape.key_size;
    return first == second || std::memcmp(first + set * size, second + set * size, size * sizeof(Real)) == 0;
  }

  // The problem of one set, with its arrays in `memory`, of which the rest begins at `memory` on return.
  INLINE_MEMBER PairProblem<Real> problem(int64_t set, Real*& memory) const {
    PairProblem<Real> p = shape;
    const auto take = [&](int64_t size) { return std::exchange(memory, memory + size * p.stride); };
    const auto copied = [&](const Real* from, int64_t tokens, int64_t size) {
      Real* const into = take(size);
      by_coordinate(from + set * tokens * size, tokens, size, p.stride, into);
      return into;
    };
    p.keys = copied(keys, p.columns, p.key_size);
    p.values = are_same(values, keys, set) ? p.keys : copied(values, p.columns, p.value_size);
    Real* const scaled = are_same(queries, keys, set) ? take(p.key_size) : copied(queries, p.rows, p.key_size);
    const Real* const unscaled = are_same(queries, keys, set) ? p.keys : scaled;
    for (int64_t k = 0; k < p.key_size * p.stride; ++k) scaled[k] = factors[set] * unscaled[k];
    p.queries = scaled;
    p.log_weights = log_weights ? copied(log_weights, p.columns, 1) : nullptr;
    p.scale = scales[set];
    p.sums = take(p.value_size + 1);
    Real* const bounds = take(1);
    if (!p.scaled) score_bounds(p, take(4), bounds);
    p.bounds = bounds;
    return p;
  }

  // All sums of one small set.
  INLINE_MEMBER void sum_set(int64_t set, Real* memory) const {
    const PairProblem<Real> p = problem(set, memory);
    const bool is_symmetric = is_small() && are_same(queries, keys, set) && !p.scaled;
    // With full visibility all rows have the bound of the longest key.
    if (is_symmetric && serves_symmetric<Real>(p, *std::max_element(p.bounds, p.bounds + p.rows)))
      symmetric_sums(p, memory);
    else
      pair_sums(p, 0, p.rows);
    return_rows(p, set, 0, p.rows);
  }

  INLINE_MEMBER void return_rows(const PairProblem<Real>& p, int64_t set, int64_t begin, int64_t end) const {
    const int64_t size = p.value_size + 1;
    by_token(p.sums + begin, end - begin, size, p.stride, sums + (set * p.rows + begin) * size);
  }
};

FOR_EVERY_PROCESSOR void sum_sets(const Call<double>& call, int64_t begin, int64_t end, double* memory) {
  for (int64_t set = begin; set < end; ++set) call.sum_set(set, memory);
}
FOR_EVERY_PROCESSOR void sum_sets(const Call<float>& call, int64_t begin, int64_t end, float* memory) {
  for (int64_t set = begin; set < end; ++set) call.sum_set(set, memory);
}

template <typename Real>
void run_call(ffi::ThreadPool& pool, const Call<Real>& call) {
  const int64_t rows = call.shape.rows, pairs = std::max<int64_t>(1, rows * call.shape.columns);
  if (pairs <= kPairsPerTask) {
    const int64_t sets_per_task = kPairsPerTask / pairs;
    run_tasks(pool, (call.sets + sets_per_task - 1) / sets_per_task, [&](int64_t task) {
      Real* const memory = thread_memory<Real>(call.memory());
      sum_sets(call, task * sets_per_task, std::min(call.sets, (task + 1) * sets_per_task), memory);
    });
    return;
  }
  const int64_t rows_per_task = padded(std::max<int64_t>(1, kPairsPerTask / call.shape.columns));
  for (int64_t set = 0; set < call.sets; ++set) {
    Real* memory = thread_memory<Real>(call.memory());
    const PairProblem<Real> p = call.problem(set, memory);
    run_tasks(pool, (rows + rows_per_task - 1) / rows_per_task, [&](int64_t task) {
      const int64_t begin = task * rows_per_task, end = std::min(rows, begin + rows_per_task);
      pair_sums(p, begin, end);
      call.return_rows(p, set, begin, end);
    });
  }
}

template <ffi::DataType kType>
ffi::Error weighted_sums(ffi::ThreadPool pool, ffi::Buffer<kType> queries, ffi::Buffer<kType> keys,
                         ffi::Buffer<kType> values, ffi::Buffer<kType> log_weights, ffi::Buffer<kType> factors,
                         ffi::Buffer<kType> scales, ffi::ResultBuffer<kType> sums, int64_t before, int64_t after, bool relative, bool scaled,
                         bool weighted) {
  using Real = ffi::NativeType<kType>;
  const auto query_shape = queries.dimensions(), value_shape = values.dimensions();
  const size_t axes = query_shape.size();
  Call<Real> call{};
  call.sets = 1;
  for (size_t axis = 0; axis + 2 < axes; ++axis) call.sets *= query_shape[axis];
  PairProblem<Real>& shape = call.shape;
  shape.rows = query_shape[axes - 2], shape.key_size = query_shape[axes - 1];
  shape.columns = value_shape[axes - 2], shape.value_size = value_shape[axes - 1];
  shape.stride = padded(std::max(shape.rows, shape.columns));
  shape.before = before, shape.after = after, shape.fixed = !relative, shape.scaled = scaled;
  if (shape.key_size > kMaxSize || shape.value_size > kMaxSize)
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "attention sums: too many coordinates");
  call.queries = queries.typed_data(), call.keys = keys.typed_data(), call.values = values.typed_data();
  call.log_weights = weighted ? log_weights.typed_data() : nullptr, call.scales = scales.typed_data();
  call.factors = factors.typed_data();
  call.sums = sums->typed_data();
  run_call(pool, call);
  return ffi::Error::Success();
}

FOR_EVERY_PROCESSOR void sum_rows(const Call<double>& call, const PairProblem<double>& p, int64_t begin, int64_t end) {
  pair_sums(p, begin, end);
  call.return_rows(p, 0, begin, end);
}

}  // namespace

// The sums of all rows of one set over the columns within reach, relative to e^{shifts_i}, and the shifts.
extern "C" void sums_within_reach(int64_t rows, int64_t columns, int64_t key_size, int64_t value_size,
                                  const double* queries, const double* keys, const double* values,
                                  const double* log_weights, int64_t before, int64_t after, double* sums,
                                  double* shifts, int64_t threads) {
  constexpr double one = 1;
  Call<double> call{1, {}, queries, keys, values, log_weights, &one, &one, sums};
  PairProblem<double>& shape = call.shape;
  shape.rows = rows, shape.columns = columns, shape.key_size = key_size, shape.value_size = value_size;
  shape.stride = padded(std::max(rows, columns)), shape.before = before, shape.after = after;
  double* memory = thread_memory<double>(call.memory() + shape.stride);
  PairProblem<double> p = call.problem(0, memory);
  p.shifts = memory;
  const int64_t rows_per_task = padded(std::max<int64_t>(1, kPairsPerTask / std::max<int64_t>(1, columns)));
  std::atomic<int64_t> next{0};
  const auto take_part = [&] {
    for (int64_t begin = next.fetch_add(rows_per_task); begin < rows; begin = next.fetch_add(rows_per_task))
      sum_rows(call, p, begin, std::min(rows, begin + rows_per_task));
  };
  std::vector<std::thread> helpers;
  const int64_t useful = std::min(threads - 1, (rows - 1) / rows_per_task);
  for (int64_t helper = 0; helper < useful; ++helper) helpers.emplace_back(take_part);
  take_part();
  for (std::thread& helper : helpers) helper.join();
  std::copy(p.shifts, p.shifts + rows, shifts);
}

#define DEFINE(name, type)                                  \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, weighted_sums<type>,  \
                                ffi::Ffi::Bind()            \
                                    .Ctx<ffi::ThreadPool>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Ret<ffi::Buffer<type>>() \
                                    .Attr<int64_t>("before")  \
                                    .Attr<int64_t>("after")   \
                                    .Attr<bool>("relative")   \
                                    .Attr<bool>("scaled")     \
                                    .Attr<bool>("weighted"))

DEFINE(WeightedSumsF64, ffi::F64);
DEFINE(WeightedSumsF32, ffi::F32);
