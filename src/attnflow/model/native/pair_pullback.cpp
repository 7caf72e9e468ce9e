// The XLA call of `pair_pullback.h`: transposed derivatives of one or many sets of tokens, on the threads of XLA's pool.
//
// The rows of a set are divided into groups by its size alone. Each group has its own sums over rows, which are added in
// the order of the groups, so that no bit depends on the number of threads.

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "pair_pullback.h"
#include "xla_calls.h"

namespace {

template <typename Real>
struct PullbackCall {
  int64_t sets;
  PullbackProblem<Real> shape;  // sizes and options; no arrays
  bool weighted;
  const Real *queries, *keys, *values, *log_weights, *added, *cotangents;
  Real *query_results, *key_results, *value_results, *weight_results;

  int64_t groups() const {
    const int64_t wanted = shape.rows * shape.columns / kPairsPerTask, most = (shape.rows + kPadding - 1) / kPadding;
    return std::max<int64_t>(1, std::min<int64_t>({wanted, most, 8}));
  }
  int64_t rows_of_group() const { return padded((shape.rows + groups() - 1) / groups()); }

  // Numbers of the sums over the rows of one group.
  int64_t results() const { return padded(shape.columns) * (shape.key_room + shape.value_room); }

  int64_t memory() const {
    const int64_t block = std::min(PulledRows<Real>::block(shape.columns), padded(shape.rows));
    const int64_t by_coordinates = shape.stride * (3 * shape.key_size + 2 * shape.value_size + 2);
    return by_coordinates + padded(shape.rows) * (shape.key_room + shape.value_room) + 2 * padded(shape.columns) * block;
  }

  // The sums of one group of one set, into `results`.
  INLINE_MEMBER void add_group(int64_t set, int64_t group, Real* memory, Real* results) const {
    PullbackProblem<Real> p = shape;
    const auto take = [&](int64_t numbers) { return std::exchange(memory, memory + numbers); };
    const auto copied = [&](const Real* from, int64_t tokens, int64_t size) {
      Real* const into = take(size * p.stride);
      std::fill(into, into + size * p.stride, Real(0));
      by_coordinate(from + set * tokens * size, tokens, size, p.stride, into);
      return into;
    };
    const auto widened = [&](const Real* from, int64_t size, int64_t room) {
      Real* const into = take(padded(p.rows) * room);
      for (int64_t i = 0; i < p.rows; ++i) {
        const Real* const token = from + (set * p.rows + i) * size;
        std::copy(token, token + size, into + i * room);
        std::fill(into + i * room + size, into + (i + 1) * room, Real(1));
      }
      return into;
    };
    p.row_queries = widened(queries, p.key_size, p.key_room);
    p.row_cotangents = widened(cotangents, p.value_size, p.value_room);
    p.queries = copied(queries, p.rows, p.key_size), p.cotangents = copied(cotangents, p.rows, p.value_size);
    p.keys = copied(keys, p.columns, p.key_size), p.values = copied(values, p.columns, p.value_size);
    if (weighted) p.log_weights = copied(log_weights, p.columns, 1);
    if (p.fixed) p.added = copied(added, p.rows, 1);
    p.long_values = has_long_value(set);
    p.query_results = take(p.key_size * p.stride);
    p.key_results = results, p.value_results = results + padded(p.columns) * p.key_room;
    std::fill(results, results + this->results(), Real(0));
    const int64_t begin = group * rows_of_group(), end = std::min(p.rows, begin + rows_of_group());
    if (begin >= end) return;
    with_widest_vectors(PulledRows<Real>{p, begin, end, memory});
    by_token(p.query_results + begin, end - begin, p.key_size, p.stride,
             query_results + (set * p.rows + begin) * p.key_size);
  }

  bool has_long_value(int64_t set) const {
    const Real* const value = values + set * shape.columns * shape.value_size;
    for (int64_t j = 0; j < shape.columns; ++j) {
      Real square = 0;
      for (int64_t c = 0; c < shape.value_size; ++c) square += value[j * shape.value_size + c] * value[j * shape.value_size + c];
      if (!(square < kLongValue * kLongValue)) return true;
    }
    return false;
  }

  // The sums of all groups of a set, in their order, to the results of the call.
  void finish(int64_t set, const Real* results) const {
    const int64_t count = groups(), apart = this->results();
    const auto total = [=](int64_t place) {
      Real sum = results[place];
      for (int64_t group = 1; group < count; ++group) sum += results[group * apart + place];
      return sum;
    };
    const int64_t values_begin = padded(shape.columns) * shape.key_room;
    for (int64_t j = 0; j < shape.columns; ++j) {
      const int64_t token = set * shape.columns + j;
      for (int64_t c = 0; c < shape.key_size; ++c)
        key_results[token * shape.key_size + c] = total(j * shape.key_room + c);
      for (int64_t c = 0; c < shape.value_size; ++c)
        value_results[token * shape.value_size + c] = total(values_begin + j * shape.value_room + c);
      weight_results[token] = weighted ? total(j * shape.key_room + shape.key_size) : Real(0);
    }
  }

  void run(ffi::ThreadPool& pool) const {
    const int64_t count = groups();
    // Sets have the same numbers of tokens; a task has several small ones, or one group of a large one.
    const int64_t pairs = std::max<int64_t>(1, shape.rows * shape.columns), together = std::max<int64_t>(1, kPairsPerTask / pairs);
    if (count == 1) {
      run_tasks(pool, (sets + together - 1) / together, [&](int64_t task) {
        Real* const start = thread_memory<Real>(memory() + results());
        for (int64_t set = task * together; set < std::min(sets, (task + 1) * together); ++set) {
          add_group(set, 0, start + results(), start);
          finish(set, start);
        }
      });
      return;
    }
    std::vector<Real> partial;
    Real* const start = aligned_memory(partial, count * results());
    for (int64_t set = 0; set < sets; ++set) {
      run_tasks(pool, count, [&](int64_t group) {
        add_group(set, group, thread_memory<Real>(memory()), start + group * results());
      });
      finish(set, start);
    }
  }
};

template <ffi::DataType kType>
ffi::Error pulled_back(ffi::ThreadPool pool, ffi::Buffer<kType> queries, ffi::Buffer<kType> keys, ffi::Buffer<kType> values,
                       ffi::Buffer<kType> log_weights, ffi::Buffer<kType> cotangents, ffi::Buffer<kType> added,
                       ffi::ResultBuffer<kType> query_results, ffi::ResultBuffer<kType> key_results,
                       ffi::ResultBuffer<kType> value_results, ffi::ResultBuffer<kType> weight_results, int64_t before,
                       int64_t after, bool fixed, bool weighted) {
  using Real = ffi::NativeType<kType>;
  const auto query_shape = queries.dimensions(), value_shape = values.dimensions();
  const size_t axes = query_shape.size();
  PullbackCall<Real> call{};
  call.sets = 1;
  for (size_t axis = 0; axis + 2 < axes; ++axis) call.sets *= query_shape[axis];
  PullbackProblem<Real>& shape = call.shape;
  shape.rows = query_shape[axes - 2], shape.key_size = query_shape[axes - 1];
  shape.columns = value_shape[axes - 2], shape.value_size = value_shape[axes - 1];
  shape.stride = padded(std::max(shape.rows, shape.columns));
  shape.before = before, shape.after = after, shape.fixed = fixed;
  if (shape.key_size > kMaxSize || shape.value_size > kMaxSize)
    return ffi::Error(ffi::ErrorCode::kInvalidArgument, "attention sums: too many coordinates");
  shape.key_room = padded(shape.key_size + (weighted ? 1 : 0)), shape.value_room = padded(shape.value_size);
  call.queries = queries.typed_data(), call.keys = keys.typed_data(), call.values = values.typed_data();
  call.log_weights = log_weights.typed_data(), call.weighted = weighted;
  call.cotangents = cotangents.typed_data(), call.added = added.typed_data();
  call.query_results = query_results->typed_data(), call.key_results = key_results->typed_data();
  call.value_results = value_results->typed_data(), call.weight_results = weight_results->typed_data();
  call.run(pool);
  return ffi::Error::Success();
}

}  // namespace

#define DEFINE(name, type)                                    \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, pulled_back<type>,      \
                                ffi::Ffi::Bind()              \
                                    .Ctx<ffi::ThreadPool>()   \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Arg<ffi::Buffer<type>>() \
                                    .Ret<ffi::Buffer<type>>() \
                                    .Ret<ffi::Buffer<type>>() \
                                    .Ret<ffi::Buffer<type>>() \
                                    .Ret<ffi::Buffer<type>>() \
                                    .Attr<int64_t>("before")  \
                                    .Attr<int64_t>("after")   \
                                    .Attr<bool>("fixed")     \
                                    .Attr<bool>("weighted"))

DEFINE(SumsPullbackF64, ffi::F64);
DEFINE(SumsPullbackF32, ffi::F32);
