"""Named scenarios: each runs, and shows what theory says of it; sentences state no outcome of a run."""

import functools
import re
from dataclasses import replace

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments import run_summary, scenarios


@functools.cache
def run(name, **changes):
    """The flow of a scenario, its run and its summary, once for all tests."""
    settings = replace(scenarios.get(name).settings, **changes)
    setup = scenarios.build(settings)
    result = af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng)
    return setup.flow, result, run_summary.summarise(setup.flow, result)


SIMULATED = [name for name, scenario in scenarios.CATALOGUE.items() if not scenario.coalesces]


@pytest.mark.parametrize("name", SIMULATED)
def test_every_scenario_reaches_its_end(name):
    _, result, summary = run(name)

    assert "eached" in result.outcome
    assert not np.any(result.failed)
    assert np.all(np.isfinite(result.tokens))
    assert np.min(summary["clusters"]) >= 1
    assert summary["failed"] == 0


# Lines of codim2 form at t = 13, but float64 separates scores that differ by one only until t = 7.5.
BEYOND_FLOAT64 = {"codim2"}
WITH_STATEMENT = [name for name in SIMULATED if scenarios.get(name).statement and name not in BEYOND_FLOAT64]


@pytest.mark.parametrize("name", WITH_STATEMENT)
def test_every_scenario_runs_until_its_statement_is_decided(name):
    flow, result, _ = run(name)

    (verdict,) = af.verify(flow, result, [scenarios.get(name).statement])

    assert verdict.verdict == "holds", verdict.explanation()


@pytest.mark.parametrize("name", sorted(BEYOND_FLOAT64))
def test_a_scenario_beyond_the_resolution_of_float64_is_not_judged(name):
    flow, result, _ = run(name)

    (verdict,) = af.verify(flow, result, [scenarios.get(name).statement])

    assert verdict.verdict in ("undecided", "not_applicable")
    assert "float64 cannot separate scores" in result.outcome


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sphere", {"end": 1.0}),
        ("layernorm-pre", {"end": 30.0}),
        ("polytope", {"end": 3.0}),
        ("hyperplanes", {"value": "minus-identity"}),
    ],
)
def test_a_shorter_run_or_another_model_does_not_show_it(name, changes):
    """The control: the statement of a scenario is not decided by any run."""
    flow, result, _ = run(name, **changes)

    (verdict,) = af.verify(flow, result, [scenarios.get(name).statement])

    assert verdict.verdict in ("undecided", "not_applicable")


def test_scenarios_without_a_statement_are_those_of_which_no_theorem_speaks():
    without = {name for name in SIMULATED if not scenarios.get(name).statement}

    assert without == {"multihead", "noisy", "sinkhorn", "mlp", "layers", "redrawn", "conjecture1"}


def test_boolean_attention_has_zeros_and_ones_and_rank_two():
    flow, result, summary = run("boolean")

    weights = run_summary.final_matrix(flow, result)
    assert np.max(np.minimum(weights, 1 - weights)) < 1e-8
    assert summary["attention_rank"] == 2
    first = result.initial_tokens.values[:, 0]
    leaders = {int(np.argmin(first)), int(np.argmax(first))}
    assert set(np.flatnonzero(weights.sum(axis=0) > 0.5)) == leaders


def test_polytope_tokens_gather_in_few_points():
    _, _, summary = run("polytope")

    assert summary["clusters"] < 10
    assert summary["tokens"] == 20


def test_hyperplanes_are_two_lines():
    """phi_1, the left leading eigenvector, takes at most three values; here two."""
    _, result, _ = run("hyperplanes")

    values, vectors = np.linalg.eig(np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]]).T)
    coordinate = result.final_tokens.values @ vectors[:, np.argmax(values)]
    assert int(af.clusters.labels(coordinate[:, None], 0.05).max()) + 1 == 2


def test_causal_tokens_end_where_the_first_one_started():
    _, result, _ = run("causal")

    np.testing.assert_allclose(result.final_tokens, np.tile(result.initial_tokens[0], (32, 1)), atol=1e-3)


def test_minus_identity_sends_everyone_to_zero():
    _, result, _ = run("minus-identity")

    assert 1e-3 < np.abs(result.final_tokens).max() < 0.2  # one over the root of 2000, times a few


def test_weights_start_and_noise_change_with_the_seed_alone():
    one, two, other = (scenarios.build(replace(scenarios.get("multihead").settings, seed=seed)) for seed in (1, 1, 2))

    np.testing.assert_array_equal(one.tokens, two.tokens)
    np.testing.assert_array_equal(one.flow.heads[0].query, two.flow.heads[0].query)
    assert not np.array_equal(one.tokens, other.tokens)
    assert not np.array_equal(one.flow.heads[0].query, other.flow.heads[0].query)


def test_a_matrix_whose_products_overflow_is_refused():
    with pytest.raises(InputError, match="entries of `value` must be at most 1e\\+100 in size"):
        scenarios.build(replace(scenarios.get("sphere").settings, n=8, value="diagonal:1e308,1,1"))
    assert scenarios.build(replace(scenarios.get("sphere").settings, n=8, value="diagonal:1e99,1,1")).flow


OUTCOME = re.compile(
    r"\b(becomes?|converges?|grows?|gathers?|stays?|captures?|meets?|go to|ends?|holds?|follow|for ever)\b"
)


def claims(sentence):
    """Words of outcomes before a statement of theory begins; a question claims nothing."""
    setting = re.split(r"Theory:|Conjecture:", sentence)[0]
    return [] if setting.endswith("?") else OUTCOME.findall(setting)


@pytest.mark.parametrize("name", list(scenarios.CATALOGUE))
def test_sentences_claim_no_outcome(name):
    assert claims(scenarios.get(name).sentence) == []


def test_a_claim_would_be_noticed():
    """The control."""
    assert claims("On the line attention becomes zeros and ones: all follow the first or the last token.")
    assert claims("Causal attention with V = I: every token ends where the first one started.")


def test_the_solver_of_a_scenario_has_the_documented_tolerances():
    solver = scenarios.build(scenarios.get("sphere").settings).solver

    assert (float(solver.rtol), float(solver.atol)) == (1e-8, 1e-10)


def test_setups_are_equal_where_all_arguments_are_and_their_text_is_short():
    one = af.scenario("renyi", n=200, runs=3)
    assert one == af.scenario("renyi", n=200, runs=3)
    for other in ({"beta": 3.0}, {"seed": 9}, {"end": 7.0}, {"rtol": 1e-6}, {"n": 199}):
        assert one != af.scenario("renyi", **({"n": 200, "runs": 3} | other))
    assert one != "renyi"
    assert "tokens=3 x 200 x 2, times=101 from 0 to" in repr(one)
    assert len(repr(one)) < 500
    assert len(repr(af.law_scenario("meanfield"))) < 500
