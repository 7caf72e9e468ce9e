"""Mutants of the native sources, placed by hand: a file, a piece of text that occurs in it once, and what stands instead."""

from typing import NamedTuple


class NativeMutant(NamedTuple):
    """One change of a native source."""

    file: str
    original: str
    replacement: str
    reason: str = ""
    """Why it is accepted that no test notices it; nothing for a mutant that a test must notice."""

    @property
    def key(self) -> str:
        """The mutant in one line."""
        return f"{self.file}: {self.original} -> {self.replacement}"


_M = NativeMutant
PAIR_SUMS = (
    _M("pair_sums.h", "end - 1 - p.before), shared_end_", "end - 2 - p.before), shared_end_"),
    _M("pair_sums.h", "row + p.after + 1);", "row + p.after + 2);"),
    _M("pair_sums.h", "std::min(p.columns, end + p.after)", "std::min(p.columns, end + p.after - 1)"),
    _M("pair_sums.h", "? Real(300) : Real(30)", "? Real(30000) : Real(3000)"),
    _M("pair_sums.h", "result[b] -= shift_", "result[b] += shift_"),
    _M("pair_sums.h", "result[b] += p.log_weights", "result[b] -= p.log_weights"),
    _M("pair_sums.h", "p.scale * (result[b] - best_)", "(result[b] - best_)"),
    _M("pair_sums.h", "last = std::min(p.columns, i + p.after + 1) - 1", "last = std::min(p.columns, i + p.after) - 1"),
    _M("pair_sums.h", "bounds[i] += largest[i]", "bounds[i] += 0 * largest[i]"),
    _M("pair_sums.h", "std::sqrt(squares[i] * largest[i])", "std::sqrt(squares[i])"),
    _M("attention_sums.cpp", "sums + (set * p.rows + begin) * size", "sums + begin * size"),
    _M("attention_sums.cpp", "kPairsPerTask / call.shape.columns)", "kPairsPerTask / call.shape.columns) - 1"),
    _M("pair_pullback.h", "((slope(row, column + b) - mean) - rest)", "(slope(row, column + b) - rest)"),
    _M("pair_pullback.h", "sums[0][c] + sums[1][c]", "sums[0][c]"),
    _M("pair_pullback.cpp", "results[group * apart + place]", "results[place]"),
    _M("simd.h", "(x[v] - k * F::kLn2High) - k * F::kLn2Low", "(x[v] - k * F::kLn2High)"),
    _M("simd.h", "0x1.71f6101337804p-19", "0x1.7p-19"),
    _M("simd.h", "x[v] < F::kLowest ? V{}", "x[v] < 100 * F::kLowest ? V{}"),
)
FIELD = (
    _M("field.h", "- along * vector_at(x + c + i)", "+ along * vector_at(x + c + i)"),
    _M("field.h", "T(f.p.log_factor)) / T(f.p.total_mass)", "T(f.p.log_factor))"),
    _M("field.h", "-= v[row * f.d + c]", "+= v[row * f.d + c]"),
    _M("field.h", "std::sqrt(time + 1)", "std::sqrt(time)"),
    _M("field.h", "std::min(2 * log_scale, limit)", "std::min(log_scale, limit)"),
    _M("field.h", "? T(0) : T(1)", "? T(1) : T(1)"),
    _M("field.h", "tiny) / T(f.p.slowness_scale)", "tiny) * T(f.p.slowness_scale)"),
    _M(
        "field.h",
        "Matrix<T>(value, value + f.d * f.d), frame, f.d)",
        "frame, Matrix<T>(value, value + f.d * f.d), f.d)",
    ),
    _M("field.h", "bound + f.largest_log_mass", "bound"),
    _M("matrix_exponential.h", "kTaylorTerms = 14", "kTaylorTerms = 6"),
    _M("matrix_exponential.h", "    log_scale *= 2;\n", ""),
    _M("matrix_exponential.h", "log_scale + time * shift", "log_scale"),
    _M("matrix_exponential.h", "> std::abs(m[pivot * d + k])", "< std::abs(m[pivot * d + k])"),
)
STEPS = (
    _M("tsit5.h", "7.495539342889836", "7.495539"),
    _M("tsit5.h", "-0.015151515151515152", "0.015151515151515152"),
    _M("tsit5.h", "weights[6] = T(2.5)", "weights[6] = T(2.4)"),
    _M("tsit5.h", "0.161, 0.327, 0.9,", "0.161, 0.372, 0.9,"),
    _M("tsit5.h", "kSafety = 0.9", "kSafety = 0.99"),
    _M("steps.h", "classical[] = {1.0 / 6, 2.0 / 6, 2.0 / 6, 1.0 / 6}", "classical[] = {1.0 / 6, 3.0 / 6, 1.0 / 6, 1.0 / 6}"),
    _M("steps.h", "time + length / 2, run.moved, stages + 2 * f.size", "time, run.moved, stages + 2 * f.size"),
    _M("steps.h", "time + length, run.moved, stages + f.size", "time, run.moved, stages + f.size"),
    _M("steps.h", "time + node * length", "time + length"),
    _M("steps.h", "std::pow(1 / error, T(1) / kErrorOrder)", "std::pow(1 / error, T(1) / 4)"),
    _M("steps.h", "T(0.01) * (d0 / d1)", "T(1) * (d0 / d1)"),
    _M("steps.h", "std::max(run.cursor.drift, double(drift))", "double(drift)"),
    _M("steps.h", "(differs != 0 ? unit : vector_at(x + c))", "unit"),
    _M("steps.h", "- T(1e-6)), T(1)", "- T(1e-1)), T(1)"),
    _M("steps.h", "total += T(weights[s])", "total += T(float(weights[s]))"),
    _M("steps.h", "error.add(length * estimate", "error.add(estimate"),
    _M("steps.h", "larger<T>(absolute<T>(vector_at(run.x + i)), absolute<T>(vector_at(run.moved + i)))",
       "absolute<T>(vector_at(run.x + i))"),
    _M("stops.h", "2 * std::sin(tolerance / 2)", "std::sin(tolerance)"),
    _M("stops.h", "T(stop.threshold) * duration", "T(stop.threshold)"),
    _M("stops.h", "k < count", "k <= count"),
    _M("runs.cpp", "cursor.accepted + cursor.rejected < f.p.step_limit", "cursor.accepted < f.p.step_limit"),
)  # fmt: skip
COALESCENCE = (
    _M("other_sums.cpp", "kNegligibleExponent = 37.0", "kNegligibleExponent = 20.0"),
    _M("other_sums.cpp", "% kCount] = hidden;", "% kCount] += 0;"),
    _M("subcycling.cpp", "22.0 / 525, -1.0 / 40", "22.0 / 525, 1.0 / 40"),
    _M("subcycling.cpp", "2.0 - 2.0 * nearest", "2.0 - nearest"),
    _M("subcycling.cpp", "std::log(before / goal) / std::log(before / after)", "1.0"),
    _M("subcycling.cpp", "(list.quadratic[v] + time * list.cubic[v])", "list.quadratic[v]"),
    _M("subcycling.cpp", "problem_.cutoff - 2 * problem_.beta", "problem_.cutoff + 2 * problem_.beta"),
    _M("subcycling.cpp", "std::max(gaps_[row], problem_.gap_floor)", "std::min(gaps_[row], problem_.gap_floor)"),
    _M(
        "subcycling.cpp",
        "along / square * position[c]",
        "along * position[c]",
        "Equivalent to the tolerance of a step: positions are divided by their lengths after every step.",
    ),
    _M("subcycling.cpp", "+ std::log1p(", "- std::log1p("),
    _M("subcycling.cpp", "kLatestMerge = 1.1", "kLatestMerge = 1.0"),
    _M("subcycling.cpp", "kLogMargin = 1e-8", "kLogMargin = 1e-6"),
)
MUTANTS = (*COALESCENCE, *PAIR_SUMS, *FIELD, *STEPS)

NATIVE_RUNS, SUMS = "tests/integrate/test_native_runs.py", "tests/model/native/test_attention_sums.py"
SUBCYCLING = ("tests/coalescence/test_subcycling.py", "tests/coalescence/test_log_field.py")
TESTS = {
    **dict.fromkeys(("pair_sums.h", "simd.h", "attention_sums.cpp"), (SUMS, NATIVE_RUNS)),
    **dict.fromkeys(("pair_pullback.h", "pair_pullback.cpp"), ("tests/model/native/test_pullback.py",)),
    **dict.fromkeys(("field.h", "matrix_exponential.h", "tsit5.h", "steps.h", "stops.h", "runs.cpp"), (NATIVE_RUNS,)),
    "other_sums.cpp": (SUMS, *SUBCYCLING),
    "subcycling.cpp": SUBCYCLING,
}
"""The tests of each source."""
INCLUDES = {
    "attention_sums.cpp": {"pair_sums.h", "simd.h", "symmetric_sums.h"},
    "pair_pullback.cpp": {"pair_pullback.h", "pair_sums.h", "simd.h"},
    "runs.cpp": {
        "pair_sums.h",
        "simd.h",
        "symmetric_sums.h",
        "field.h",
        "matrix_exponential.h",
        "tsit5.h",
        "steps.h",
        "stops.h",
    },
    "subcycling.cpp": {"simd.h"},
    "other_sums.cpp": {"simd.h"},
    "observables.cpp": {"pair_sums.h", "simd.h"},
    "cell_series.cpp": {"simd.h"},
    "host_calls.cpp": set(),
}
"""The headers of each compiled source, one inside the other."""
