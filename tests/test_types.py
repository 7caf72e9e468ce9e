"""Models run with every annotated shape checked, and without broadcasting between arrays of different rank."""

import os
import subprocess
import sys

PROGRAM = """
from jaxtyping import install_import_hook
with install_import_hook("attnflow", "beartype.beartype"):
    import attnflow as af
    import attnflow.integrate.simulate, attnflow.results.records
import jax.numpy as jnp
import numpy as np

tokens = af.initial.sphere(6, 3, rng=1)
identity = af.Head.identity(3)
flows = [
    af.EuclideanAttention(identity, af.Unnormalised(0.5), masses=np.arange(1.0, 7.0)),
    af.RescaledAttention([identity, identity], af.Sinkhorn(2.0), af.masks.window(2) & af.masks.alibi(0.3)),
    af.SphereAttention(identity, af.Sinkhorn(2.0), af.masks.others, masses=np.arange(1.0, 7.0)),
    af.EuclideanAttention(identity, mask=af.masks.boolean(np.tri(6) > 0) & af.masks.alibi(0.3), masses=np.ones(6)),
    af.RescaledAttention(identity, mlp=af.MLP(np.eye(3), "tanh", np.ones(3))),
    af.SphereAttention(identity, af.Softmax(2.0), af.masks.causal, normalisation=af.Pre()),
    af.SphereAttention(identity, noise=af.Noise(2.0), frozen=np.arange(6) < 2),
    af.SphereAttention(af.RedrawnHead(3, 0.25), normalisation=af.Mix(0.5)),
]
for flow in flows:
    run = af.simulate(flow, np.stack([tokens, -tokens]), [0.0, 0.5, 1.0], rng=0, stop=af.Clustered(1e-3))
    assert not run.failed.any(), run.outcome
hard = af.SphereAttention([identity] * 5, af.Hardmax(), af.masks.others)
observed = {"energy": af.observables.Energy(1.0), "diameter": af.observables.diameter}
af.simulate(hard, tokens, [0.0, 0.5], dtype="float32", solver=af.RK4(0.1), observables=observed)
af.attention_matrix(hard, tokens)
try:
    af.observables.mean_cosine(0.0, tokens[0])
except Exception as error:
    print(type(error).__name__)
try:
    jnp.ones((2, 2)) + jnp.ones(2)
except ValueError:
    print("refused")
"""


def test_models_run_with_all_annotations_checked():
    """The controls: a vector instead of tokens is refused, and so is the sum of a matrix and a vector."""
    environment = {**os.environ, "JAX_NUMPY_RANK_PROMOTION": "raise"}
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.split() == ["TypeCheckError", "refused"]
