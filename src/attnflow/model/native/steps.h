// One step in time of one run, with the rules of `solvers/adaptive.py`, `solvers/fixed_step.py` and `solvers/base.py`.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "field.h"
#include "runs.h"
#include "simd.h"
#include "tsit5.h"

namespace {

// The arrays of one run, each of `size` numbers, coordinate by coordinate.
template <typename T>
struct Run {
  static constexpr int kArrays = 3 + kStages;
  T *x, *before, *moved;  // present tokens, tokens at the start of the last step, tokens of a stage or a candidate
  T* stages;              // the velocities of the stages of the last attempted step
  RunsCursor& cursor;
};

// The largest |x / scale| and whether all numbers of x are finite.
template <typename T>
struct Norm {
  Vector<T> largest{}, zeros{};

  INLINE_MEMBER void add(Vector<T> x, Vector<T> scale) {
    zeros += x * T(0);  // NaN or infinity gives NaN
    largest = larger<T>(absolute<T>(x / scale), largest);
  }
  INLINE_MEMBER T value() const { return largest_lane<T>(largest); }
  INLINE_MEMBER bool is_finite() const { return sum_of_lanes<T>(zeros) == 0; }
};

// to = from + length * (sum over the first `count` stages of weights times velocities).
template <typename T>
INLINE void combine(const Field<T>& f, const T* from, T length, const double* weights, int count, const T* stages, T* to) {
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount) {
    Vector<T> total = T(weights[0]) * vector_at(stages + i);
    for (int s = 1; s < count; ++s) total += T(weights[s]) * vector_at(stages + s * f.size + i);
    vector_at(to + i) = vector_at(from + i) + length * total;
  }
}

template <typename T>
INLINE bool is_finite(const Field<T>& f, const T* x) {
  Vector<T> zeros{};
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount) zeros += vector_at(x + i) * T(0);
  return sum_of_lanes<T>(zeros) == 0;
}

// Divide every token of x by its length; tokens equal to those of `resting`, if given, keep their bits. Returns the largest
// distance from the sphere before.
template <typename T>
INLINE T retract(const Field<T>& f, T* x, const T* resting) {
  Vector<T> drift{};
  for (int64_t i = 0; i < f.stride; i += Lanes<T, kBytes>::kCount) {
    Vector<T> square{};
    Integers<T> differs{};
    for (int64_t c = i; c < f.size; c += f.stride) {
      square += vector_at(x + c) * vector_at(x + c);
      if (resting) differs |= vector_at(x + c) != vector_at(resting + c);
    }
    const Vector<T> length = square_root<T>(square);
    for (int64_t c = i; c < f.size; c += f.stride) {
      const Vector<T> unit = vector_at(x + c) / length;
      vector_at(x + c) = resting ? (differs != 0 ? unit : vector_at(x + c)) : unit;
    }
    Vector<T> distance = absolute<T>(length - 1);
    for (int lane = 0; lane < Lanes<T, kBytes>::kCount; ++lane)
      if (i + lane >= f.n) distance[lane] = 0;  // padding
    drift = larger<T>(distance, drift);
  }
  return largest_lane<T>(drift);
}

// Make the finite candidate `moved` the present tokens at `time`.
template <typename T>
INLINE void accept(const Field<T>& f, Run<T>& run, T time) {
  std::copy(run.x, run.x + f.size, run.before);
  std::copy(run.moved, run.moved + f.size, run.x);
  if (f.p.space == kSphere) {
    const T drift = retract<T>(f, run.x, run.before);
    run.cursor.drift = std::max(run.cursor.drift, double(drift));
  }
  run.cursor.step_start = run.cursor.time, run.cursor.time = time;
  ++run.cursor.accepted;
}

// The end of a first step from the size of the velocity and of its change along a trial step (Hairer, Norsett and Wanner,
// Solving Ordinary Differential Equations I, section II.4), in the norm of the error estimate.
template <typename T>
INLINE void start(const Field<T>& f, Run<T>& run) {
  const T time = T(run.cursor.time), rtol = T(f.p.rtol), atol = T(f.p.atol);
  T *first = run.stages, *second = run.stages + f.size;
  velocity(f, time, run.x, first);
  Norm<T> state, speed, change;
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount) {
    const Vector<T> scale = atol + absolute<T>(vector_at(run.x + i)) * rtol;
    state.add(vector_at(run.x + i), scale), speed.add(vector_at(first + i), scale);
  }
  const T d0 = state.value(), d1 = speed.value();
  const T trial = d0 < T(1e-5) || d1 < T(1e-5) ? T(1e-6) : T(0.01) * (d0 / d1);
  const double one[] = {1.0};
  combine<T>(f, run.x, trial, one, 1, first, run.moved);
  velocity(f, time + trial, run.moved, second);
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount)
    change.add(vector_at(second + i) - vector_at(first + i), atol + absolute<T>(vector_at(run.x + i)) * rtol);
  const T largest = std::max(d1, change.value() / trial);
  T length = largest <= T(1e-15) ? std::max(T(1e-6), trial * T(1e-3)) : std::pow(T(0.01) / largest, T(1) / kErrorOrder);
  length = std::min(100 * trial, length);
  const T end = time + length;
  // Where the field overflows in the trial step, the proposal is zero or NaN.
  const bool is_usable = speed.is_finite() && change.is_finite() && std::isfinite(end) && end > time;
  run.cursor.next_time = is_usable ? end : std::nextafter(time + T(kShortStep), std::numeric_limits<T>::infinity());
  run.cursor.is_started = 1, run.cursor.has_last_stage = 0;
}

// One attempted step of Tsit5, accepted if the error estimate is within the tolerances.
template <typename T>
INLINE void attempt_adaptive(const Field<T>& f, Run<T>& run, T barrier) {
  RunsCursor& cursor = run.cursor;
  const T time = T(cursor.time), planned_end = T(cursor.next_time), end = std::min(planned_end, barrier);
  const T length = end - time;
  const T* last_stage = run.stages + (kStages - 1) * f.size;
  // The last stage of an accepted step is the first of the next.
  if (cursor.has_last_stage) std::copy(last_stage, last_stage + f.size, run.stages);
  cursor.has_last_stage = 0;
  for (int s = 1; s < kStages; ++s) {
    combine<T>(f, run.x, length, kTsit5Stages[s - 1], s, run.stages, run.moved);
    const T node = T(kTsit5Nodes[s - 1]);
    velocity(f, node == 1 ? end : time + node * length, run.moved, run.stages + s * f.size);
  }
  Norm<T> error;
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount) {
    Vector<T> estimate{};
    for (int s = 0; s < kStages; ++s) estimate += T(kTsit5Error[s]) * vector_at(run.stages + s * f.size + i);
    const Vector<T> largest = larger<T>(absolute<T>(vector_at(run.x + i)), absolute<T>(vector_at(run.moved + i)));
    error.add(length * estimate, T(f.p.atol) + largest * T(f.p.rtol));
  }
  // The error estimate has one stage more than the step, and overflows first.
  const bool succeeded = error.is_finite() && is_finite<T>(f, run.moved);
  const T scaled = succeeded ? error.value() : std::numeric_limits<T>::infinity();
  const bool is_within = scaled < 1;
  const T wanted = T(kSafety) * std::pow(1 / scaled, T(1) / kErrorOrder);
  const T factor = std::min(std::max(wanted, is_within ? T(1) : T(kLeastFactor)), T(is_within ? kLargestFactor : kSafety));
  const T reference = is_within ? end : time, min_step = T(f.p.min_step);
  const T next_length = std::max((reference + length * factor) - reference, min_step);
  const bool keeps = (is_within || length <= min_step * T(1 + 1e-9)) && succeeded;
  const T begin = keeps ? end : time;
  T proposal = begin + next_length;
  // A step that a barrier has shortened is no reason to propose less than was proposed before.
  if (keeps && end < planned_end) proposal = std::max(proposal, begin + (planned_end - time));
  if (keeps) {
    accept<T>(f, run, end);
    cursor.has_last_stage = 1;
  } else {
    ++cursor.rejected;
    if (!is_finite<T>(f, run.x)) cursor.status = kNotFinite;
  }
  cursor.next_time = proposal;
  // Near the resolution of time a shorter step may round to the length that was just rejected.
  if (!(proposal > begin && (keeps || proposal < end))) cursor.status = kStepTooSmall;
}

// The state at a time within the last accepted step, by the interpolant of Tsit5.
template <typename T>
INLINE void interpolate(const Field<T>& f, const Run<T>& run, T time, T* out) {
  const T begin = T(run.cursor.step_start), end = T(run.cursor.time);
  const T inside = std::min(std::max(time, begin), end);
  double weights[kStages];
  tsit5_interpolant(begin == end ? T(0) : (inside - begin) / (end - begin), weights);
  combine<T>(f, run.before, end - begin, weights, kStages, run.stages, out);
  if (f.p.space == kSphere) retract<T>(f, out, nullptr);
}

// The first of the equal steps into which the time to the target is divided.
template <typename T>
INLINE void attempt_fixed(const Field<T>& f, Run<T>& run, T target) {
  const T time = T(run.cursor.time), remaining = target - time;
  // A millionth of a step is a rounding error of the times and gets no step.
  const T count = std::max(std::ceil(remaining / T(f.p.step) - T(1e-6)), T(1));
  const T length = remaining / count, end = count <= 1 ? target : time + length;
  const double first[] = {1.0}, second[] = {0.0, 1.0}, third[] = {0.0, 0.0, 1.0};
  const double heun[] = {0.5, 0.5}, classical[] = {1.0 / 6, 2.0 / 6, 2.0 / 6, 1.0 / 6};
  T* stages = run.stages;
  velocity(f, time, run.x, stages);
  if (f.p.method == kHeun) {
    combine<T>(f, run.x, length, first, 1, stages, run.moved);
    velocity(f, time + length, run.moved, stages + f.size);
    combine<T>(f, run.x, length, heun, 2, stages, run.moved);
  } else if (f.p.method == kRungeKutta4) {
    combine<T>(f, run.x, length / 2, first, 1, stages, run.moved);
    velocity(f, time + length / 2, run.moved, stages + f.size);
    combine<T>(f, run.x, length / 2, second, 2, stages, run.moved);
    velocity(f, time + length / 2, run.moved, stages + 2 * f.size);
    combine<T>(f, run.x, length, third, 3, stages, run.moved);
    velocity(f, time + length, run.moved, stages + 3 * f.size);
    combine<T>(f, run.x, length, classical, 4, stages, run.moved);
  } else {
    combine<T>(f, run.x, length, first, 1, stages, run.moved);
  }
  if (is_finite<T>(f, run.moved)) return accept<T>(f, run, end);
  ++run.cursor.rejected;
  run.cursor.status = kNotFinite;
}

}  // namespace
