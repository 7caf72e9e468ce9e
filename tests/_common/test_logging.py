"""The logger "attnflow": silent by default, and what it says where it is asked."""

import logging
import subprocess
import sys

import numpy as np

import attnflow as af


def test_nothing_is_printed_unless_asked():
    program = "import attnflow as af\naf.simulate(af.EuclideanAttention(af.Head.identity(1)), [[1.0]], [0, 1])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_a_run_tells_how_it_is_computed(caplog):
    with caplog.at_level(logging.INFO, logger="attnflow"):
        af.simulate(af.EuclideanAttention(af.Head.identity(1)), [[[1.0]], [[2.0]]], [0, 1], progress=False)
        others = af.EuclideanAttention(af.Head.identity(1), mask=af.masks.others)
        af.simulate(others, [[1.0], [2.0]], [0, 1], progress=False)
    said = "\n".join(caplog.messages)
    assert "simulate: 2 runs of 1 tokens in float64" in said
    assert "compiled by XLA, since the mask is masks.others" in said
    assert "compiled, or read from the cache" in said
    assert "runs ended early: none" in said
    assert {record.name.partition(".")[0] for record in caplog.records} == {"attnflow"}


def test_a_spent_budget_is_told(caplog):
    with caplog.at_level(logging.INFO, logger="attnflow"):
        flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta=9.0), af.masks.causal)
        af.simulate(flow, af.initial.circle(9, rng=0), [0, 1e9], budget=1e-6, progress=False)
        af.stream(flow, af.initial.circle(200, rng=0), [0.0, 1e9], budget=1e-3, progress=False)
        af.coalesce(af.SphereAttention(af.Head.identity(2)), np.eye(2), progress=False)
    said = "\n".join(caplog.messages)
    assert "runs ended early: 1 out of time" in said
    assert "OUT_OF_TIME" in said
    assert "coalesce: 2 tokens" in said
    assert "coalesce: One cluster since" in said
