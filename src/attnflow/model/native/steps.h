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

// The norm of the error estimate, max |x_c / scale_c| over all coordinates of all tokens, and whether they are all finite.
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

// Propose the end of the first step (Hairer, Norsett and Wanner, Solving Ordinary Differential Equations I, section II.4,
// "Starting step size", whose names and constants these are), in the norm |u| = max |u_c| / (atol + rtol |x_c|):
//
//     d0 = |x|,  d1 = |v|,          h0 = 0.01 d0 / d1                    (10^-6 if d0 or d1 is below 10^-5),
//     d2 = |v(t + h0, x + h0 v) - v| / h0,
//     h1 = (0.01 / max(d1, d2))^{1/5}                                    (max(10^-6, h0 / 1000) if that is below 10^-15),
//     h  = min(100 h0, h1).
template <typename T>
INLINE void propose_first_step(const Field<T>& f, Run<T>& run) {
  const T time = T(run.cursor.time), rtol = T(f.p.rtol), atol = T(f.p.atol);
  T *first = run.stages, *second = run.stages + f.size;
  velocity(f, time, run.x, first);
  Norm<T> state, speed, change;
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount) {
    const Vector<T> scale = atol + absolute<T>(vector_at(run.x + i)) * rtol;
    state.add(vector_at(run.x + i), scale), speed.add(vector_at(first + i), scale);
  }
  const T d0 = state.value(), d1 = speed.value();
  const T h0 = d0 < T(1e-5) || d1 < T(1e-5) ? T(1e-6) : T(0.01) * (d0 / d1);
  const double one[] = {1.0};
  combine<T>(f, run.x, h0, one, 1, first, run.moved);
  velocity(f, time + h0, run.moved, second);
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount)
    change.add(vector_at(second + i) - vector_at(first + i), atol + absolute<T>(vector_at(run.x + i)) * rtol);
  const T d2 = change.value() / h0, largest = std::max(d1, d2);
  const T h1 = largest <= T(1e-15) ? std::max(T(1e-6), h0 * T(1e-3)) : std::pow(T(0.01) / largest, T(1) / kErrorOrder);
  const T end = time + std::min(100 * h0, h1);
  // Where the field overflows in the trial step, the proposal is zero or NaN.
  const bool is_usable = speed.is_finite() && change.is_finite() && std::isfinite(end) && end > time;
  run.cursor.next_time = is_usable ? end : std::nextafter(time + T(kShortStep), std::numeric_limits<T>::infinity());
  run.cursor.is_started = 1, run.cursor.has_last_stage = 0;
}

// Stages of Tsit5 from `time` to `end`, with h their difference, and the candidate x_new, which is the position of the last:
//
//     k_s = v(t + c_s h, x + h sum_{r < s} a_sr k_r),      x_new = x + h sum_{r < 7} a_7r k_r.
//
// The last stage of an accepted step is the first of the next.
template <typename T>
INLINE void take_stages(const Field<T>& f, Run<T>& run, T time, T end) {
  const T length = end - time;
  const T* last_stage = run.stages + (kStages - 1) * f.size;
  if (run.cursor.has_last_stage) std::copy(last_stage, last_stage + f.size, run.stages);
  run.cursor.has_last_stage = 0;
  for (int s = 1; s < kStages; ++s) {
    combine<T>(f, run.x, length, kTsit5Stages[s - 1], s, run.stages, run.moved);
    const T node = T(kTsit5Nodes[s - 1]);
    velocity(f, node == 1 ? end : time + node * length, run.moved, run.stages + s * f.size);
  }
}

// The error estimate of the step, h sum_s e_s k_s, over the tolerances atol + rtol max(|x|, |x_new|) of every coordinate.
template <typename T>
INLINE Norm<T> error_over_tolerances(const Field<T>& f, const Run<T>& run, T length) {
  Norm<T> error;
  for (int64_t i = 0; i < f.size; i += Lanes<T, kBytes>::kCount) {
    Vector<T> estimate{};
    for (int s = 0; s < kStages; ++s) estimate += T(kTsit5Error[s]) * vector_at(run.stages + s * f.size + i);
    const Vector<T> largest = larger<T>(absolute<T>(vector_at(run.x + i)), absolute<T>(vector_at(run.moved + i)));
    error.add(length * estimate, T(f.p.atol) + largest * T(f.p.rtol));
  }
  return error;
}

// One attempted step of Tsit5, not beyond the barrier. It is accepted if its error is within the tolerances, or if it is as
// short as a step may be; a rejected one leaves the tokens as they are. In both cases the next step is proposed.
//
// The choice of the next length is part of this function on purpose: taken out, the compiler fuses other products and sums
// into one operation, and the bits of all adaptive runs change.
template <typename T>
INLINE void attempt_adaptive(const Field<T>& f, Run<T>& run, T barrier) {
  RunsCursor& cursor = run.cursor;
  const T time = T(cursor.time), planned_end = T(cursor.next_time), end = std::min(planned_end, barrier);
  const T length = end - time;
  take_stages<T>(f, run, time, end);
  const Norm<T> estimate = error_over_tolerances<T>(f, run, length);
  // The error estimate has one stage more than the step, and overflows first.
  const bool succeeded = estimate.is_finite() && is_finite<T>(f, run.moved);
  const T error = succeeded ? estimate.value() : std::numeric_limits<T>::infinity();
  const bool is_within = error < 1;
  // The next length is 0.9 E^{-1/5} times this one, E being the error; from 1 to 10 times it if E < 1, else from 0.2 to 0.9.
  const T wanted = T(kSafety) * std::pow(1 / error, T(1) / kErrorOrder);
  const T factor = std::min(std::max(wanted, is_within ? T(1) : T(kLeastFactor)), T(is_within ? kLargestFactor : kSafety));
  // Rounded as a difference of times, as in runs by XLA, where diffrax proposes the end of the next step.
  const T reference = is_within ? end : time, min_step = T(f.p.min_step);
  const T next_length = std::max((reference + length * factor) - reference, min_step);
  // The shortest step is accepted whatever its error; 1e-9 is for the rounding of `end - time`.
  const bool is_accepted = (is_within || length <= min_step * T(1 + 1e-9)) && succeeded;
  const T begin = is_accepted ? end : time;
  T proposal = begin + next_length;
  // A step that a barrier has shortened is no reason to propose less than was proposed before.
  if (is_accepted && end < planned_end) proposal = std::max(proposal, begin + (planned_end - time));
  if (is_accepted) {
    accept<T>(f, run, end);
    cursor.has_last_stage = 1;
  } else {
    ++cursor.rejected;
    if (!is_finite<T>(f, run.x)) cursor.status = kNotFinite;
  }
  cursor.next_time = proposal;
  // Near the resolution of time a shorter step may round to the length that was just rejected.
  if (!(proposal > begin && (is_accepted || proposal < end))) cursor.status = kStepTooSmall;
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

// The first of the equal steps into which the time to the target is divided, with h their length:
//
//     Euler          x + h k_1,
//     Heun           x + h (k_1 + k_2) / 2,                    k_2 at t + h, x + h k_1,
//     Runge-Kutta 4  x + h (k_1 + 2 k_2 + 2 k_3 + k_4) / 6,    k_2 and k_3 at t + h/2, x + h k_1 / 2 and x + h k_2 / 2,
//                                                              k_4 at t + h, x + h k_3.
template <typename T>
INLINE void attempt_fixed(const Field<T>& f, Run<T>& run, T target) {
  const T time = T(run.cursor.time), remaining = target - time;
  // A millionth of a step is a rounding error of the times and gets no step.
  const T count = std::max(std::ceil(remaining / T(f.p.step) - T(1e-6)), T(1));
  const T length = remaining / count, end = count <= 1 ? target : time + length;
  const double first[] = {1.0}, second[] = {0.0, 1.0}, third[] = {0.0, 0.0, 1.0};  // the velocity of one stage alone
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
