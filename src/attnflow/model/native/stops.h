// The stopping conditions of `solvers/stopping.py` after a step.

#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "field.h"
#include "runs.h"

namespace {

// The squared distance of token i of x from token j of y, in R^d.
template <typename T>
INLINE T squared_distance(const Field<T>& f, const T* x, int64_t i, const T* y, int64_t j) {
  T square = 0;
  for (int64_t c = 0; c < f.size; c += f.stride) square += (x[c + i] - y[c + j]) * (x[c + i] - y[c + j]);
  return square;
}

// Whether at most `count` centres cover all tokens; each centre is the first token that is not yet covered.
template <typename T>
INLINE bool is_clustered(const Field<T>& f, const T* x, T tolerance, int64_t count) {
  std::vector<char> is_covered(f.n, 0);
  const T chord = f.p.space != kSphere ? tolerance : tolerance < T(M_PI) ? 2 * std::sin(tolerance / 2) : T(4);
  int64_t centre = 0;
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = centre; i < f.n; ++i)
      is_covered[i] |= std::sqrt(squared_distance<T>(f, x, i, x, centre)) <= chord;
    while (centre < f.n && is_covered[centre]) ++centre;
    if (centre == f.n) return true;
  }
  return false;
}

template <typename T>
INLINE bool is_settled(const Field<T>& f, const T* before, const T* x, T largest_move) {
  T fastest = 0;
  for (int64_t i = 0; i < f.n; ++i) fastest = std::max(fastest, squared_distance<T>(f, before, i, x, i));
  return std::sqrt(fastest) <= largest_move;
}

template <typename T>
INLINE bool is_diverged(const Field<T>& f, const T* x, T distance) {
  for (int64_t i = 0; i < f.n; ++i) {
    T square = 0;
    for (int64_t c = 0; c < f.size; c += f.stride) square += x[c + i] * x[c + i];
    if (std::sqrt(square) > distance) return true;
  }
  return false;
}

template <typename T>
INLINE bool is_met(const Field<T>& f, const RunsStop& stop, const T* before, const T* x, T duration) {
  if (stop.kind == kClustered) return is_clustered<T>(f, x, T(stop.threshold), stop.count);
  if (stop.kind == kSettled) return is_settled<T>(f, before, x, T(stop.threshold) * duration);
  return is_diverged<T>(f, x, T(stop.threshold));
}

}  // namespace
