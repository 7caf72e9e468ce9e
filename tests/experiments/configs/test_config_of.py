"""A result gives back its settings, and these give the same result, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from tests.helpers.random_flows import random_flow, random_solver, random_stops, random_tokens

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments.configs.prepared_run import prepare
from attnflow.experiments.configs.run_config import RunConfig
from attnflow.experiments.configs.words_of_parts import model_values, solver_values, stop_values
from attnflow.experiments.vocabulary import ATTENTIONS, MASKS, NORMALISATIONS, OBSERVABLES, SOLVERS, SPACES
from attnflow.model.fast_sums import summation
from attnflow.results import records

N, D = 5, 3
FILES_OF_0_1_0 = Path(__file__).parents[2] / "results" / "files_of_0_1_0"


def same_run(first, second):
    """Whether two datasets have the same variables and the same record of their making."""
    made = {"scenario", "settings", "outcome", "outcomes", "date", "command"}
    made |= set() if af.flow_of(first).noise is not None else {"seed"}  # of the noise
    settings = [{name: run.attrs[name] for name in run.attrs.keys() - made} for run in (first, second)]
    return first.equals(second) and settings[0] == settings[1]


@pytest.mark.parametrize("seed", range(150))
def test_random_models_are_written_and_read_without_a_change(seed, tmp_path):
    rng = np.random.default_rng(seed)
    flow = random_flow(rng, N, D)
    tokens, solver, stops = random_tokens(rng, flow, N, D), random_solver(rng, flow), random_stops(rng)
    times = np.cumsum(rng.uniform(0.1, 1, 4))
    values = {"start": tokens, "times": times} | solver_values(solver) | stop_values(stops)

    path = af.save_config(RunConfig(model_values(flow) | values), tmp_path / "a.toml")
    found = prepare(af.load_config(path)).arguments

    assert records.record(found["flow"]) == records.record(flow)
    assert records.record(found["solver"]) == records.record(solver)
    assert records.record(found["stop"]) == records.record(stops)
    np.testing.assert_array_equal(found["tokens"], tokens)
    np.testing.assert_array_equal(found["times"], times)


@pytest.mark.parametrize("seed", range(8))
def test_a_result_of_a_random_model_is_computed_again_from_its_settings(seed, tmp_path):
    rng = np.random.default_rng(1000 + seed)
    flow = random_flow(rng, N, D)
    saved = {
        "energy": af.observables.Energy(0.3),
        "m": af.observables.mean_cosine,
        "close": af.observables.ClosePairs(0.4),
    }
    run = af.simulate(
        flow,
        random_tokens(rng, flow, N, D),
        np.cumsum([0.0, 0.05, 0.1]),
        solver=random_solver(rng, flow),
        stop=random_stops(rng),
        rng=np.random.SeedSequence(2**100 + seed, spawn_key=(3, 1)),
        observables=saved if seed % 2 else None,
        keep_tokens=bool(seed % 3),
        dtype="float32" if seed == 4 else "float64",
        memory=2e8,
    )

    path = af.save_config(af.config_of(run), tmp_path / "a.toml")

    assert same_run(af.load_config(path).run(), run)


def test_the_comparison_can_fail(tmp_path):
    """The control: another beta, in the seventeenth digit."""
    run = af.simulate(af.SphereAttention(af.Head.identity(2), af.Softmax(0.3)), np.eye(2), [0.0, 1.0])

    changed = af.config_of(run).change(beta=float(np.nextafter(0.3, 1)))

    assert same_run(af.config_of(run).run(), run)
    assert not same_run(changed.run(), run)


def test_coalescing_runs_are_computed_again(tmp_path):
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(40.0), masses=[1.0, 2.0, 1.0, 0.5])
    tokens = af.initial.on_circle(np.array([0.0, 0.3, 1.0, 2.0]))
    run = af.coalesce(flow, tokens, log_end=11.3, rtol=1e-7, merge=2e-6, max_steps=5000)

    path = af.save_config(af.config_of(run), tmp_path / "a.toml")

    assert same_run(af.load_config(path).run(), run)


def test_streamed_runs_are_computed_again(tmp_path):
    heads = [af.Head(value=np.diag([2.0, 1.0])), af.Head.identity(2)]
    flow = af.SphereAttention(heads, af.Softmax(3.0), af.masks.causal, frozen=[False, True, False])
    run = af.stream(flow, af.initial.circle(3, rng=0), [0.0, 1.0, 50.0], tolerance=1e-8)

    path = af.save_config(af.config_of(run), tmp_path / "a.toml")

    assert same_run(af.load_config(path).run(), run)


@pytest.mark.parametrize("name", ["coalescing", "noisy_ensemble", "piecewise_hardmax", "streamed"])
def test_files_of_0_1_0_are_computed_again(name):
    old = af.load(FILES_OF_0_1_0 / f"{name}.nc")

    assert af.config_of(old).run().equals(af.rerun(old))


def test_settings_in_words_are_given_back_in_words(tmp_path):
    run = RunConfig({"scenario": "polytope", "n": 6, "value": "eigenvalues-random:1,2", "seed": 7, "end": 1.0}).run()
    loaded = af.load(af.save(run, tmp_path / "run.zarr"))

    values = af.config_of(loaded).values

    assert (values["scenario"], values["value"], values["n"], values["seed"]) == (
        "polytope",
        "eigenvalues-random:1,2",
        6,
        7,
    )
    assert "head" not in values


def test_settings_in_words_that_describe_another_run_are_not_used(tmp_path):
    """A file of tokens has been changed, or removed, since the run."""
    np.save(tmp_path / "tokens.npy", af.initial.circle(4, rng=0))
    run = RunConfig({"scenario": "kuramoto", "start": str(tmp_path / "tokens.npy"), "end": 1.0}).run()
    assert af.config_of(run).values["start"] == str(tmp_path / "tokens.npy")

    np.save(tmp_path / "tokens.npy", af.initial.circle(4, rng=1))
    np.testing.assert_array_equal(af.config_of(run).values["start"], run.initial_tokens)
    (tmp_path / "tokens.npy").unlink()
    np.testing.assert_array_equal(af.config_of(run).values["start"], run.initial_tokens)
    assert same_run(af.config_of(run).run(), run)


@pytest.mark.parametrize(
    "change", [{"end": 1.25}, {"solver": "dopri8"}, {"settled": 0.1}, {"float32": True}, {"kappa": 9.0}]
)
def test_recorded_settings_must_describe_every_argument(change):
    config = RunConfig({"scenario": "noisy" if "kappa" in change else "sphere", "n": 4, "end": 1.0})
    run, text = config.run(), config.change(**change).run().attrs["settings"]

    assert "head" not in af.config_of(run).values
    assert "head" in af.config_of(run.assign_attrs(settings=text)).values


def test_one_run_of_an_ensemble_has_its_own_tokens_and_seed():
    config = RunConfig({"scenario": "noisy", "n": 4, "runs": 3, "end": 0.1, "saves": 3})
    run = config.run().isel(run=2)

    again = af.config_of(run).run()

    np.testing.assert_array_equal(again.tokens, run.tokens)


def test_python_functions_are_refused():
    moving = af.SphereAttention(af.TimeDependentHead(lambda time: af.Head.identity(2), 2))
    run = af.simulate(moving, np.eye(2), [0.0, 0.1])
    with pytest.raises(InputError, match="does not hold it"):
        af.config_of(run)
    observed = af.simulate(
        af.SphereAttention(af.Head.identity(2)),
        np.eye(2),
        [0.0, 0.1],
        observables={"own": lambda time, tokens: tokens[0, 0]},
    )
    with pytest.raises(InputError, match="does not hold it"):
        af.config_of(observed)


def test_a_rerun_keeps_the_settings_unless_an_argument_is_changed():
    run = RunConfig({"scenario": "sphere", "n": 3, "end": 0.5}).run()

    assert af.rerun(run).attrs["settings"] == run.attrs["settings"]
    assert af.rerun(run).attrs["scenario"] == "sphere"
    assert "settings" not in af.rerun(run, times=[0.0, 0.1]).attrs


def sample(vocabulary, word):
    needed = {"heads": af.Head.identity(2)} if vocabulary is SPACES else vocabulary.given
    return word.make(*word.defaults, **needed)


def test_every_class_that_can_be_recorded_has_a_word_or_a_table():
    in_tables = {"Head", "PiecewiseHead", "RedrawnHead", "MLP", "Noise", "Boolean", "Both"}
    in_tables |= {"Perceptron", "PiecewisePerceptron"}
    in_tables |= {"TokenByToken", "Clustered", "Settled", "Diverged"}
    without_words = {"TimeDependentHead", "TimeDependentPerceptron", *summation.__all__}
    tables = (SPACES, ATTENTIONS, MASKS, NORMALISATIONS, SOLVERS, OBSERVABLES)
    in_words = {type(sample(table, word)).__name__ for table in tables for word in table.words.values()}
    known = {kind.__name__ for kind in records.KNOWN.values()}
    assert known - in_words - in_tables == without_words


def test_a_method_of_summation_has_no_words():
    flow = af.SphereAttention(af.Head.identity(2), summation=summation.Fourier())
    assert "summation" not in model_values(af.SphereAttention(af.Head.identity(2)))
    with pytest.raises(InputError, match=r"summation Fourier.*has no name in files of settings"):
        model_values(flow)


@pytest.mark.parametrize("table", [ATTENTIONS, MASKS, NORMALISATIONS, SOLVERS, OBSERVABLES])
def test_every_word_is_found_again_with_its_numbers(table):
    for name, word in table.words.items():
        made = sample(table, word)
        assert table.name_of(made) == name
        assert tuple(table.numbers_of(made)) == word.defaults


def test_an_object_of_another_vocabulary_has_no_word():
    assert MASKS.name_of(af.Post()) is None
    assert MASKS.numbers_of(af.Post()) == []
    assert ATTENTIONS.phrase_of(af.Post()) == "Post"
