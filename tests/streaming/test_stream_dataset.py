"""What a streamed run records of its making, in this version and in 0.1.0."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnflow as af
from attnflow.experiments.run_summary import summarise
from attnflow.results.provenance import flow_of, solver_of
from attnflow.solvers.status import Status
from attnflow.solvers.token_by_token import TokenByToken
from attnflow.streaming.stream_dataset import StreamEnding, _divergence

FILE_OF_0_1_0 = Path(__file__).parents[1] / "results" / "files_of_0_1_0" / "streamed.nc"
FLOW = af.SphereAttention(af.Head.identity(2), af.Softmax(9.0), af.masks.causal, masses=[1.0, 2.0])
TOKENS, TIMES, TOLERANCE = af.initial.circle(2, rng=0), [0.0, 10.0, 1e6], 1e-7


@pytest.fixture(scope="module")
def run():
    return af.stream(FLOW, TOKENS, TIMES, tolerance=TOLERANCE)


def test_a_run_records_the_solver_that_was_used_and_nothing_that_was_not(run):
    assert set(run.attrs) == {
        *("kind", "attnflow_version", "outcome", "outcomes", "flow", "solver", "dtype", "requested_times")
    }
    assert run.attrs["kind"] == "attnflow stream"
    assert solver_of(run) == TokenByToken(TOLERANCE)
    assert json.loads(run.attrs["solver"]) == {"is": "TokenByToken", "tolerance": TOLERANCE}
    assert json.loads(run.attrs["requested_times"]) == TIMES
    assert summarise(flow_of(run), run)["solver"] == "TokenByToken, tolerance 1e-07"


def test_files_hold_the_record_and_the_numbers(run, tmp_path):
    for name in ("run.nc", "run.zarr"):
        loaded = af.load(af.save(run, tmp_path / name))
        assert loaded.equals(run)
        assert {name: value for name, value in loaded.attrs.items() if name != "date"} == run.attrs
        assert af.rerun(tmp_path / name).attrs == run.attrs


def test_the_recorded_solver_is_not_one_of_simulate(run):
    with pytest.raises(ValueError, match="`solver`"):
        af.simulate(FLOW, TOKENS, [0.0, 1.0], solver=solver_of(run))


def test_without_pieces_a_run_is_repeated_but_not_appended_to(run):
    bare = run.drop_vars(["piece_series", "piece_start"])
    assert af.rerun(bare).equals(run)
    with pytest.raises(ValueError, match="with the pieces of its paths, but it has none"):
        af.append(bare, np.eye(2))


@pytest.fixture(scope="module")
def old():
    """A file of version 0.1.0, which recorded the tolerance as that of an adaptive solver of `simulate`."""
    return af.load(FILE_OF_0_1_0)


def test_a_file_of_0_1_0_is_loaded_and_repeated(old, run):
    assert old.attrs["attnflow_version"] == "0.1.0"
    assert old.attrs["kind"] == "attnflow trajectory"
    # `piece_bend` is now `piece_log_compression`, and `status` is new.
    assert {*old.variables, "status"} == set(run.variables)
    assert old.piece_start.dims == run.piece_start.dims == ("piece", "component")
    again = af.rerun(FILE_OF_0_1_0)
    assert again.attrs == run.attrs
    assert again.equals(run)
    np.testing.assert_allclose(again.tokens, old.tokens, atol=1e-12)


def test_tokens_are_appended_to_a_file_of_0_1_0(old, run):
    more = af.initial.circle(1, rng=5)
    longer = af.append(old, more)
    np.testing.assert_array_equal(longer.tokens[:, :2], old.tokens)  # the old paths stay bit for bit
    np.testing.assert_allclose(longer.tokens, af.append(run, more).tokens, atol=1e-10)
    assert longer.attrs["kind"] == "attnflow stream"
    assert solver_of(longer) == TokenByToken(TOLERANCE)


def test_statements_are_verified_on_a_file_of_0_1_0(old, run):
    statements = ["identity-value", "first-token"]
    verdicts = [[one.verdict for one in af.verify(each, only=statements)] for each in (old, run)]
    assert verdicts[0] == verdicts[1]


def test_a_file_of_0_1_0_is_drawn(old, tmp_path):
    af.show.centres(old, tmp_path / "old.png")
    assert (tmp_path / "old.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("flow", "status", "is_named"),
    [
        (af.EuclideanAttention(af.Head.identity(2)), Status.STEP_TOO_SMALL, True),
        (af.SphereAttention(af.Head.identity(2)), Status.STEP_TOO_SMALL, False),
        (af.EuclideanAttention(af.Head.identity(2)), Status.OUT_OF_TIME, False),
    ],
)
def test_only_short_steps_in_space_may_be_a_divergence(flow, status, is_named):
    assert ("reaches infinity" in _divergence(flow, StreamEnding(status, 0, 1e-9))) is is_named


def test_a_record_of_another_solver_is_refused_with_a_sentence(run):
    damaged = run.assign_attrs(solver='{"is": "Layers", "step": 1.0}')

    with pytest.raises(ValueError, match="must be TokenByToken, but the dataset records Layers"):
        af.rerun(damaged)


@pytest.mark.parametrize("tolerance", ['"attnflow stream"', "null", "-1", "[]", '{"is": "Softmax", "beta": 1.0}'])
def test_a_record_of_a_tolerance_that_is_no_number_is_refused_with_a_sentence(run, tolerance):
    damaged = run.assign_attrs(solver=f'{{"is": "TokenByToken", "tolerance": {tolerance}}}')

    with pytest.raises(ValueError, match=r"tolerance|rtol"):
        af.rerun(damaged)
