"""Every picture takes axes, sizes, styles, palettes and titles, with one meaning for all."""

import inspect
import re
import tempfile
from functools import partial

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from tests.helpers import image_models, tiny_models
from tests.helpers.drawn_figures import random_walk, simulated

import attnflow as af
from attnflow import models, show, trained
from attnflow.show.parts.page import DARK, SIZES, STYLES
from attnflow.sweeps.studies.atlas import atlas as survey
from attnflow.sweeps.studies.robustness import robustness as study
from attnflow.theorems.studies.conjecture1 import investigate, scan_diagonal

IDS = [5, 17, 3, 39, 17]
CIRCLE = af.SphereAttention(af.Head.identity(2), af.Softmax(64.0), af.masks.causal)


def coalescing(beta=60.0):
    flow = af.SphereAttention(af.Head.identity(2), af.Softmax(beta))
    return af.coalesce(flow, af.initial.on_circle(np.array([0.0, 0.6, 2.0, 4.0])), progress=False)


def conjecture():
    found = investigate(runs=20, end=20.0, rng=0)
    return found, scan_diagonal(np.linspace(-2, 2, 5), eigenvalues=found.eigenvalues, beta=found.beta)


def swept():
    with tempfile.TemporaryDirectory() as folder:
        given = {"over": {"beta": [1.0, 4.0], "n": [4, 6]}, "settings": {"end": 1.0, "saves": 3}, "runs": 3}
        return af.sweep("sphere", f"{folder}/a.zarr", observables=["mean-cosine"], progress=False, **given).load()


def image_trajectory():
    with tempfile.TemporaryDirectory() as folder:
        model = models.load(image_models.write("vit", f"{folder}/vit"))
        return model.trajectory(image_models.PIXELS["vit"], attention=True)


def picture(name):
    """A function of `show`, with the arguments that are given by name."""
    matrices = [np.eye(6), np.full((6, 6), 0.1) + np.eye(6)]
    return partial(show.summary, matrices=matrices) if name == "summary" else getattr(show, name)


class Inputs:
    """Small inputs of all pictures, made once."""

    def __init__(self, folder):
        self.model = models.load(tiny_models.write("bert", folder / "bert"))
        self.made = {}

    def of(self, name):
        if name not in self.made:
            made = INPUTS[name](self.model)
            self.made[name] = made if isinstance(made, tuple) else (made,)
        return self.made[name]


INPUTS = {
    "trajectories": lambda _: random_walk(6, 2, "SphereAttention"),
    "summary": lambda _: random_walk(6, 3, "RescaledAttention"),
    "attention": lambda _: np.random.default_rng(0).dirichlet(np.ones(5), size=(3, 5)),
    "merge_tree": lambda _: coalescing(),
    "staircase": lambda _: coalescing(),
    "staircases": lambda _: [coalescing(beta) for beta in (60.0, 90.0)],
    "plateau_lengths": lambda _: [coalescing()],
    "through_clusters": lambda _: coalescing(),
    "centres": lambda _: simulated(CIRCLE, af.initial.circle(8, rng=0), np.geomspace(0.01, 10, 9)),
    "atlas": lambda _: survey(np.linspace(-1, 1, 3), n=6, runs=1),
    "conjecture1": lambda _: conjecture(),
    "density": lambda _: af.mean_field.evolve(
        af.SphereAttention(af.Head.identity(2)), af.mean_field.uniform(1, 0.3), np.linspace(0, 1, 5)
    ),
    "branches": lambda _: [af.mean_field.branch(af.Unnormalised(beta), modes=40, states=20) for beta in (1.0, 4.0)],
    "sweep": lambda _: swept(),
    "robustness": lambda _: study(["box"], [6, 9], [2], seeds=2, end=4.0),
    "coupling": lambda model: trained.block_coupling(model, IDS),
    "displacements": lambda model: trained.displacements(model, IDS),
    "frames": lambda model: trained.frames(model, IDS),
    "head_counts": lambda model: trained.by_number_of_heads(model),
    "head_kinds": lambda model: trained.flows_by_kind(model),
    "head_spectra": lambda model: trained.head_table(model),
    "ladder": lambda model: trained.ladder(model, IDS),
    "prompt": lambda model: trained.prompt_report(model, IDS),
    "training": lambda model: (
        trained.study(model, [IDS, IDS[:3]], controls=[], progress=False)
        .isel(model=[0, 0])
        .assign_coords(step=("model", [0, 1000]))
    ),
    "study": lambda model: trained.study(model, [IDS, IDS[:3]], controls=["equal attention"], progress=False),
    "steering": lambda _: af.control.steer(np.eye(3), -np.eye(3)[[1, 2, 0]], rng=0).run,
    "patches": lambda _: image_trajectory(),
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return Inputs(tmp_path_factory.mktemp("models"))


def drawn(inputs, name, **options):
    """A picture, drawn so that all its ticks exist."""
    figure = picture(name)(*inputs.of(name), **options)
    FigureCanvasAgg(figure).draw()
    return figure


def seen_texts(figure):
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def test_all_pictures_are_tried():
    assert set(INPUTS) == set(show.__all__) - {"html", "movie", "widget"}


@pytest.mark.parametrize("name", INPUTS)
def test_sizes_hold_and_text_is_right_at_each(inputs, name):
    for size, (width, height, text) in SIZES.items():
        figure = drawn(inputs, name, size=size)
        assert figure.get_figwidth() == pytest.approx(width)
        assert height is None or figure.get_figheight() == pytest.approx(height)
        if size == "slide":  # where a picture has many panels, the text is smaller
            text = figure.page.text
            assert 0.5 * SIZES["slide"][2] <= text <= SIZES["slide"][2]
        points = np.array([one.get_fontsize() for one in seen_texts(figure)])
        assert points.min() >= (6.0 if size != "slide" else 0.75 * text)
        assert points.max() <= 1.2 * text
        assert 0.85 * text <= np.median(points) <= 1.05 * text


@pytest.mark.parametrize("name", INPUTS)
def test_styles_palettes_and_titles(inputs, name):
    before = dict(mpl.rcParams)
    for style in STYLES:
        figure = drawn(inputs, name, style=style, palette="viridis", title="A title of mine")
        assert figure.get_suptitle() == "A title of mine"
        assert (to_hex(figure.get_facecolor()) == DARK.paper) == (style == "dark")
        darkest = min(np.linalg.norm(to_rgb(one.get_color())) for one in seen_texts(figure))
        assert darkest > 0.8 or style != "dark"  # no dark text on a dark page
    bare = drawn(inputs, name, title=None, palette=["red", "#00ff00", "blue"])
    assert not bare.get_suptitle()
    assert not bare.get_supxlabel()
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("name", INPUTS)
def test_axes_of_the_user_are_drawn_into_and_returned(inputs, name, monkeypatch):
    natural = drawn(inputs, name, size="page", title=None)
    kinds = [axes.name for axes in natural.axes if axes.get_subplotspec()]  # colour bars have none
    count = required_axes(inputs, name)
    assert count <= len(kinds)
    own = Figure(figsize=(12, 8))
    axes = [own.add_subplot(2, count, place + 1, projection=projection(kinds, place)) for place in range(count)]
    monkeypatch.setattr("attnflow.show.parts.composition.new_figure", lambda *size: pytest.fail("another figure"))
    given = axes[0] if count == 1 else np.array(axes)
    assert picture(name)(*inputs.of(name), ax=given) is given
    assert all(one.figure is own for one in axes)
    assert all(one.has_data() or one.texts or one.images or one.patches for one in axes)


def required_axes(inputs, name):
    """The number of axes that a picture needs, read from its message."""
    with pytest.raises(ValueError, match="`ax` must be") as failed:
        picture(name)(*inputs.of(name), ax=[])
    found = re.search(r"`ax` must be (one|\d+) axes", str(failed.value))
    return 1 if found[1] == "one" else int(found[1])


def projection(kinds, place):
    return "3d" if kinds[place] == "3d" else None


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": "colum"}, "`size` 'colum' is not known. Did you mean 'column'"),
        ({"size": (3, 0)}, "`size` must be 'column', 'page', 'slide' or a width and a height of 1 to 100 inches"),
        ({"size": 3}, "`size` must be"),
        ({"style": "papre"}, "`style` 'papre' is not known. Did you mean 'paper'"),
        ({"palette": "virids"}, "`palette` must name a colormap of matplotlib"),
        ({"palette": ["red", "redd"]}, "`palette` must be the name of a colormap of matplotlib or a list of colours"),
        ({"palette": []}, "`palette` must be"),
        ({"title": 3}, "`title` must be a text, or None"),
        ({"member": 1}, "`member` must be one of the runs, 0 to 0, but it is 1"),
        ({"times": [0, 9]}, "`times` must lie between the first and the last saved time, 0 and 3, but 9 does not"),
        ({"times": "late"}, "`times` must be one or more finite numbers"),
        ({"ax": "axes"}, "`ax` must be axes of matplotlib, but it holds an object of type str"),
        ({"ax": Figure().subplots()}, "`ax` must be 2 axes, one for each panel, for this picture, but it holds 1"),
        ({"ax": Figure().subplots(1, 2), "size": "page"}, "`size` has no effect on `ax`"),
    ],
)
def test_a_wrong_value_is_answered_with_one_sentence(inputs, options, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        show.trajectories(*inputs.of("trajectories"), **options)


def test_flat_axes_for_a_picture_in_space_are_refused():
    run = random_walk(6, 3, "RescaledAttention")
    with pytest.raises(ValueError, match=r"projection='3d' for panel 1 of 1, but these have the projection 'recti"):
        show.trajectories(run, ax=Figure().subplots())


def test_an_unknown_argument_is_refused_and_the_signature_names_all():
    with pytest.raises(TypeError, match="sise"):
        show.trajectories(random_walk(6, 2, "SphereAttention"), sise="column")
    assert {"ax", "size", "style", "palette", "title", "times", "member"} <= set(
        inspect.signature(show.trajectories).parameters
    )
    assert '``"column"`` (3.4 inches wide)' in show.trajectories.__doc__


class TestFonts:
    @pytest.mark.parametrize("options", [{}, {"size": "column"}, {"style": "slides"}], ids=str)
    def test_fonts_in_a_pdf_are_truetype(self, inputs, options, tmp_path):
        show.staircase(*inputs.of("staircase"), tmp_path / "ours.pdf", **options)
        written = (tmp_path / "ours.pdf").read_bytes()
        assert b"/FontFile2" in written  # TrueType, embedded
        assert b"/Subtype /Type3" not in written

    def test_also_where_the_user_saves_the_figure_and_not_in_the_control(self, inputs, tmp_path):
        figure = show.staircase(*inputs.of("staircase"))
        figure.savefig(tmp_path / "user.pdf")
        other = Figure()
        other.text(0.5, 0.5, "text")
        other.savefig(tmp_path / "control.pdf")
        assert b"/Subtype /Type3" not in (tmp_path / "user.pdf").read_bytes()
        assert b"/Subtype /Type3" in (tmp_path / "control.pdf").read_bytes()

    def test_text_in_svg_is_text(self, inputs, tmp_path):
        show.staircase(*inputs.of("staircase"), tmp_path / "run.svg")
        assert "Merge tree</text>" in (tmp_path / "run.svg").read_text("utf-8")


def test_saved_times_are_drawn_and_the_palette_colours_tokens():
    run = random_walk(6, 2, "SphereAttention")
    figure = show.trajectories(run, times=[0, 1.1, 3], palette=["#ff0000"])
    panels = [axes for axes in figure.axes if axes.collections]
    assert [axes.get_title(loc="left") for axes in panels] == ["$t$ = 0", "$t$ = 1.2", "$t$ = 3"]
    places = panels[1].collections[-1].get_offsets()
    np.testing.assert_allclose(places, run.tokens.sel(time=1.1, method="nearest"))
    assert {to_hex(colour) for colour in panels[2].collections[-1].get_facecolors()} == {"#ff0000"}


def test_matrices_of_a_run_are_those_of_its_flow():
    run = simulated(CIRCLE, af.initial.circle(5, rng=0), [0.0, 1.0, 2.0])
    images = [axes.images[0].get_array() for axes in show.attention(run, times=[2.0]).axes if axes.images]
    np.testing.assert_allclose(images[0], af.attention_matrix(CIRCLE, run.tokens.values[2]))


def test_notebooks_show_a_figure_as_a_picture():
    figure = show.attention(np.eye(3), size=(3, 2))
    picture = figure._repr_png_()

    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = (int.from_bytes(picture[16:20]), int.from_bytes(picture[20:24]))
    np.testing.assert_allclose([width, height], figure.get_size_inches() * figure.dpi, atol=1)
