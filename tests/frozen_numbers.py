"""Digests of the numbers of about 75 runs, to prove that a change of structure changes no number.

    python -m tests.frozen_numbers record before.json     # on the commit before a change
    python -m tests.frozen_numbers compare before.json    # after it: exit code 1 and a list where a digest differs

Digests are of bits, and bits depend on the processor and on the versions of JAX and NumPy: record and compare on one
machine. Cases cover every flow, attention rule, mask, normalisation, stopping condition and observable; every solver,
natively and by XLA; `coalesce` with and without accelerations and native kernel; `stream`; a head table; every verdict;
predictions; frames of the explorer. The path that computed a run is recorded beside its numbers.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import attnflow as af

TIMES = np.linspace(0.0, 3.0, 7)
MATRIX = np.random.default_rng(5).normal(size=(3, 3))
BOOLEAN = np.tril(np.random.default_rng(6).random((12, 12)) < 0.6) | np.eye(12, dtype=bool)


def digest(values: Any) -> str:
    """A short digest of an array's shape and bits; floating-point zeros of either sign are the same."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        array = array + 0.0
    text = f"{array.shape}{array.dtype.kind}".encode() + np.ascontiguousarray(array).tobytes()
    return hashlib.sha256(text).hexdigest()[:16]


def heads(count: int = 1) -> list:
    """Generic heads without any symmetry."""
    rng = np.random.default_rng(1)
    return [af.Head(*(rng.normal(size=(3, 3)) / 2 for _ in range(3))) for _ in range(count)]


def sphere_tokens(n: int = 12, d: int = 3, seed: int = 0) -> np.ndarray:
    """First tokens on the sphere."""
    return np.asarray(af.initial.sphere(n, d, rng=seed))


def simulated(flow: Any, tokens: Any, **options: Any) -> dict[str, Any]:
    """Everything numerical of a run of `simulate`, and the path that computed it."""
    run = af.simulate(flow, tokens, options.pop("times", TIMES), progress=False, **options)
    numbers = {name: run[name].values for name in run.data_vars if run[name].dtype.kind in "fib"}
    return {**numbers, "computed by": run.attrs["computed_by"]}


def simulations() -> Iterator[tuple[str, Callable[[], dict]]]:
    """Every part of the model once, each with generic weights."""
    on_sphere, in_space = sphere_tokens(), np.random.default_rng(2).normal(size=(12, 3))
    attentions = {
        "softmax": af.Softmax(2.0), "unnormalised": af.Unnormalised(1.5, 1.0), "sinkhorn": af.Sinkhorn(1.0, 5),
        "hardmax": af.Hardmax(),
    }  # fmt: skip
    masks = {
        "causal": af.masks.causal, "strictly-causal": af.masks.strictly_causal, "others": af.masks.others,
        "window": af.masks.window(3), "alibi": af.masks.alibi(0.3), "causal alibi": af.masks.causal & af.masks.alibi(0.3),
        "boolean": af.masks.boolean(BOOLEAN),
    }  # fmt: skip
    for name, rule in attentions.items():
        yield f"sphere {name}", lambda rule=rule: simulated(af.SphereAttention(heads(), rule), on_sphere)
        yield f"rescaled {name}", lambda rule=rule: simulated(af.RescaledAttention(heads(), rule), in_space / 3)
    yield "euclidean", lambda: simulated(af.EuclideanAttention(heads(2), af.Softmax(0.5)), in_space)
    for name, mask in masks.items():
        frozen = np.arange(12) == 0 if name == "strictly-causal" else None
        yield (
            f"mask {name}",
            lambda mask=mask, frozen=frozen: simulated(
                af.SphereAttention(heads(2), af.Softmax(2.0), mask, frozen=frozen), on_sphere
            ),
        )
    schemes = {"pre": af.Pre(), "mix": af.Mix(1.0), "peri": af.Peri(), "ngpt": af.NGPT(0.3), "sqrt": af.Sqrt()}
    for name, scheme in schemes.items():
        tokens = on_sphere if name in ("ngpt", "sqrt") else in_space
        flow = af.SphereAttention(heads(), af.Softmax(1.0), normalisation=scheme)
        yield f"normalisation {name}", lambda flow=flow, tokens=tokens: simulated(flow, tokens)
    plain = af.SphereAttention(heads(), af.Softmax(1.0), masses=np.arange(1.0, 13.0), mlp=af.MLP(MATRIX, "gelu"))
    solvers = {
        "order 8": af.Adaptive(order=8), "stiff": af.Adaptive(rtol=1e-5, atol=1e-7, stiff=True), "euler": af.Euler(0.1),
        "heun": af.Heun(0.1), "rk4": af.RK4(0.1), "layers": af.Layers(0.1, 0.9),
    }  # fmt: skip
    for name, solver in solvers.items():
        yield f"solver {name}", lambda solver=solver: simulated(plain, on_sphere, solver=solver)
    noisy = af.SphereAttention(heads(), af.Unnormalised(1.0), noise=af.Noise(2.0))
    yield "noise", lambda: simulated(noisy, np.stack([on_sphere, on_sphere]), rng=4)
    in_common = af.SphereAttention(heads(), noise=af.Noise(2.0, common=True))
    yield "common noise", lambda: simulated(in_common, on_sphere, rng=4, solver=af.StochasticHeun(0.05))
    redrawn = af.EuclideanAttention(af.RedrawnHead(3, 1.0, 7, query_key="gaussian", value="gaussian"))
    yield "redrawn heads", lambda: simulated(redrawn, in_space)
    pieces = af.PiecewiseHead([1.0, 2.0], [af.Head.identity(3), *heads(2)])
    yield "piecewise head", lambda: simulated(af.SphereAttention(pieces), on_sphere)
    turning = af.TimeDependentHead(lambda time: af.Head(np.eye(3), np.eye(3), (1 + time) * MATRIX), dimension=3)
    yield "time-dependent head", lambda: simulated(af.SphereAttention(turning), on_sphere)
    ensemble = np.stack([sphere_tokens(seed=seed) for seed in range(5)])
    stopping = {"stop": af.Clustered(0.1), "observables": observables()}
    yield "ensemble", lambda: simulated(af.SphereAttention(af.Head.identity(3), af.Softmax(3.0)), ensemble, **stopping)
    stops = [af.Settled(1e-2), af.Diverged(20.0)]
    yield "other stops", lambda: simulated(af.EuclideanAttention(heads(2), af.Softmax(0.5)), in_space, stop=stops)
    masked = af.SphereAttention(heads(2), af.Softmax(1.0), af.masks.causal, masses=np.arange(1.0, 13.0))
    for name in ("euler", "heun", "rk4"):
        yield f"native {name}", lambda name=name: simulated(masked, on_sphere, solver=solvers[name])
    yield "native float32", lambda: simulated(masked, on_sphere, dtype="float32")
    yield "float32", lambda: simulated(plain, on_sphere, dtype="float32")
    yield "linearise", lambda: {"jacobian": af.linearise(plain, on_sphere).eigenvalues}
    yield "lyapunov", lambda: {"exponents": af.lyapunov_exponents(plain, on_sphere, 2.0)}


def observables() -> dict[str, Callable]:
    """Every observable."""
    known = af.observables
    plain = {
        one.__name__: one for one in (known.mean_cosine, known.order_parameter, known.diameter, known.largest_norm)
    }
    return {**plain, "energy": known.Energy(3.0), "close_pairs": known.ClosePairs(0.1)}


COALESCING = ("tokens", "log_time", "merge_log_time", "first", "second", "angle", "steps", "rejected_steps")


def coalesced(flow: Any, tokens: Any, **options: Any) -> dict[str, Any]:
    """Everything numerical of a run of `coalesce`."""
    run = af.coalesce(flow, tokens, progress=False, **options)
    return {name: run[name].values for name in COALESCING}


def long_runs() -> Iterator[tuple[str, Callable[[], dict]]]:
    """`coalesce` with each acceleration at work, and without; `stream` and `append`."""
    identity = lambda d, beta: af.SphereAttention(af.Head.identity(d), af.Softmax(beta))
    circle = np.asarray(af.initial.circle(60, rng=3))
    yield "coalesce circle", lambda: coalesced(identity(2, 100.0), circle)
    yield "coalesce S^2", lambda: coalesced(identity(3, 60.0), sphere_tokens(80, 3, 1))
    yield "coalesce S^9", lambda: coalesced(identity(10, 80.0), sphere_tokens(200, 10, 2))
    yield "coalesce plain", lambda: coalesced(identity(3, 40.0), sphere_tokens(15, 3, 4), shortcuts=False)
    unnormalised = af.SphereAttention(af.Head.identity(2), af.Unnormalised(50.0, 1.0), masses=np.arange(1.0, 31.0))
    yield "coalesce masses", lambda: coalesced(unnormalised, circle[:30])
    turned = af.SphereAttention(af.Head(np.eye(3), np.eye(3), np.diag([1.2, 1.0, 0.9])), af.Softmax(5.0))
    yield "coalesce other V", lambda: coalesced(turned, sphere_tokens(10, 3, 5), perturb=1e-3, rng=1)
    causal = af.SphereAttention(af.Head.identity(2), af.Softmax(30.0), af.masks.causal)
    yield (
        "stream",
        lambda: {"tokens": af.stream(causal, circle[:15], [0.0, 10.0, 1e6, 1e30], progress=False).tokens.values},
    )
    growing = af.EuclideanAttention(af.Head.identity(2), af.Softmax(1.0), af.masks.causal)
    in_space = np.random.default_rng(3).normal(size=(6, 2))
    yield "stream R^d", lambda: {"tokens": af.stream(growing, in_space, [0.0, 1.0, 4.0], progress=False).tokens.values}
    yield "append", lambda: {"tokens": appended(causal, circle).tokens.values}


def appended(flow: Any, tokens: np.ndarray) -> Any:
    """Eight tokens streamed, then three more."""
    run = af.stream(flow, tokens[:8], [0.0, 100.0], progress=False)
    return af.append(run, tokens[8:11], progress=False)


WITHOUT_KERNEL = (
    "sphere softmax", "rescaled softmax", "euclidean", "mask causal", "normalisation ngpt", "normalisation sqrt",
    "native euler", "native heun", "native rk4", "ensemble", "other stops", "coalesce circle", "coalesce other V",
)  # fmt: skip


def without_kernel() -> dict[str, Any]:
    """Digests of runs that are native elsewhere, in a process that does not use the native library."""
    program = "import json; from tests import frozen_numbers as f; print(json.dumps(f.some(f.WITHOUT_KERNEL)))"
    found = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "ATTNFLOW_NATIVE": "0"}, capture_output=True, text=True
    )
    if found.returncode:
        raise RuntimeError(found.stderr)
    return json.loads(found.stdout.splitlines()[-1])


def verdicts() -> dict[str, Any]:
    """Verdict and measured number of every statement on its example and on its control."""
    from attnflow.theorems.catalogue import catalogue

    found = {}
    for name, statement in catalogue().items():
        for kind, verdict in (("example", statement.verify()), ("control", statement.verify_control())):
            measured = np.nan if verdict.measurement is None else verdict.measurement.value
            found[f"{name} {kind}"] = verdict.verdict
            found[f"{name} {kind} value"] = np.float64(measured)
    return found


def predictions() -> dict[str, Any]:
    """Predicted limit of every scenario, and which results say so."""
    scenarios = _scenarios()
    found = {}
    for name, scenario in scenarios.CATALOGUE.items():
        setup = scenarios.build(scenarios.change(scenario.settings, {}))
        tokens = setup.tokens if setup.tokens.ndim == 2 else setup.tokens[0]
        prediction = af.predict(setup.flow, tokens)
        found[name] = f"{prediction.limit}: {', '.join(result.id for result in prediction.results)}"
    return found


def _scenarios() -> Any:
    from attnflow.experiments import scenarios

    return scenarios


def trained() -> dict[str, Any]:
    """A head table of MiniLM and a prompt through its layers, where the weights are installed."""
    model = af.models.load("minilm")
    table = af.trained.head_table(model, layers=[0, 3], progress=False)
    numbers = {name: table[name].values for name in table.data_vars if table[name].dtype.kind in "fi"}
    run = model.trajectory("Tokens gather into clusters.", attention=True)
    return {**numbers, "tokens": run.tokens.values, "attention": run.attention.values}


def frames() -> dict[str, Any]:
    """Frames of the explorer: tokens, cluster colours and bytes on the wire."""
    from attnflow.explorer import catalogue, page_requests, protocol
    from attnflow.explorer.live_run import LiveRun

    found = {}
    for name in ("sphere", "polytope", "renyi", "staircase"):
        assert catalogue.get(name)
        run = LiveRun(1, page_requests.parse(json.dumps({"type": "start", "scenario": name})), lambda *_: None)
        while run.position < 12:
            run.forward(1.0)
        shown = run.frame
        frame = protocol.FrameMessage(1, shown.index, shown.time, shown.tokens, shown.colours)
        found[name] = np.frombuffer(protocol.frame_bytes(frame), np.uint8)
    return found


def recorded_files() -> dict[str, Any]:
    """A run saved, loaded and run again."""
    with tempfile.TemporaryDirectory() as folder:
        flow = af.SphereAttention(heads(2), af.Softmax(2.0), af.masks.causal)
        path = Path(folder, "run.nc")
        af.save(af.simulate(flow, sphere_tokens(), TIMES, progress=False), path)
        return {"loaded": af.load(path).tokens.values, "rerun": af.rerun(path).tokens.values}


def cases() -> dict[str, Callable[[], dict]]:
    """All cases by name."""
    others = {
        "without the native kernel": without_kernel, "verdicts": verdicts, "predictions": predictions,
        "trained": trained, "explorer frames": frames, "files": recorded_files,
    }  # fmt: skip
    return {**dict(simulations()), **dict(long_runs()), **others}


def some(names: Any) -> dict[str, str]:
    """Digests of some cases, one entry an array."""
    found = {}
    for name in names:
        for key, value in cases()[name]().items():
            found[f"{name}: {key}"] = value if isinstance(value, str) else digest(value)
    return found


def compare(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """One line for every entry that differs."""
    return [
        f"{key}: {before.get(key, 'absent')} -> {after.get(key, 'absent')}"
        for key in sorted(before.keys() | after.keys())
        if before.get(key) != after.get(key)
    ]


def main(arguments: list[str]) -> int:
    """Record or compare."""
    if len(arguments) < 2 or arguments[0] not in ("record", "compare"):
        print(__doc__)
        return 2
    action, path, *names = arguments
    found = some(names or cases())
    if action == "record":
        Path(path).write_text(json.dumps(found, indent=1))
        print(f"{len(found)} digests recorded.")
        return 0
    before = json.loads(Path(path).read_text())
    if names:
        before = {key: value for key, value in before.items() if key.split(":")[0] in names}
    differences = compare(before, found)
    print("\n".join(differences) or f"All {len(found)} digests are equal.")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
