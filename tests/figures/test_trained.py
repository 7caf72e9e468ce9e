"""Figures of trained weights: their numbers on a tiny model, by hand, and that they are drawn with any model."""

import numpy as np
import pytest
from tests.helpers import tiny_models

import attnflow as af
from attnflow.figures.entries import trained
from attnflow.show.parts.composition import compose

FIGURES = {figure.id: figure for figure in trained.FIGURES}
IDS = tiny_models.IDS  # the tiny models have no tokenizer
SMALL = {"prompt": IDS, "end": 1.0, "saves": 8}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(tiny_models.write("albert", tmp_path_factory.mktemp("models") / "albert"))


def drawn(figure, dataset):
    return len(compose(figure.draw(dataset)).axes)


def test_spectra_are_counted_by_kind(model):
    figure = FIGURES["trained-spectra"]
    dataset = figure.compute(False, model=model, runs=0, seed=0)
    numbers = figure.numbers(dataset)
    kinds = []
    for head in af.models.load(model).heads(0):
        values = np.linalg.eigvals(np.asarray(head.value) @ np.asarray(head.output))
        lead = values[np.argmax(values.real)]
        kinds.append("complex" if lead.imag else "real-positive" if lead.real > 0 else "real-negative")
    for kind in ("real-positive", "real-negative", "complex"):
        assert numbers[f"heads, {kind}"] == kinds.count(kind)
    assert numbers["largest modulus, trained"] > 5 * numbers["largest modulus, untrained"]
    assert drawn(figure, dataset) == 3  # two panels and a colour bar


def test_histograms_go_on_to_48_layers_where_one_is_shared(model):
    figure = FIGURES["trained-prompt"]
    dataset = figure.compute(False, model=model, prompt=IDS, seed=0)
    assert dataset.sizes["time"] == 49
    units = af.models.load(model).embed(IDS)
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    expected = np.mean((units @ units.T)[~np.eye(len(IDS), dtype=bool)])
    np.testing.assert_allclose(figure.numbers(dataset)["mean cosine, embedding, trained"], expected)
    assert drawn(figure, dataset) == 3


def test_flows_say_which_heads_they_are_of(model):
    figure = FIGURES["trained-flow"]
    dataset = figure.compute(False, model=model, n=len(IDS), seed=0, **SMALL)
    table = af.trained.head_table(af.models.load(model), runs=0)
    found = {kind: af.trained.strongest(table, kind) for kind in ("real-positive", "real-negative", "complex")}
    present = {kind: place for kind, place in found.items() if place is not None}
    assert present
    for kind, (layer, head) in present.items():
        assert dataset.place.sel(kind=kind).item() == f"layer {layer}, head {head}"
        assert f"{kind}: mean cosine at the end" in figure.numbers(dataset)
    assert drawn(figure, dataset) == 2 * (len(present) + 1)
    assert figure.movie(dataset).frames == SMALL["saves"]
    first = next(iter(present))
    dataset.misalignment.loc[{"start": "prompt", "kind": first}][3:] = 0.0
    assert figure.movie(dataset).frames == 4  # nothing moves after tokens have met


def test_all_heads_come_last(model):
    figure = FIGURES["trained-heads"]
    dataset = figure.compute(False, model=model, layer=0, counts=[1, 16], n=4, runs=2, end=0.5, seed=0)
    assert dataset.setting.values.tolist() == ["1", str(tiny_models.HEADS)]
    assert drawn(figure, dataset) == 3
    assert "Fewer than five runs have no intervals." in figure.draw(dataset).caption


def test_captions_count_the_settings_in_which_controls_differ(model):
    figure = FIGURES["trained-tokens"]
    dataset = figure.compute(False, model=model, layer=0, n=[2, 4], runs=5, end=0.5, seed=0)
    same = dataset.copy(deep=True)
    same["mean_cosine"][:] = dataset.mean_cosine.sel(variant="trained")
    assert "Q = K = 0: 0 of 2" in figure.draw(same).caption
    apart = same.copy(deep=True)
    apart["mean_cosine"].loc[{"variant": "Q = K = 0", "setting": "4"}] += 0.5
    assert "Q = K = 0: 1 of 2; Q and K of the next head: 0 of 2" in figure.draw(apart).caption


def test_starts_have_a_row_each(model):
    figure = FIGURES["trained-starts"]
    settings = {"starts": ["circle", "prompts"], "n": 4, "runs": 5, "end": 0.5}
    dataset = figure.compute(False, model=model, layer=0, seed=0, **settings)
    assert drawn(figure, dataset) == 3
    assert figure.numbers(dataset)["runs of every kind"] == 5


def test_steps_say_how_far_they_are_from_the_model(model):
    figure = FIGURES["trained-steps"]
    dataset = figure.compute(False, model=model, steps=[1, 2], prompts=5, length=4, seed=0)
    value = float(dataset.distance.sel(variant="trained", steps=2).mean())
    assert f"trained {value:.3g} (" in figure.draw(dataset).caption
    assert drawn(figure, dataset) == 3


def test_the_table_of_architectures_names_models_that_are_missing(model):
    figure = FIGURES["trained-architectures"]
    dataset = figure.compute(False, model=model, others=["/no/such/model"], prompts=5, seed=0)
    caption = figure.draw(dataset).caption
    assert "Not installed: /no/such/model." in caption
    assert "d = 12, on random ids" in caption
    assert drawn(figure, dataset) == 4
    assert "mean cosine, albert, untrained" in figure.numbers(dataset)


def test_variability_is_said_to_change_only_beyond_its_intervals(model):
    figure = FIGURES["trained-collapse"]
    dataset = figure.compute(False, model=model, prompts=12, seed=0)
    dataset["relative"][..., 0] = 1.0
    dataset["relative"][..., 1], dataset["relative"][..., 2] = 0.9, 1.1
    assert "the same within intervals" in figure.draw(dataset).caption
    dataset["relative"][:, :, -1] = dataset["relative"][:, :, -1] / 4
    assert "same token: 1 to 0.25, less" in figure.draw(dataset).caption
    dataset["relative"][:, :, -1] = dataset["relative"][:, :, -1] * 16
    assert "same token: 1 to 4, more" in figure.draw(dataset).caption


def test_frozen_attention_says_how_far_it_is_better_than_its_control(model):
    figure = FIGURES["trained-frozen"]
    dataset = figure.compute(False, model=model, prompts=5, length=5, seed=0)
    dataset["error"][:] = 0.5
    assert figure.numbers(dataset)["layers ahead with an advantage over another prompt's attention"] == 0
    dataset["error"].loc[{"variant": "frozen attention", "ahead": 1}] = 0.01
    assert figure.numbers(dataset)["layers ahead with an advantage over another prompt's attention"] == 1
    assert "up to 1 layer ahead" in figure.draw(dataset).caption
    assert drawn(figure, dataset) == 2


def test_linearity_counts_the_layers_above_permuted_tokens(model):
    figure = FIGURES["trained-linearity"]
    dataset = figure.compute(False, model=model, layers=100, seed=0)
    assert (
        f"beyond both intervals in {tiny_models.LAYERS} of {tiny_models.LAYERS} layers" in figure.draw(dataset).caption
    )
    dataset["score"].loc[{"quantity": "update", "layer": 1}] = 0.0
    assert f"in {tiny_models.LAYERS - 1} of {tiny_models.LAYERS} layers" in figure.draw(dataset).caption
    assert drawn(figure, dataset) == 2
    assert figure.numbers(dataset)["layer, trained"] > figure.numbers(dataset)["layer, trained, tokens permuted"]


def test_a_model_that_cannot_read_starts_from_random_ids(model):
    figure = FIGURES["trained-prompt"]
    dataset = figure.compute(False, model=model, prompt="A sentence.", seed=0)
    count = min(24, tiny_models.POSITIONS)
    ids = np.random.default_rng(0).integers(tiny_models.VOCABULARY, size=count)
    units = af.models.load(model).embed(ids)
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    expected = np.mean((units @ units.T)[~np.eye(count, dtype=bool)])
    np.testing.assert_allclose(figure.numbers(dataset)["mean cosine, embedding, trained"], expected)
    assert f"{count} random ids" in figure.draw(dataset).title


def test_a_model_of_fewer_layers_has_its_last_one_taken(model):
    dataset = FIGURES["trained-tokens"].compute(False, model=model, layer=9, n=[2], runs=2, end=0.1, seed=0)
    assert dataset.attrs["layer"] == tiny_models.LAYERS - 1


def test_another_model_replaces_the_default_one():
    figure = FIGURES["trained-prompt"].on_model("elsewhere")
    assert (figure.settings["model"], figure.needs) == ("elsewhere", "models")
    assert figure.on_model("again").settings["prompt"] == figure.settings["prompt"]


def test_merging_says_what_five_percent_cost(model):
    figure = FIGURES["trained-merging"]
    dataset = figure.compute(False, model=model, n=40, score_changes=[1e-6, 8.0], layers=100, seed=0)
    numbers = figure.numbers(dataset)
    assert numbers["relative error of the last layer, close keys, 1e-06"] < 1e-4
    assert numbers["groups over tokens, close keys, 8"] < numbers["groups over tokens, close keys, 1e-06"]
    caption = figure.draw(dataset).caption
    assert "With close keys a last error of at most 5% takes" in caption
    worse = dataset.assign(error=dataset.error + 1.0)
    assert "With close keys no setting has" in figure.draw(worse).caption
    assert drawn(figure, dataset) == 3
