"""Trained models in the explorer: any checkpoint, one head or all, and two prompts that are compared."""

import json
import runpy
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from tests.helpers import tiny_models
from tests.helpers.command_line import attnflow

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests, prompt_scenarios, server, trained_models
from attnflow.explorer.descriptions import sentences_of
from attnflow.explorer.export.exports import exported_file, snapshot_of
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.settings_changes import changed_settings

FIRST, SECOND = "5 17 3 39 17 0 22", "1 2, 3 4"


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def name(request, tmp_path_factory):
    folder = tiny_models.write(request.param, tmp_path_factory.mktemp("models") / f"tiny {request.param}")
    added = trained_models.add(str(folder))
    yield added
    trained_models.forget(added)


def started(scenario, **changes):
    return LiveRun(1, page_requests.Start(scenario, {"prompt": FIRST, **changes}), lambda *_: None)


def model_of(name):
    return trained_models.get(name)


def forward(run, frames):
    for _ in range(frames):
        while not run.forward(1.0):
            pass


def test_a_checkpoint_has_scenarios_named_after_it(name):
    assert name.startswith("tiny-")
    offered = [entry["name"] for entry in server.hello()["catalogue"]]
    assert {f"{name}-layers", f"{name}-heads"} <= set(offered)
    own = catalogue.get(f"{name}-layers")
    assert f"the 3 layers of the trained {name}" in own.sentence
    assert len(sentences_of(own)) == 2
    assert "/" not in json.dumps([asdict(own.settings), own.sentence])  # no path of this computer
    run = LiveRun(1, page_requests.Start(own.name, {}), lambda *_: None)
    assert run.recording.times == [0, 1, 2, 3]


def test_layers_show_the_attention_of_one_head_or_the_mean_of_all(name):
    expected = model_of(name).trajectory([5, 17, 3, 39, 17, 0, 22], attention=True, progress=False).attention.values
    run = started(f"{name}-layers")
    frame = run.recording.frames[2]
    np.testing.assert_allclose(run.measurements.attention_image(frame), expected[1].mean(axis=0), atol=1e-9)
    assert run.measurements.heads == 4

    run.seek(1.0)
    assert not run.needs_restart(changed_settings(run.settings, {"head": 2}), {"head": 2})
    run.change({"head": 2})

    np.testing.assert_allclose(run.measurements.attention_image(frame), expected[1, 2], atol=1e-9)
    assert (run.measurements.heads, run.frame.time, run.later) == (1, 3, [])
    assert len(run.measurements.numbers(frame)["eigenvalues"]) == 1
    assert np.abs(expected[1, 2] - expected[1].mean(axis=0)).max() > 0.05  # heads differ


def test_the_flow_of_one_head_is_that_head(name):
    """Attention by NumPy from the stored matrices, at the model's own temperature."""
    settings = changed_settings(catalogue.get(f"{name}-heads").settings, {"prompt": FIRST, "layer": 1, "head": 3})
    setup = catalogue.build(settings)
    model = model_of(name)
    stream = model.trajectory([5, 17, 3, 39, 17, 0, 22], layers=1, progress=False).tokens.values[-1]
    if model.config.norm_place == "pre":
        centred = stream - stream.mean(axis=1, keepdims=True)
        stream = centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + model.config.norm_epsilon)
    lengths = np.linalg.norm(stream, axis=1, keepdims=True)
    tokens = stream / lengths * np.sqrt(np.mean(lengths**2))
    head = model.heads(1)[3]
    scores = (tokens @ np.asarray(head.query).T) @ (tokens @ np.asarray(head.key).T).T
    if model.config.is_causal:
        scores = np.where(np.tril(np.ones_like(scores)) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))

    found = af.attention_matrix(setup.flow, setup.tokens)

    np.testing.assert_allclose(found, weights / weights.sum(axis=1, keepdims=True), atol=1e-6)
    assert len(setup.flow.heads) == 1


def test_two_prompts_are_side_by_side_and_do_not_attend_to_each_other(name):
    model = model_of(name)
    alone = [model.trajectory(ids, attention=True, progress=False) for ids in ([5, 17, 3, 39, 17, 0, 22], [1, 2, 3, 4])]
    run = started(f"{name}-layers", second=SECOND)
    frame = run.recording.frames[3]

    image = run.measurements.attention_image(frame)

    assert run.settings.n == 11
    assert catalogue.parts(run.settings) == (7, 4)
    assert catalogue.labels(run.settings)[7:] == ("1", "2", "3", "4")
    np.testing.assert_allclose(image[7:, 7:], alone[1].attention.values[2].mean(axis=0), atol=1e-9)
    assert not image[:7, 7:].any()
    assert not image[7:, :7].any()
    lengths = np.linalg.norm(alone[1].tokens.values[3], axis=-1, keepdims=True)
    np.testing.assert_allclose(frame.tokens[7:], alone[1].tokens.values[3] / lengths, atol=1e-9)
    counts = []
    for part in (frame.tokens[:7], frame.tokens[7:]):
        linked = np.linalg.matrix_power((part @ part.T > np.cos(0.5)).astype(float), len(part)) > 0  # chains, too
        counts.append(len({tuple(row) for row in linked}))
    assert run.measurements.numbers(frame)["clustersOf"] == counts
    says = run.measurements.verdict([], np.array([0.0, 3.0]), np.empty(0))["says"]
    assert "between the two" in says


def test_a_flow_of_two_prompts_is_that_of_each_alone(name):
    """Two flows of the library, one for each prompt, with the factor of the lengths of both."""
    settings = changed_settings(catalogue.get(f"{name}-heads").settings, {"prompt": FIRST, "second": SECOND})
    setup = catalogue.build(settings)
    mask = af.masks.causal if model_of(name).config.is_causal else af.masks.full
    both = af.simulate(setup.flow, setup.tokens, [0.0, 1.0], progress=False).tokens.values[-1]
    for part in (slice(0, 7), slice(7, 11)):
        flow = af.SphereAttention(list(setup.flow.heads), attention=setup.flow.attention, mask=mask)
        alone = af.simulate(flow, setup.tokens[part], [0.0, 1.0], progress=False).tokens.values[-1]
        np.testing.assert_allclose(both[part], alone, atol=1e-5)
    assert np.abs(both - setup.tokens).max() > 0.01


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"prompt": "five"}, "has no tokenizer, so that `prompt` must be ids of tokens from 0 to 39"),
        ({"prompt": "5 40"}, "from 0 to 39"),
        ({"second": "x" * 401}, "`second` must be a text of 1 to 400 characters"),
        ({"head": 4}, "`head` must be one of the heads, 0 to 3, but it is 4"),
        ({"head": -1}, "`head` must be one of the heads"),
        ({"model": "minilm"}, "`model` comes with the trained model"),
        ({"layers": 5}, "`layers` comes with the trained model"),
        ({"d": 8}, "`d` comes with the trained model"),
    ],
)
def test_wrong_settings_are_refused(name, changes, sentence):
    with pytest.raises(InputError, match=sentence):
        started(f"{name}-heads", **changes)


def test_settings_of_prompts_are_refused_elsewhere():
    for changes in ({"head": None}, {"head": 1}, {"second": "x"}):
        with pytest.raises(InputError, match="setting"):
            LiveRun(1, page_requests.Start("sphere", changes), lambda *_: None)


def test_the_code_repeats_two_prompts_and_a_chosen_head(name, tmp_path):
    run = started(f"{name}-heads", second=SECOND, layer=1)
    forward(run, 3)
    run.change({"head": 1, "beta": 2.0})
    forward(run, 3)
    path = tmp_path / "again.py"
    path.write_bytes(exported_file(snapshot_of(run), "code")[1])

    again = runpy.run_path(str(path))["run"]

    np.testing.assert_allclose(again.tokens[-1], run.frame.tokens, atol=1e-6)
    stored = tmp_path / "run.nc"
    stored.write_bytes(exported_file(snapshot_of(run), "dataset")[1])
    assert xr.load_dataset(stored).prompt.values.tolist() == [0] * 7 + [1] * 4


def test_files_of_two_prompts_in_layers(name, tmp_path):
    run = started(f"{name}-layers", second=SECOND)
    page = exported_file(snapshot_of(run), "html")[1].decode()
    assert '"parts":[7,4]' in page
    path = tmp_path / "again.py"
    path.write_bytes(exported_file(snapshot_of(run), "code")[1])
    assert runpy.run_path(str(path))["run"].sizes["token"] == 4  # the second prompt comes last


@pytest.fixture
def served(monkeypatch):
    """Addresses at which the command would have served."""
    addresses = []
    monkeypatch.setattr(server, "serve", lambda listener, started, names: (started(), addresses.append(listener)))
    monkeypatch.setattr(server, "end_process", lambda: [listener.close() for listener in addresses])
    return addresses


def test_a_bad_directory_ends_with_the_sentence_of_the_loader_before_the_server_starts(tmp_path, served):
    broken = tiny_models.write("bert", tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"not tensors")
    for arguments, words in (
        ([tmp_path], "config.json"),
        ([broken], "model.safetensors"),
        (["--model", tmp_path / "nowhere"], "nowhere"),
        (["no-such-scenario"], "scenario"),
    ):
        out, err = attnflow("explore", *arguments, "--no-browser", cwd=tmp_path, code=2)
        assert words in " ".join((out + err).split())
    assert not served


def test_a_packaged_model_is_named_like_a_directory(served, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(trained_models, "add", lambda *given: asked.append(given) or "smollm2")
    out, _ = attnflow("explore", "smollm2", "--no-browser", cwd=tmp_path)
    assert asked == [("smollm2", None)]
    assert "#scenario=smollm2-layers" in out


@pytest.mark.parametrize(("origin", "expected"), [("rxnmapper", "CC(=O)O.OCC>>CC(=O)OCC"), ("minilm", "The cat sat")])
def test_the_first_prompt_is_in_the_language_of_the_model(origin, expected):
    """A model of reactions reads nothing but single letters in an English sentence."""
    config = SimpleNamespace(width=4, heads=2, layers=3, is_causal=False, patch=0)
    model = SimpleNamespace(origin=origin, config=config, reads_text=True)
    for scenario in prompt_scenarios._scenarios_of(origin, model):
        assert scenario.settings.prompt.startswith(expected)


@pytest.mark.parametrize("option", [(), ("--model",)])
def test_a_directory_on_the_command_line_is_the_first_scenario(tmp_path, served, option):
    tiny_models.write("albert", tmp_path / "small")

    out, _ = attnflow("explore", *option, "./small", "--no-browser", cwd=tmp_path)

    assert served
    assert "#scenario=small-layers" in out
    assert "small-heads" in catalogue.all_scenarios()
    trained_models.forget("small")
    assert "small-heads" not in catalogue.all_scenarios()
