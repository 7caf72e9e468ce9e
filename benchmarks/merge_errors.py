"""How large are the errors of merge times, and is the merge tree right?

Random starts, half of them in clumps, with and without masses, under softmax and unnormalised attention: `coalesce`
against itself without accelerations at a hundredth of its tolerance. Errors are divided by the one that its docstring
states. A start whose finer run takes longer than MAX_SECONDS is left out.

    python -m benchmarks.merge_errors
"""

import numpy as np
from tests.helpers.coalescing import merge_tree

import attnflow as af

RTOL, FINE = 1e-6, 1e-8
RUNS = 100
MAX_SECONDS = 25.0  # of a finer run


def start(seed):
    """A random flow, its tokens, beta and masses."""
    rng = np.random.default_rng(seed)
    n, d, beta = int(rng.integers(3, 90)), int(rng.choice([2, 3, 4, 8, 12])), float(np.exp(rng.uniform(0.4, 6.0)))
    masses = np.exp(rng.uniform(0, 5, size=n)) if rng.random() < 0.3 else np.ones(n)
    rule = af.Softmax(beta) if rng.random() < 0.7 else af.Unnormalised(beta, offset=1.0)
    tokens = af.initial.sphere(n, d, rng=seed)
    if rng.random() < 0.5:
        centres = af.initial.sphere(int(rng.integers(1, 5)), d, rng=seed + 1)
        tokens = centres[rng.integers(0, len(centres), n)] + 10 ** rng.uniform(-3, -0.5) * rng.normal(size=(n, d))
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    return af.SphereAttention(af.Head.identity(d), rule, masses=masses), tokens, beta, masses


def errors(seed, rtol=RTOL):
    """Errors of all merges over the stated one, NaN for clusters that never formed; None if the finer run is ended."""
    flow, tokens, beta, masses = start(seed)
    found = af.coalesce(flow, tokens, rtol=rtol, progress=False)
    exact = af.coalesce(flow, tokens, rtol=FINE, shortcuts=False, budget=MAX_SECONDS, progress=False)
    if int(exact.clusters[-1]) > 1:
        return None
    times, merge, ratios = merge_tree(found), found.attrs["merge"], []
    for place, (cluster, log_time) in enumerate(merge_tree(exact).items(), 1):
        is_softmax = isinstance(flow.attention, af.Softmax)
        unit = 1.0 if is_softmax else masses.sum() / masses[list(cluster)].sum()
        stated = beta * (RTOL + merge) * place + 1e4 * RTOL * unit * np.exp(-log_time)
        ratios.append(abs(times.get(cluster, np.nan) - log_time) / stated)
    return np.array(ratios)


def test_a_coarser_run_exceeds_the_error_stated_for_a_finer_one():
    assert np.nanmax(errors(3)) < 4
    assert np.nanmax(errors(3, rtol=1e-2)) > 4


if __name__ == "__main__":
    runs = [ratios for ratios in map(errors, range(RUNS)) if ratios is not None]
    ratios = np.concatenate(runs)
    known = ratios[np.isfinite(ratios)]
    print(f"{len(runs)} of {RUNS} runs, {len(ratios)} merges; {len(ratios) - len(known)} clusters that never formed")
    print(
        f"beyond the stated error: {np.sum(known > 1)}, by up to {known.max():.1f} times; median {np.median(known):.1e}"
    )
