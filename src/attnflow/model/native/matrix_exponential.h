// e^{tV} without overflow: a matrix of size about one and the logarithm of its scale, as in `_common/matrix_exponential.py`.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

namespace {

constexpr int kTaylorTerms = 14;  // the remainder 0.25^15 / 15! is below 1e-21

template <typename T>
using Matrix = std::vector<T>;  // d x d, row after row

template <typename T>
Matrix<T> product(const Matrix<T>& a, const Matrix<T>& b, int64_t d) {
  Matrix<T> result(d * d, T(0));
  for (int64_t i = 0; i < d; ++i)
    for (int64_t k = 0; k < d; ++k)
      for (int64_t j = 0; j < d; ++j) result[i * d + j] += a[i * d + k] * b[k * d + j];
  return result;
}

// Divide the matrix by a power of two near its largest entry, which is exact, and add its logarithm to the scale.
template <typename T>
void normalise(Matrix<T>& matrix, T& log_scale) {
  T largest = 0;
  for (const T entry : matrix) largest = std::max(largest, std::abs(entry));
  const T size = std::exp2(std::round(std::log2(largest)));
  if (!(std::isfinite(size) && size > 0)) return;
  for (T& entry : matrix) entry /= size;
  log_scale += std::log(size);
}

// A matrix M and a number s with e^{time V} = e^s M: scaling and squaring of the Taylor series. The trace is taken out
// first, so that multiples of the identity are exact.
template <typename T>
std::pair<Matrix<T>, T> scaled_exponential(const T* v, int64_t d, T time) {
  T trace = 0, size = 0;
  for (int64_t i = 0; i < d; ++i) trace += v[i * d + i];
  const T shift = trace / d;
  Matrix<T> exponent(v, v + d * d);
  for (int64_t i = 0; i < d; ++i) exponent[i * d + i] -= shift;
  for (int64_t i = 0; i < d; ++i) {
    T row = 0;
    for (int64_t j = 0; j < d; ++j) row += std::abs(exponent[i * d + j] *= time);
    size = std::max(size, row);
  }
  const int squarings = std::max(0, int(std::ceil(std::log2(std::max(size, T(1e-30))))) + 2);
  for (T& entry : exponent) entry = std::ldexp(entry, -squarings);
  Matrix<T> series(d * d, T(0));
  for (int64_t i = 0; i < d; ++i) series[i * d + i] = 1;
  for (int term = kTaylorTerms; term > 0; --term) {  // Horner: I + A (I + A/2 (I + A/3 (...)))
    series = product(exponent, series, d);
    for (T& entry : series) entry /= term;
    for (int64_t i = 0; i < d; ++i) series[i * d + i] += 1;
  }
  T log_scale = 0;
  normalise(series, log_scale);
  for (int k = 0; k < squarings; ++k) {
    series = product(series, series, d);
    log_scale *= 2;
    normalise(series, log_scale);
  }
  return {series, log_scale + time * shift};
}

// M^{-1} B by Gaussian elimination with the largest entry of a column as pivot.
template <typename T>
Matrix<T> solve(Matrix<T> m, Matrix<T> b, int64_t d) {
  for (int64_t k = 0; k < d; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < d; ++i)
      if (std::abs(m[i * d + k]) > std::abs(m[pivot * d + k])) pivot = i;
    for (int64_t j = 0; j < d; ++j) std::swap(m[k * d + j], m[pivot * d + j]), std::swap(b[k * d + j], b[pivot * d + j]);
    for (int64_t i = 0; i < d; ++i) {
      if (i == k) continue;
      const T factor = m[i * d + k] / m[k * d + k];
      for (int64_t j = 0; j < d; ++j) m[i * d + j] -= factor * m[k * d + j], b[i * d + j] -= factor * b[k * d + j];
    }
  }
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j < d; ++j) b[i * d + j] /= m[i * d + i];
  return b;
}

}  // namespace
