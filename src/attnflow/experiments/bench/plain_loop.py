"""A bare vectorised loop over pairs in C, compiled on the spot: the speed that one would expect of a compiled program.

It computes the averages sum_j w_ij x_j, with w_ij proportional to e^{beta (<x_i, x_j> - 1)}, of tokens on the sphere,
row by row with vectors of columns. The exponential is Taylor's polynomial of degree 11, with an error of 6e-15.
"""

import ctypes
import functools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

WIDTH = 8  # columns in a vector: 64 bytes

SOURCE = r"""
#include <stdint.h>
#define W 8
typedef double vec __attribute__((vector_size(8 * W), aligned(8)));
typedef int64_t whole __attribute__((vector_size(8 * W), aligned(8)));
static inline vec exponential(vec x) {
  vec shifted = x * 1.4426950408889634 + 0x1.8p52, k = shifted - 0x1.8p52;
  vec r = x - k * 0x1.62e42fefa0000p-1 - k * 0x1.cf79abc9e3b3ap-40, p = (vec){0} + 1.0 / 39916800;
  const double inverse[] = {1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880,
                            1. / 3628800};
  for (int n = 10; n >= 0; --n) p = p * r + inverse[n];
  return (vec)((whole)p + ((whole)shifted << 52));
}
/* Arrays are (sets, D, n); n is a multiple of W. */
void averages(const double* x, double* out, long sets, long n, double beta, int causal, int threads) {
  #pragma omp parallel for num_threads(threads) schedule(dynamic, 8)
  for (long row = 0; row < sets * n; ++row) {
    const long i = row % n;
    const double* y = x + row / n * D * n;
    vec total = {0}, sums[D], query[D], key[D];
    for (int c = 0; c < D; ++c) sums[c] = (vec){0}, query[c] = (vec){0} + beta * y[c * n + i];
    const long end = causal ? (i + W) / W * W : n;
    for (long j = 0; j < end; j += W) {
      vec score = (vec){0} - beta;
      for (int c = 0; c < D; ++c) key[c] = *(const vec*)(y + c * n + j), score += query[c] * key[c];
      vec weight = exponential(score);
      if (causal && j + W > i)
        for (int lane = 0; lane < W; ++lane) weight[lane] = j + lane > i ? 0 : weight[lane];
      total += weight;
      for (int c = 0; c < D; ++c) sums[c] += weight * key[c];
    }
    double z = 0;
    for (int lane = 0; lane < W; ++lane) z += total[lane];
    for (int c = 0; c < D; ++c) {
      double s = 0;
      for (int lane = 0; lane < W; ++lane) s += sums[c][lane];
      out[row / n * D * n + c * n + i] = s / z;
    }
  }
}
"""


def compiler() -> str | None:
    """The C compiler, or None where there is none."""
    return shutil.which(os.environ.get("CC", "cc"))


def averages(tokens: np.ndarray, beta: float, *, is_causal: bool, threads: int, calls: int = 1) -> np.ndarray:
    """The averages of each set of tokens, shape (sets, n, d), computed `calls` times; n is a multiple of 8."""
    sets, n, d = tokens.shape
    assert n % WIDTH == 0
    x = np.ascontiguousarray(np.swapaxes(tokens, 1, 2))
    out = np.empty_like(x)
    for _ in range(calls):
        _library(d).averages(
            ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_long(sets), ctypes.c_long(n),
            ctypes.c_double(beta), ctypes.c_int(is_causal), ctypes.c_int(threads),
        )  # fmt: skip
    return np.swapaxes(out, 1, 2)


@functools.cache
def _library(d: int) -> ctypes.CDLL:
    """The loop for tokens of d coordinates, for this processor; the files are gone when it is loaded."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "loop.c"), Path(folder, "loop.so")
        source.write_text(SOURCE, encoding="utf-8")
        options = ["-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", f"-DD={d}", "-w"]
        command = [str(compiler()), *options, str(source), "-o", str(target), "-lm"]
        subprocess.run(command, check=True, capture_output=True)
        return ctypes.CDLL(str(target))
