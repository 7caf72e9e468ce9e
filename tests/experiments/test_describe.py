"""`describe` says what a run shows: measured numbers beside predicted ones, and no prediction is called contradicted early."""

import json

import numpy as np
import pytest
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments.headline import headline


def described(name, **changes):
    setup = af.scenario(name, **changes)
    return af.describe(
        af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng, progress=False)
    )


def test_a_predicted_limit_that_is_shown_agrees_and_its_statement_holds():
    found = described("polytope", n=12)
    assert found.facts["limit shown"] == "points of a polytope"
    assert found.facts["limit predicted"].endswith("(proved, arXiv:2305.05465 Theorem 3.1): agrees")
    assert "polytope" in found.facts["statements: holds"].split(", ")
    assert found.headline.startswith("12 rescaled tokens in R^2")


def test_a_metastable_state_is_not_called_a_contradiction():
    found = described("renyi", n=40)
    assert found.facts["limit shown"] == "several points"
    assert "not reached at t = 150; identity-value: " in found.facts["limit predicted"]
    assert "identity-value" in found.facts["statements: undecided"]


def test_layers_are_not_said_to_be_proved_by_a_theorem_on_continuous_time():
    """Layers of step 2.5 under V = -I diverge: the theorem on continuous time says nothing of them."""
    flow = af.EuclideanAttention(af.Head(value=-np.eye(2)))
    tokens = af.initial.gaussian(8, 2, rng=0)
    long, short = (
        af.describe(af.simulate(flow, tokens, step * np.arange(0, 81, 2), solver=af.Layers(step), progress=False))
        for step in (2.5, 0.1)
    )
    promised = "all to zero (proved for continuous time, arXiv:2305.05465 case V = -I"
    for found, answer in ((long, "not shown at t = 200"), (short, "agrees")):
        assert found.facts["limit predicted"].startswith(promised)
        assert found.facts["limit predicted"].endswith(answer)


def test_the_rate_is_measured_beside_that_of_the_theorem():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0))
    run = af.simulate(flow, af.initial.hemisphere(8, 3, rng=0), np.linspace(0, 14, 141), progress=False)
    text = af.describe(run).facts["rate"]
    rate, low, high = (
        float(text.split(before)[1].split()[0].strip("();")) for before in ("in t ", "interval ", " to ")
    )
    assert low <= 2.0 <= high
    assert abs(rate - 2) < 0.05
    assert text.endswith("a theorem gives 2")


def test_tokens_settle_at_the_first_time_after_which_they_stay():
    flow = af.SphereAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.on_circle([0.0, 1.0]), np.linspace(0, 20, 201), progress=False)
    settled = float(af.describe(run).facts["settled at"].split("t = ")[1].split(",")[0])
    away = np.linalg.norm(run.tokens.values - run.tokens.values[-1], axis=-1).max(axis=1)
    assert away[run.time.values >= settled].max() <= 0.01 < away[run.time.values < settled][-1]
    short = af.simulate(flow, af.initial.on_circle([0.0, 1.0]), np.linspace(0, 1, 11), progress=False)
    assert "settled at" not in af.describe(short).facts


def test_a_rotating_cluster_is_said_to_rotate_at_the_speed_of_the_eigenvalues():
    flow = af.SphereAttention(af.Head(value=af.values.complex_pair(0.5, 2.0)))
    run = af.simulate(flow, af.initial.on_circle([0.0, 0.2, 0.4]), np.linspace(0, 20, 401), progress=False)
    facts = af.describe(run).facts
    assert facts["limit shown"] == "rotation"
    assert facts["rotation"].startswith("2 radians per unit of time")
    assert facts["rotation"].endswith("imaginary part 2")


def test_limits_of_an_ensemble_are_counted():
    flow = af.SphereAttention(af.Head.identity(3))
    run = af.simulate(flow, af.initial.sphere(6, 3, rng=0, runs=3), np.linspace(0, 30, 31), progress=False)
    facts = af.describe(run).facts
    assert facts["limits shown"] == "one point in 3 of 3 runs"
    assert facts["limits predicted"].startswith("one point (proved, ")
    assert facts["limits predicted"].endswith(": agrees in 3 of 3 runs")


def test_predicted_limits_of_an_ensemble_are_counted_by_answer():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(1.0), af.masks.causal)
    apart, near = af.initial.sphere(6, 3, rng=0), af.initial.hemisphere(6, 3, rng=1)
    run = af.simulate(flow, np.stack([[near[0]] * 6, near, apart]), np.linspace(0, 4, 21), progress=False)
    single = [af.describe(run.isel(run=index)).facts["limit predicted"] for index in range(3)]
    counted = af.describe(run).facts["limits predicted"]
    assert [text.split(": ")[1].split(" at ")[0] for text in single] == ["agrees", "not reached", "not reached"]
    assert counted.endswith(": not reached in 2, agrees in 1 of 3 runs")


def layers_of(tokens, step=1 / 3, flow=af.EuclideanAttention):
    """Forty hardmax layers of the Frank-Wolfe scheme."""
    solver = af.Layers(step, 1 - step)
    dynamics = flow(af.Head.identity(2), af.Hardmax())
    return af.simulate(dynamics, tokens, step * np.arange(41), solver=solver, progress=False)


SQUARE = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])


def test_leaders_of_layers_are_described_as_their_statement_says():
    run = layers_of(np.concatenate([SQUARE, af.initial.box(8, 2, -0.9, 0.9, rng=0)]))
    found = af.describe(run)
    assert found.facts["limit shown"] == "points of a polytope"
    assert found.facts["limit predicted"].endswith("theorem on clustering): agrees")
    assert "hull with 4 vertices" in found.headline
    assert "hardmax-limits-layers" in found.facts["statements: holds"]


def test_tokens_that_rest_on_a_face_leave_the_leaders_undecided():
    """Two tokens between corners: waiting changes nothing, and `describe` repeats what the statement measured."""
    run = layers_of(np.concatenate([SQUARE, [[0.5, 0.0], [-0.5, 0.0]]]))
    found, (verdict,) = af.describe(run), af.verify(run, only=["hardmax-limits-layers"])
    assert "2 tokens rest on a face" in verdict.explanation()
    predicted = found.facts["limit predicted"]
    assert predicted.endswith(f": undecided; hardmax-limits-layers: {verdict.explanation().removesuffix('.')}")
    assert "hull with 4 vertices" in found.headline


def test_layers_that_are_too_few_have_not_reached_the_leaders():
    run = layers_of(np.concatenate([SQUARE, af.initial.box(8, 2, -0.9, 0.9, rng=0)]), step=0.02)
    facts = af.describe(run).facts
    assert facts["limit shown"] == "undecided at this time"
    assert ": not reached at t = 0.8; hardmax-limits-layers: " in facts["limit predicted"]


def test_an_ensemble_of_one_run_is_described_as_the_run():
    flow = af.SphereAttention(af.Head.identity(3))
    run = af.simulate(flow, af.initial.sphere(6, 3, rng=0, runs=2), np.linspace(0, 30, 31), progress=False)
    assert repr(af.describe(run.isel(run=[1]))) == repr(af.describe(run.isel(run=1)))
    assert headline(flow, run.isel(run=[1])) == af.describe(run.isel(run=1)).headline
    assert "2 runs" in af.describe(run).headline


def test_the_command_prints_facts_and_json(tmp_path):
    flow = af.SphereAttention(af.Head.identity(2))
    run = af.simulate(flow, af.initial.on_circle([0.0, 1.0]), np.linspace(0, 20, 21), progress=False)
    af.save(run, tmp_path / "two.zarr")
    assert "limit shown" in attnflow("describe", "two.zarr", cwd=tmp_path)[0]
    found = json.loads(attnflow("describe", "two.zarr", "--json", cwd=tmp_path)[0])
    assert found["limit shown"] == "one point"
    assert all(one["verdict"] != "not_applicable" for one in found["verdicts"])


def test_merges_are_described_and_other_data_refused(tmp_path):
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(20.0))
    run = af.coalesce(flow, af.initial.on_circle([0.0, 0.3, 1.0]))
    assert "2 merges, one cluster" in af.describe(run).headline
    with pytest.raises(InputError, match="There is no result file"):
        af.describe(tmp_path / "none.zarr")


def test_one_token_on_the_sphere_is_described():
    run = af.simulate(af.SphereAttention(af.Head.identity(2)), [[1.0, 0.0]], np.linspace(0, 5, 21), progress=False)
    facts = af.describe(run).facts
    assert facts["tokens lie in"] == "one cluster"
    assert "rate" not in facts


def test_tokens_that_still_move_have_no_time_of_settling():
    """The headline says that they are not settled, although the last saved states are near each other."""
    setup = af.scenario("sphere", n=12, beta=3.0)
    run = af.simulate(setup.flow, setup.tokens, setup.times, progress=False)
    assert np.abs(run.tokens[-2] - run.tokens[-1]).max() < 0.01
    found = af.describe(run)
    assert "not settled" in found.headline
    assert "settled at" not in found.facts


def test_weights_that_keep_changing_let_no_token_settle():
    """New weights every tenth of the time: only the last states are near the last one."""
    tokens, heads = af.initial.circle(12, rng=0), (af.RedrawnHead(2, 0.1), af.Head.identity(2))
    runs = [
        af.simulate(af.SphereAttention(head), tokens, np.linspace(0, end, 401), progress=False)
        for head, end in zip(heads, (4, 60), strict=True)
    ]

    assert np.abs(runs[0].tokens[-2] - runs[0].tokens[-1]).max() < 0.01
    assert ["settled at" in af.describe(run).facts for run in runs] == [False, True]


def test_paths_of_saved_runs_are_taken_where_datasets_are(tmp_path):
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0))
    run = af.simulate(flow, af.initial.sphere(5, 3, rng=0), [0.0, 1.0], progress=False)
    path = af.save(run, tmp_path / "run.zarr")
    assert af.flow_of(path) == af.flow_of(str(path)) == flow
    assert af.config_of(path).values.keys() == af.config_of(run).values.keys()
    assert repr(af.verify(path)) == repr(af.verify(run))
    assert repr(af.describe(path)) == repr(af.describe(run)) == str(af.describe(run))


def test_predictions_and_verdicts_read_as_text_in_a_terminal():
    flow = af.SphereAttention(af.Head.identity(3), af.Softmax(2.0))
    predicted = af.predict(flow, af.initial.hemisphere(5, 3, rng=0))
    assert repr(predicted) == str(predicted)
    assert "Prediction(" not in repr(predicted)
    (verdict,) = af.verify(only=["interaction-peak"])
    assert repr(verdict).startswith("interaction-peak: holds. ")
