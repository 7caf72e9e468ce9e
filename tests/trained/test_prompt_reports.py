"""A prompt's report, its controls, what V's parts do, moving frames and block coupling: on tiny models, by hand."""

import jax
import numpy as np
import pytest
import xarray as xr
from scipy.linalg import expm
from tests.helpers import tiny_models
from tests.helpers.tiny_models import IDS

import attnflow as af
from attnflow import trained
from attnflow._common.checks import InputError
from attnflow.analyse import cluster_tracks, collapse, low_rank
from attnflow.show.trained.prompt import WordClusters
from attnflow.trained import measures, moving_frames
from attnflow.trained.neural_collapse import class_counts, class_labels, classes_sentence, collapse_measures
from attnflow.trained.prompt_reports import named_clusters
from attnflow.trained.studies import layer_measures

TWICE = [5, 17, 3, 5, 17, 0, 22, 3, 39, 5]  # three classes of two or three equal tokens, and three single tokens


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {
        name: af.models.load(tiny_models.write(name, folder / name)) for name in ("bert", "albert", "gpt2", "llama")
    }


@pytest.fixture(scope="module")
def report(models):
    return trained.prompt_report(models["bert"], IDS, angle=0.8)


def test_attention_is_measured_head_by_head(models, report):
    weights = models["bert"].trajectory(IDS, attention=True).attention.values[1, 2]
    sizes = np.linalg.svd(weights, compute_uv=False)
    assert report.attention_rank.values[1, 2] == np.sum(sizes > 0.01 * sizes[0])
    moduli = np.sort(np.abs(np.linalg.eigvals(weights)))
    np.testing.assert_allclose(report.second_eigenvalue.values[1, 2], moduli[-2])


def test_clusters_have_their_words(report):
    found = trained.prompt_summary(report)
    tracks = cluster_tracks.follow(measures.directions(report), 0.8, geodesic=True)
    assert found["clusters"] == [len(np.unique(labels)) for labels in tracks.labels]
    last = tracks.labels[-1]
    sizes = sorted((np.sum(last == label) for label in np.unique(last)), reverse=True)
    assert [len(words) for words in found["last_clusters"]] == [size for size in sizes if size > 1]
    assert {word for words in found["last_clusters"] for word in words} <= {str(one) for one in IDS}
    assert len(found["merges"]) == len(tracks.merges)
    assert all(fall["half"] in ("attention", "mlp") and fall["change"] < 0 for fall in found["energy_falls"])


def test_the_old_names_of_the_summaries_warn(report):
    with pytest.warns(FutureWarning, match="`trained.story` is now called `trained.prompt_summary`"):
        assert trained.story(report) == trained.prompt_summary(report)
    with pytest.warns(FutureWarning, match="`trained.further_story` is now called `trained.extra_summary`"):
        assert trained.further_story({}) == trained.extra_summary({})


def test_collapse_is_measured_in_the_span_of_the_tokens(models):
    """The same numbers as in all d coordinates, where they cost d^3; tokens alone in their class do not count."""
    report = trained.prompt_report(models["bert"], TWICE)
    _, counts = np.unique(TWICE, return_counts=True)
    places = [place for place, one in enumerate(TWICE) if TWICE.count(one) > 1]
    whole = collapse.measures(measures.directions(report)[:, places], [TWICE[place] for place in places])
    for name in ("variability", "unequal_norms", "simplex_distance"):
        assert np.isfinite(report[name]).all()
        np.testing.assert_allclose(report[name], whole[name], rtol=1e-9, atol=1e-12)
    counted = {"classes_from": "token", "classes": int(np.sum(counts > 1)), "single_tokens": int(np.sum(counts == 1))}
    counted |= {"equal_means_layers": [], "equal_shuffled_means_layers": []}
    assert trained.prompt_summary(report)["collapse_classes"] == counted


def test_classes_do_not_come_from_the_states_they_are_measured_on(models):
    """Two states of the last layer define classes that the token ids do not: only `classes="last"` looks at them."""
    reports = {
        name: trained.prompt_report(models["bert"], TWICE, angle=0.8, classes=name) for name in ("token", "last")
    }
    ids = np.array(TWICE)
    for label in range(int(reports["token"].collapse_class.max()) + 1):
        assert len(np.unique(ids[reports["token"].collapse_class == label])) == 1
    last = reports["last"].cluster.values[-1]
    for label in range(int(reports["last"].collapse_class.max()) + 1):
        assert len(np.unique(last[reports["last"].collapse_class == label])) == 1
    assert not np.array_equal(reports["token"].collapse_class, reports["last"].collapse_class)


def test_classes_from_the_first_and_the_last_clusters_differ():
    ids, found = np.array([7, 7, 8, 9]), np.array([[0, 0, 1, 1], [2, 0, 2, 1]])
    assert class_labels("token", ids, found).tolist() == [0, 0, -1, -1]
    assert class_labels("first", ids, found).tolist() == [0, 0, 1, 1]
    assert class_labels("last", ids, found).tolist() == [0, -1, 0, -1]


def test_shuffled_classes_are_the_control_of_the_variability():
    """The variability of separate classes is far below that of shuffled labels; without classes in half of the draws."""
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], 6)
    for distance, factor, least, most in ((5.0, 0.3, 1.0, 1.0), (0.0, 1.0, 0.25, 0.75)):
        below = []
        for tokens in rng.normal(size=(40, 1, 12, 3)) + distance * np.eye(3)[labels]:
            units = xr.DataArray(tokens, {"time": [0.0]}, ("time", "token", "coordinate"))
            found = collapse_measures(units, labels)
            below.append(float(found.variability[0]) < factor * float(found.shuffled_variability[0]))
        assert least <= np.mean(below) <= most


def test_classes_whose_means_are_equal_up_to_rounding_have_no_variability():
    """Two pairs of equal tokens: of the permutations two thirds mix the pairs, after which both means are one point."""
    rng = np.random.default_rng(3)
    for width in (3, 64, 576):
        equal = np.repeat(rng.normal(size=(2, width)), 2, axis=0)
        apart = equal + 0.1 * rng.normal(size=(4, width))
        tokens = np.stack([equal, apart])
        units = tokens / np.linalg.norm(tokens, axis=-1, keepdims=True)
        run = xr.DataArray(units, {"time": [0.0, 1.0]}, ("time", "token", "coordinate"))
        found = collapse_measures(run, np.array([0, 0, 1, 1]))
        np.testing.assert_allclose(found.variability[0], 0.0, atol=1e-28)
        assert np.isnan(found.shuffled_variability[0])
        assert 0 < found.shuffled_variability[1] < np.inf
        ids = np.array([7, 7, 9, 9])
        in_study = np.array([layer_measures._variability(one, ids) for one in units])
        np.testing.assert_allclose(in_study[:, 0], found.variability, rtol=1e-9, atol=1e-28)
        assert np.isnan(in_study[0, 1])
        assert 0 < in_study[1, 1] < np.inf


def test_norms_and_angles_of_two_class_means_are_left_out(models):
    """They are 0 by construction, which would read as complete collapse; with a third class they are measured."""
    report = trained.prompt_report(models["bert"], [5, 17, 5, 17, 3], progress=False)
    assert np.isfinite(report.variability[1:]).all()
    for name in ("unequal_norms", "unequal_angles", "simplex_distance"):
        assert np.isnan(report[name]).all()
    words = classes_sentence(class_counts(report))
    assert "the means of two classes have equal norms and opposite directions in any case" in words
    figure = af.show.prompt(report)
    assert "equal norms and opposite directions" in " ".join(figure.texts[-1].get_text().split())
    (panel,) = [axes for axes in figure.axes if axes.get_title(loc="left") == "Neural collapse"]
    assert len(panel.get_lines()) == 1
    more = trained.prompt_report(models["bert"], [5, 17, 5, 17, 3, 3], progress=False)
    assert (more.unequal_norms > 0).all()
    assert "in any case" not in classes_sentence(class_counts(more))


def test_a_picture_without_clusters_says_why_it_is_pale(models):
    said = {}
    for angle in (1e-6, 3.0):
        figure = af.show.prompt(trained.prompt_report(models["bert"], [5, 17, 3, 39], angle=angle, progress=False))
        said[angle] = " ".join(figure.texts[-1].get_text().split())
    assert "no two tokens are in one in any layer, so that all rows are pale" in said[1e-6]
    assert "no two tokens" not in said[3.0]
    assert "tokens alone in theirs are pale" in said[3.0]


def test_layers_without_a_spread_between_classes_are_named():
    counts = {"classes_from": "token", "classes": 2, "single_tokens": 9, "equal_means_layers": []}
    words = classes_sentence(counts | {"equal_shuffled_means_layers": [0]})
    assert words.endswith(
        "means of most shuffled classes are equal up to rounding, and their variability undefined, in layer 0"
    )
    assert "up to rounding" not in classes_sentence(counts)


def test_the_largest_cluster_is_named_first():
    assert named_clusters(np.array([0, 1, 2, 2, 1, 2]), list("abcdef")) == [["c", "d", "f"], ["b", "e"]]


def test_collapse_of_tokens_that_are_all_different_is_undefined(models):
    """Classes of one token have no spread, which would read as complete collapse."""
    report = trained.prompt_report(models["bert"], [5, 17, 3, 39, 0])
    for name in ("variability", "unequal_norms", "unequal_angles", "simplex_distance"):
        assert np.isnan(report[name]).all()
    words = classes_sentence(trained.prompt_summary(report)["collapse_classes"])
    assert words.startswith("undefined: no class has two members")
    figure = af.show.prompt(report)
    assert "Neural collapse" not in {axes.get_title(loc="left") for axes in figure.axes}
    assert "no class has two members" in " ".join(figure.texts[-1].get_text().split())
    with pytest.raises(InputError, match="`classes` 'middle' is not known"):
        trained.prompt_report(models["bert"], IDS, classes="middle")


def test_the_mean_of_the_density_is_the_mean_cosine(report):
    width = 2 / report.sizes["cosine"]
    mean = (report.cosine_density * report.cosine).sum("cosine") * width
    np.testing.assert_allclose(mean, report.mean_cosine, atol=width / 2)


def test_a_report_is_saved_and_drawn(report, tmp_path):
    af.save(report, tmp_path / "report.zarr")
    again = af.load(tmp_path / "report.zarr")
    np.testing.assert_array_equal(again.energy, report.energy)
    af.show.prompt(report, tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_shows_the_measurements(models):
    """Every measure of neural collapse is a line of its own, dots are drawn while layers are few."""
    report = trained.prompt_report(models["gpt2"], TWICE, angle=0.1, progress=False)
    panels = {axes.get_title(loc="left"): axes for axes in af.show.prompt(report).axes}
    (cosines,) = panels["Mean cosine of two tokens"].get_lines()
    np.testing.assert_array_equal(cosines.get_ydata(), report.mean_cosine)
    assert cosines.get_marker() == "."
    lines = panels["Neural collapse"].get_lines()
    names = ("variability", "unequal_norms", "unequal_angles", "simplex_distance")
    np.testing.assert_array_equal([line.get_ydata() for line in lines], [report[name] for name in names])
    deep = af.show.prompt(trained.prompt_report(models["albert"], IDS, 48, progress=False))
    titles = {axes.get_title(loc="left") for axes in deep.axes}
    assert "Neural collapse" not in titles  # one class has two members
    drawn = [line for axes in deep.axes for line in axes.get_lines() if len(line.get_xdata()) > 40]
    assert len(drawn) > 8
    assert not any(line.get_marker() == "." for line in drawn)


def test_the_picture_of_one_token_shows_its_path_only(models):
    alone = trained.prompt_report(models["bert"], IDS[:1], progress=False)
    assert [axes.get_title(loc="left") for axes in af.show.prompt(alone).axes] == ["Clusters and their words"]


def test_controls(models):
    bert, albert = models["bert"], models["albert"]
    twin, prompt, layers = trained.controlled(bert, IDS, "untrained")
    assert (prompt, layers) == (IDS, None)
    assert not np.allclose(twin.heads(0)[0].value, bert.heads(0)[0].value)
    same, repeated, _ = trained.controlled(bert, IDS, "repeated")
    assert same is bert
    assert list(repeated) == [IDS[3]] * len(IDS)
    assert trained.controlled(albert, IDS, "iterated")[2] == 128
    assert trained.controlled(albert, IDS, "iterated", 16)[2] == 16
    with pytest.raises(InputError, match="`control` 'random' is not known"):
        trained.controlled(bert, IDS, "random")


def test_one_repeated_token_without_positions_stays_one(models):
    """Only positions tell repeated tokens apart: below the last rung they are one cluster through all layers."""
    model, repeated, _ = trained.controlled(models["bert"], IDS, "repeated")
    ladder = trained.ladder(model, repeated, 1, progress=False)
    np.testing.assert_allclose(ladder.mean_cosine.values[:-1], 1)
    assert ladder.mean_cosine.values[-1, 0] < 0.99


@pytest.mark.parametrize("split", ["symmetry", "spectrum"])
@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_parts_of_the_displacement_add_up_to_the_output_of_attention(models, name, split):
    """`gpt2` normalises before attention: its heads read other numbers than the stream's, here without the shift."""
    model = models[name]
    found = trained.displacements(model, IDS, split=split)
    run = model.trajectory(IDS)
    for layer in range(model.config.layers):
        block = model.block(layer)
        with jax.enable_x64(True):
            read = block.attention_input(run.tokens.values[layer])
            weights = np.asarray(block.attention.weights(read))
            read = np.asarray(read) - (block.attention_norm.shift if name == "gpt2" else 0.0)
        heads = model.head_weights(layer)
        sent = sum(one @ read @ head.W_V.T @ head.W_O.T for one, head in zip(weights, heads, strict=True))
        np.testing.assert_allclose(found.displacement.values[layer].sum(axis=0), sent, atol=1e-8)


@pytest.mark.parametrize("split", ["symmetry", "spectrum"])
def test_shared_heads_are_split_once(models, split, monkeypatch):
    """A hundred layers of one block cost one split of its heads; layers of their own are split one by one."""
    name, calls = {"symmetry": "parts", "spectrum": "spectral_parts"}[split], []
    true = getattr(low_rank, name)
    monkeypatch.setattr(low_rank, name, lambda *pair: calls.append(1) or true(*pair))
    found = trained.displacements(models["albert"], IDS, 40, split=split)
    assert found.sizes["layer"] == 40
    assert len(calls) == tiny_models.HEADS
    trained.displacements(models["bert"], IDS, split=split)
    assert len(calls) == tiny_models.HEADS * (1 + tiny_models.LAYERS)


def test_the_attractive_part_moves_a_token_along_itself(models):
    """<x, V_attractive x> >= 0, <x, V_repulsive x> <= 0 and <x, V_rotational x> = 0 where a token sees only itself."""
    found = trained.displacements(models["gpt2"], IDS)
    with jax.enable_x64(True):
        first = np.asarray(models["gpt2"].block(0).with_folded_norm().attention_input(models["gpt2"].embed(IDS)))[0]
    attractive, repulsive, rotational = found.displacement.values[0, :, 0] @ first
    assert attractive > 0 > repulsive
    assert abs(rotational) < 1e-10 * attractive


def test_the_change_of_the_cosine_is_a_derivative(models):
    found = trained.displacements(models["bert"], IDS)
    tokens = models["bert"].embed(IDS)

    def mean_cosine(moved):
        units = moved / np.linalg.norm(moved, axis=1, keepdims=True)
        return np.mean((units @ units.T)[~np.eye(len(IDS), dtype=bool)])

    for part in range(3):
        step = 1e-6 * found.displacement.values[0, part]
        slope = (mean_cosine(tokens + step) - mean_cosine(tokens - step)) / 2e-6
        np.testing.assert_allclose(found.cosine_change.values[0, part], slope, rtol=1e-4, atol=1e-8)


def test_one_token_has_displacements_and_no_cosine(models, tmp_path):
    """Its attention is all on itself: V x is what it is sent. Everything can be drawn."""
    model = models["bert"]
    found = trained.displacements(model, IDS[:1])
    value = sum(np.asarray(head.value_matrix) for head in model.heads(0))
    np.testing.assert_allclose(found.displacement.values[0].sum(axis=0)[0], value @ model.embed(IDS[:1])[0], atol=1e-9)
    assert np.isnan(found.cosine_change).all()
    drawn = {"displacements": found, "frames": trained.frames(model, IDS[:1])}
    drawn["coupling"] = trained.block_coupling(model, IDS[:1], 1, top=3)
    for name, measured in drawn.items():
        getattr(af.show, name)(measured, tmp_path / f"{name}.png")
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_pictures_of_parts_frames_and_coupling_show_the_numbers(models):
    model = models["albert"]
    parts, seen = trained.displacements(model, IDS, split="spectrum"), trained.frames(model, IDS)
    coupled = trained.block_coupling(model, IDS, top=3)
    lengths, changes = (axes.get_lines() for axes in af.show.displacements(parts).axes)
    np.testing.assert_array_equal([line.get_ydata() for line in lengths], parts.length.values.T)
    np.testing.assert_allclose(changes[3].get_ydata(), parts.cosine_change.sum("part"))  # after its three parts
    cosines, ranks = af.show.frames(seen).axes[-2:]
    apart = seen.sel(frame=["x", "V", "S"])  # the frame of A is a rotation, with the numbers of x
    np.testing.assert_array_equal([line.get_ydata() for line in cosines.get_lines()], apart.mean_cosine)
    np.testing.assert_array_equal([line.get_ydata() for line in ranks.get_lines()], apart.effective_rank)
    (image,) = [one for axes in af.show.coupling(coupled).axes for one in axes.get_images()]
    np.testing.assert_array_equal(image.get_array(), coupled.mismatch)


def test_frames_undo_the_action_of_v(models):
    model = models["albert"]
    found = trained.frames(model, IDS)
    tokens = model.trajectory(IDS).tokens.values
    value = sum(np.asarray(head.value_matrix) for head in model.heads())
    symmetric = (value + value.T) / 2
    for name, matrix in (("V", value), ("S", symmetric), ("A", value - symmetric)):
        seen = found.tokens.sel(frame=name).values
        scale = np.abs(seen[2]).max()
        np.testing.assert_allclose(seen[2] / scale, tokens[2] @ expm(-2 * matrix).T / scale, atol=1e-9)
    # The antisymmetric frame only turns: lengths and cosines stay.
    np.testing.assert_allclose(found.mean_cosine.sel(frame="A"), found.mean_cosine.sel(frame="x"), atol=1e-9)
    assert np.abs(found.mean_cosine.sel(frame="S") - found.mean_cosine.sel(frame="x")).max() > 0.01


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_frames_of_layers_that_differ_are_multiplied_in_their_order(models, name):
    """Where a norm precedes attention, V acts on x over its root mean square: the frame has V over the median one."""
    model = models[name]
    found, run = trained.frames(model, IDS), model.trajectory(IDS)
    back = np.eye(model.config.width)
    for layer in range(2):
        tokens, weights = run.tokens.values[layer], model.head_weights(layer)
        centred = tokens - tokens.mean(axis=1, keepdims=True) if name == "gpt2" else tokens
        lengths = np.sqrt(np.mean(centred**2, axis=1) + 1e-5)
        sent = [one.W_O @ one.W_V * model.block(layer).attention_norm.gain for one in weights]
        value = np.sum(sent, axis=0)
        value = value - value.mean(axis=1, keepdims=True) if name == "gpt2" else value
        back = back @ expm(-value / np.median(lengths))
        divisors = [float(found[one][layer]) for one in ("divisor", "divisor_least", "divisor_greatest")]
        np.testing.assert_allclose(divisors, [np.median(lengths), lengths.min(), lengths.max()], rtol=1e-9)
        assert divisors[1] < divisors[0] < divisors[2]
    expected = run.tokens.values[2] @ back.T
    np.testing.assert_allclose(
        found.tokens.sel(frame="V").values[2] / np.abs(expected).max(), expected / np.abs(expected).max(), atol=1e-9
    )


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_frames_of_heads_that_share_values_are_those_of_the_whole_matrix(groups):
    """Two heads of width 2 with the same map of values act on at most 4 of 12 dimensions, six others on all."""
    rng, d = np.random.default_rng(0), 12
    values = np.repeat(rng.normal(size=(groups, 2, d)), 2, axis=0)
    heads = [af.Head(np.eye(2, d), np.eye(2, d), value, rng.normal(size=(d, 2))) for value in values]
    whole = sum(head.output @ head.value for head in heads) / 3.0
    halves = {"V": whole, "S": (whole + whole.T) / 2, "A": (whole - whole.T) / 2}
    back = rng.normal(size=(d, d))
    for name, step in moving_frames.steps_back(heads, 3.0).items():
        expected = back @ expm(-halves[name])
        assert (step.basis is None) == (groups == 6)
        np.testing.assert_allclose(step.after(back), expected, rtol=0, atol=1e-11 * np.abs(expected).max())


def test_no_divisor_without_a_norm_before_attention(models):
    found = trained.frames(models["bert"], IDS)
    for name in ("divisor", "divisor_least", "divisor_greatest"):
        np.testing.assert_array_equal(found[name], 1.0)


def test_words_of_a_long_prompt_are_chosen_from_every_cluster():
    """Of 500 tokens in one cluster of 480 and ten of two, 40 are shown: some of each."""
    labels = np.array([0] * 480 + [1 + place // 2 for place in range(20)])[None]
    order = WordClusters(labels, ["word"] * 500)._order()
    assert len(order) == 40
    assert set(labels[0, order]) == set(range(11))


@pytest.mark.parametrize("size", ["column", "page"])
@pytest.mark.parametrize("count", [8, 30, 40])
def test_words_beside_a_panel_do_not_touch(size, count):
    """On narrow pages the row of the clusters is as high as its words need: 1.2 times the size of their letters."""
    arrays = tiny_models.tensors("bert")
    name = next(name for name in arrays if "position_embeddings" in name)
    arrays |= {name: np.tile(arrays[name], (4, 1))}
    model = af.models.from_arrays(tiny_models.CONFIGS["bert"] | {"max_position_embeddings": 64}, arrays)
    figure = af.show.prompt(trained.prompt_report(model, range(count), progress=False), size=size)
    figure.draw_without_rendering()
    axes = next(one for one in figure.axes if one.get_title("left").replace("\n", " ").startswith("Clusters and"))
    labels = axes.get_yticklabels()
    assert len(labels) == count
    row = 72 * figure.get_figheight() * axes.get_position().height / count
    assert row > 1.19 * labels[0].get_fontsize()
