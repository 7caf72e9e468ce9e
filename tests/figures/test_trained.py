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
    dataset = figure.compute(False, model=model, layer=0, counts=[1, 16], seed=0, **SMALL)
    assert list(dataset["heads"].values) == [1, tiny_models.HEADS]
    assert dataset.misalignment.shape == (2, SMALL["saves"])
    assert drawn(figure, dataset) == 3


def test_heads_are_drawn_at_random_and_named(model):
    figure = FIGURES["trained-heads"]
    dataset = figure.compute(False, model=model, layer=0, counts=[1], seed=3, **SMALL)
    order = np.random.default_rng(3).permutation(tiny_models.HEADS).tolist()
    assert list(dataset.attrs["drawn_heads"]) == order
    assert f"(seed 3): {', '.join(str(head) for head in order)}." in figure.draw(dataset).caption.replace("\n", " ")


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
    dataset = FIGURES["trained-heads"].compute(False, model=model, layer=9, counts=[1], seed=0, **SMALL)
    assert dataset.attrs["layer"] == tiny_models.LAYERS - 1


def test_a_rate_that_does_not_exist_is_said_in_words(model):
    figure = FIGURES["trained-heads"]
    dataset = figure.compute(False, model=model, layer=0, counts=[1], seed=0, **SMALL)
    dataset["rate"] = dataset.rate.where(dataset["heads"] != 1)
    dataset["rate"][-1] = 0.5
    numbers = figure.numbers(dataset)
    assert numbers["rate with 1 head"] == "tokens do not align at one rate"
    assert numbers[f"rate with {tiny_models.HEADS} heads"] == 0.5
    dataset["misalignment"][0, -1] = 0.0
    assert figure.numbers(dataset)["rate with 1 head"] == "tokens align between two kept times"


def test_another_model_replaces_the_default_one():
    figure = FIGURES["trained-prompt"].on_model("elsewhere")
    assert (figure.settings["model"], figure.needs) == ("elsewhere", "models")
    assert figure.on_model("again").settings["prompt"] == figure.settings["prompt"]
