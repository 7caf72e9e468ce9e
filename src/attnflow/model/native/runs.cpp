// Whole runs of small systems: one run at a time, in the cache, from one saving time to the next.
//
// A run's numbers depend on nothing but the problem and its first tokens: not on other runs, threads, or the calls between
// which it is continued.

#include "runs.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "field.h"
#include "simd.h"
#include "steps.h"
#include "stops.h"

namespace {

using Clock = std::chrono::steady_clock;

// Memory for the arrays of a run, wherever it begins.
template <typename T>
int64_t memory_of(const RunsProblem& problem) {
  return Run<T>::kArrays * problem.dimension * padded(problem.tokens) * sizeof(T) + kAlignment;
}

template <typename T>
Run<T> run_in(const Field<T>& f, char* memory, RunsCursor& cursor) {
  T* first = aligned<T>(memory);
  return {first, first + f.size, first + 2 * f.size, first + 3 * f.size, cursor};  // x, before, moved, stages
}

template <typename T>
void read_tokens(const Field<T>& f, const T* rows, T* x) {
  std::fill(x, x + f.size, T(0));
  for (int64_t i = 0; i < f.n; ++i)
    for (int64_t c = 0; c < f.d; ++c) x[c * f.stride + i] = rows[i * f.d + c];
}

template <typename T>
void write_tokens(const Field<T>& f, const T* x, T* rows) {
  for (int64_t i = 0; i < f.n; ++i)
    for (int64_t c = 0; c < f.d; ++c) rows[i * f.d + c] = x[c * f.stride + i];
}

// One attempted step, and the stopping conditions after it. Fixed steps end at the target; adaptive ones may pass it, but
// not the last time of all.
template <typename T>
INLINE void step_of(const Field<T>& f, Run<T>& run, T target, T last_time) {
  const T time = T(run.cursor.time);
  f.p.method == kTsit5 ? attempt_adaptive<T>(f, run, last_time) : attempt_fixed<T>(f, run, target);
  const T duration = T(run.cursor.time) - time;
  if (!(duration > 0)) return;
  for (int64_t k = 0; k < f.p.stops && run.cursor.status == kRunning; ++k)
    if (is_met<T>(f, f.p.stop[k], run.before, run.x, duration)) run.cursor.status = kFirstStop + k;
}

FOR_EVERY_PROCESSOR void start_run(const Field<double>& f, Run<double>& run) { propose_first_step<double>(f, run); }
FOR_EVERY_PROCESSOR void start_run(const Field<float>& f, Run<float>& run) { propose_first_step<float>(f, run); }

FOR_EVERY_PROCESSOR void step_run(const Field<double>& f, Run<double>& run, double target, double last_time) {
  step_of<double>(f, run, target, last_time);
}
FOR_EVERY_PROCESSOR void step_run(const Field<float>& f, Run<float>& run, float target, float last_time) {
  step_of<float>(f, run, target, last_time);
}

FOR_EVERY_PROCESSOR void value_at(const Field<double>& f, const Run<double>& run, double time, double* out) {
  interpolate<double>(f, run, time, out);
}
FOR_EVERY_PROCESSOR void value_at(const Field<float>& f, const Run<float>& run, float time, float* out) {
  interpolate<float>(f, run, time, out);
}

template <typename T>
void save(const Field<T>& f, Run<T>& run, T time, T* rows) {
  if (f.p.method != kTsit5) return write_tokens(f, run.x, rows);
  value_at(f, run, time, run.moved);
  write_tokens(f, run.moved, rows);
}

// Take one run to the target `last`, as far as its end, its step limit and the deadline allow; true if it can be continued.
// The first step of a call (`steps` counts them) is made after the deadline, too, so that every call comes nearer to the end.
template <typename T>
bool advance(const Field<T>& f, Run<T>& run, T* saved, int64_t first, int64_t last, Clock::time_point deadline,
             int64_t& steps) {
  const T* times = static_cast<const T*>(f.p.target_times);
  RunsCursor& cursor = run.cursor;
  for (;;) {
    for (; cursor.position < last && T(cursor.time) >= times[cursor.position]; ++cursor.position)
      if (saved) save(f, run, times[cursor.position], saved + (cursor.position - first) * f.n * f.d);
    const bool has_steps = cursor.accepted + cursor.rejected < f.p.step_limit;
    if (cursor.position >= last || cursor.status != kRunning || !has_steps) return false;
    if (steps > 0 && Clock::now() >= deadline) return true;
    ++steps;
    if (!cursor.is_started && f.p.method == kTsit5) start_run(f, run);
    step_run(f, run, times[cursor.position], times[f.p.targets - 1]);
  }
}

template <typename T>
int64_t advance_all(const RunsProblem& problem, int64_t runs, RunsCursor* cursors, char* memory, T* tokens,
                    const RunsOutput& output, int64_t last, double seconds) {
  const Field<T> f(problem);
  const auto span = std::chrono::duration<double>(std::min(seconds, 1e6));
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(span);
  int64_t unfinished = 0, steps = 0;
  for (int64_t r = 0; r < runs; ++r) {
    Run<T> run = run_in<T>(f, memory + r * memory_of<T>(problem), cursors[r]);
    T* rows = tokens + r * f.n * f.d;
    if (!cursors[r].has_tokens) {
      read_tokens(f, rows, run.x);
      cursors[r].has_tokens = 1;
    }
    T* saved = output.tokens ? static_cast<T*>(output.tokens) + r * output.run_stride : nullptr;
    unfinished += advance(f, run, saved, output.first, last, deadline, steps);
    write_tokens(f, run.x, rows);
  }
  return unfinished;
}

}  // namespace

extern "C" int64_t runs_memory(const RunsProblem* problem) {
  return problem->bytes_per_number == 8 ? memory_of<double>(*problem) : memory_of<float>(*problem);
}

extern "C" int64_t runs_advance(const RunsProblem* problem, int64_t runs, RunsCursor* cursors, void* memory, void* tokens,
                                const RunsOutput* output, int64_t last, double seconds) {
  char* bytes = static_cast<char*>(memory);
  if (problem->bytes_per_number == 8)
    return advance_all<double>(*problem, runs, cursors, bytes, static_cast<double*>(tokens), *output, last, seconds);
  return advance_all<float>(*problem, runs, cursors, bytes, static_cast<float*>(tokens), *output, last, seconds);
}
