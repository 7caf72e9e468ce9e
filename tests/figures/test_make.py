"""Making figures: what is kept, what is made again, what interruption leaves, and the page they end on."""

import base64
import io
import json
import os
import re
import signal
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure as MatplotlibFigure
from PIL import Image
from tests.helpers import tiny_models
from typer.testing import CliRunner

from attnflow._common import extras
from attnflow._common.checks import InputError
from attnflow.cli.app import app
from attnflow.figures import html_report, make, records, thumbnails
from attnflow.figures.catalogue import catalogue, chapter_of, find
from attnflow.figures.figure import Figure
from attnflow.show.parts.animation import Movie, has_video, save_movie
from attnflow.show.parts.panels import Line, Lines, panel_picture

calls = []


def compute(progress, *, size, seed):
    calls.append(size)
    return xr.Dataset({"values": ("place", np.random.default_rng(seed).normal(size=size))})


def draw(values):
    return panel_picture([[Lines([Line(np.arange(values.size), values.values)])]], "A headline", "A caption", width=2.0)


def movie(dataset):
    picture = MatplotlibFigure(figsize=(2.01, 2.01))
    (line,) = picture.add_subplot(xlim=(0, 1), ylim=(0, 1)).plot([0, 1], [0, 1])
    return Movie(picture, 4, lambda frame: line.set_ydata([0, frame / 3]))


SMALL = Figure(
    id="small",
    source="arXiv:0000.00000, Figure 1",
    title="Sums of <random> numbers",
    shows="A line. It goes up and down.",
    deviates="The published one is straight & short.",
    compute=compute,
    draw=lambda dataset: draw(dataset["values"]),
    numbers=lambda dataset: {
        "sum": dataset["values"].values.sum(),
        "count": dataset["values"].values.size,
        "law": "normal",
    },
    settings={"size": 8, "seed": 3},
    quick={"size": 4},
    seconds=(1.0, 0.5),
    movie=movie,
)


@pytest.fixture
def made(tmp_path):
    calls.clear()
    return make.make(SMALL, tmp_path, is_quick=True), tmp_path


def test_a_figure_is_written_with_its_numbers(made):
    first, folder = made

    assert first.state == "made"
    assert first.numbers == {"sum": float(np.random.default_rng(3).normal(size=4).sum()), "count": 4, "law": "normal"}
    assert json.loads((folder / "small-quick.json").read_text())["numbers"] == first.numbers
    assert {".png", ".pdf", ".gif", ".nc", ".py"} <= {os.path.splitext(name)[1] for name in first.files}
    assert all((folder / name).stat().st_size > 400 for name in first.files)


def test_the_same_figure_is_not_made_again(made):
    first, folder = made

    again = make.make(SMALL, folder, is_quick=True)

    assert again.state == "kept"
    assert calls == [4]
    assert replace(again, state="made") == first


@pytest.mark.parametrize("spoil", ["parameters", "picture", "half a picture", "record", "code"])
def test_whatever_differs_is_made_again(made, spoil, monkeypatch):
    _, folder = made
    figure = replace(SMALL, quick={"size": 5}) if spoil == "parameters" else SMALL
    if spoil == "picture":
        (folder / "small-quick.png").unlink()
    if spoil == "half a picture":
        path = folder / "small-quick.png"
        path.write_bytes(path.read_bytes()[:400])
    if spoil == "record":
        (folder / "small-quick.json").write_text('{"id": "small"')
    if spoil == "code":
        monkeypatch.setattr(records, "code_fingerprint", lambda: "other")

    assert make.make(figure, folder, is_quick=True).state == "made"
    assert len(calls) == 2


def test_quick_and_full_do_not_replace_each_other(made):
    _, folder = made

    assert make.make(SMALL, folder, is_quick=False).settings == {"size": 8, "seed": 3}
    assert make.make(SMALL, folder, is_quick=True).state == "kept"


def test_half_a_run_is_no_figure(tmp_path):
    """`simulate` answers Ctrl-C with what it has; the figure is left out then and made by the next call."""

    def interrupted(progress, **settings):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            return compute(progress, **settings)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        make.make(replace(SMALL, compute=interrupted), tmp_path, is_quick=True)

    assert not list(tmp_path.iterdir())
    assert signal.getsignal(signal.SIGINT) is before
    assert make.make(SMALL, tmp_path, is_quick=True).state == "made"


def test_a_figure_that_fails_costs_none_of_the_others(tmp_path, monkeypatch):
    def failing(figure, folder, **options):
        if figure.id == "force":
            raise ValueError("no such force")
        return made(figure, folder, **options)

    made = make.make
    monkeypatch.setattr(make, "make", failing)
    result = CliRunner().invoke(app, ["reproduce", "force", "value-spectrum", "--quick", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "[1/2] force: Failed: ValueError: no such force" in result.stderr
    assert "1 made, 0 kept, 0 skipped, 1 failed" in result.stderr
    page = (tmp_path / "report-quick.html").read_text()
    assert "no such force" in page
    assert "value-spectrum-quick.png" in page


def test_an_interrupted_command_says_how_it_goes_on(tmp_path, monkeypatch):
    def interrupted(figure, folder, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "make", interrupted)

    finished = CliRunner().invoke(app, ["reproduce", "force", "long-context", "--out", str(tmp_path)])

    assert finished.exit_code != 0
    assert "Interrupted at force. 0 of 2 are made; the same command continues." in finished.stderr


def test_a_missing_extra_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(extras.MODULES, "models", ("no_such_module",))

    skipped = make.make(replace(SMALL, needs="models"), tmp_path, is_quick=True)

    assert skipped.state == "skipped"
    assert "pip install no-such-module" in skipped.note
    assert skipped.note in html_report.write_report([(SMALL, skipped)], tmp_path, is_quick=True).read_text().replace(
        "&quot;", '"'
    )


def test_the_page_says_everything_and_needs_no_network(made):
    first, folder = made
    text = html_report.write_report([(SMALL, first)], folder, is_quick=True).read_text()

    assert "Sums of &lt;random&gt; numbers" in text
    assert "straight &amp; short" in text
    assert "How the figure with the parameters of the catalogue differs" in text
    assert "attnflow reproduce small --quick" in text
    assert "size = 4 for 8" in text
    assert "Seed 3" in text
    assert f"{first.numbers['sum']:.4g}" in text
    assert not re.search(r"src=.(?:https?:|//)|@import|url\(", text)
    assert re.findall(r'<(?:img|video)[^>]* src="(data:[a-z/0-9]+);base64', text)[0] == "data:image/png"
    assert text.count(" src=") == 3  # thumbnail, picture and movie
    links = set(re.findall(r'href="([^"#]+)"', text))
    assert "https://arxiv.org/abs/0000.00000" in links
    for link in links - {"https://arxiv.org/abs/0000.00000"}:
        assert (folder / link).is_file()


def test_a_thumbnail_leads_to_its_figure(made):
    first, folder = made
    text = html_report.write_report([(SMALL, first)], folder, is_quick=True).read_text()

    content = re.findall(r'<a href="#small"><img class="thumb" src="data:image/png;base64,([^"]+)"', text)[0]
    with Image.open(io.BytesIO(base64.b64decode(content))) as opened:
        assert opened.size == thumbnails.THUMBNAIL
        assert np.ptp(np.asarray(opened.convert("L"))) > 100  # there is something on it


def test_the_command_names_the_model_it_was_made_with(made):
    trained = replace(SMALL, settings=SMALL.settings | {"model": "minilm"})
    commands = [html_report.remake_command(trained.on_model(model), made[0]) for model in ("minilm", "my models/one")]

    assert commands == ["attnflow reproduce small --quick", "attnflow reproduce small --quick --model 'my models/one'"]


def test_a_figure_of_another_model_is_found_by_its_record(tmp_path, monkeypatch):
    def compute_with(progress, *, model, **settings):
        return compute(progress, **settings)

    trained = replace(SMALL, compute=compute_with, settings=SMALL.settings | {"model": "minilm"})
    monkeypatch.setattr(records, "catalogue", lambda: {"small": replace(trained, needs="models")})
    mine = make.make(trained.on_model("mine"), tmp_path, is_quick=True)

    assert records.kept(trained, tmp_path, is_quick=True) is None
    [(figure, found)] = records.figures_in(tmp_path, is_quick=True)
    assert found == replace(mine, state="kept")
    assert figure.settings["model"] == "mine"
    (tmp_path / "small-quick.png").unlink()
    assert records.figures_in(tmp_path, is_quick=True) == []


def test_a_model_trained_further_in_its_place_is_another_one(tmp_path):
    weights = tmp_path / "mine" / "weights"
    weights.parent.mkdir()
    weights.write_bytes(b"one")
    compute_with = lambda progress, *, model, **settings: SMALL.compute(progress, **settings)
    trained = replace(SMALL, compute=compute_with, settings=SMALL.settings | {"model": str(weights.parent)})
    states = [make.make(trained, tmp_path, is_quick=True).state for _ in range(2)]
    weights.write_bytes(b"another")
    states.append(make.make(trained, tmp_path, is_quick=True).state)
    assert states == ["made", "kept", "made"]


def test_the_report_keeps_figures_of_another_model(tmp_path):
    model = str(tiny_models.write("bert", tmp_path / "mine"))
    arguments = ["--quick", "--out", str(tmp_path)]
    for command in (["trained-prompt", "--model", model], ["force"]):
        finished = CliRunner().invoke(app, ["reproduce", *command, *arguments], catch_exceptions=False)
        assert finished.exit_code == 0

    text = (tmp_path / "report-quick.html").read_text()
    assert re.findall('<article id="([^"]+)"', text) == ["force", "trained-prompt"]
    assert f"attnflow reproduce trained-prompt --quick --model {model}" in text


@pytest.mark.parametrize(
    ("names", "words"),
    [(["force", "trained-prompt"], "There is no model at"), (["force"], "none of the chosen figures is made with")],
)
def test_a_model_that_cannot_serve_is_said_before_anything_is_made(tmp_path, names, words):
    folder = tmp_path / "figures"
    finished = CliRunner().invoke(app, ["reproduce", *names, "--model", "/no/such", "--out", str(folder)])

    assert finished.exit_code != 0
    assert words in str(finished.exception)
    assert not folder.exists()


def test_drawing_moves_a_bar_of_its_own(tmp_path):
    said = []
    make.make(SMALL, tmp_path, is_quick=True, progress=lambda share, words: said.append((share, words)))

    assert said == [(0.0, "drawing"), *((frame / 4, f"frame {frame} of 4") for frame in (1, 2, 3, 4))]


def test_ids_are_listed_to_the_last_letter():
    finished = CliRunner().invoke(app, ["list", "figures"], env={"COLUMNS": "80"}, catch_exceptions=False)

    listed = {line.split()[0] for line in finished.stdout.splitlines() if line.strip()}
    assert set(catalogue()) <= listed


def test_a_movie_has_its_frames(tmp_path):
    with Image.open(save_movie(movie(None), tmp_path / "m.gif")) as opened:
        assert opened.n_frames == 4
        assert opened.size == (200, 200)


def test_small_dots_keep_their_colours_in_a_gif(tmp_path):
    """Beside many shades of grey, of which a median cut would keep most."""
    picture = MatplotlibFigure(figsize=(4, 4), dpi=100)
    axes = picture.add_axes((0, 0, 1, 1), xlim=(0, 1), ylim=(0, 1))
    axes.imshow(np.linspace(0, 1, 400).reshape(20, 20), cmap="gray", extent=(0, 1, 0, 1))
    wanted = {(0.2, 0.3): (213, 94, 0), (0.5, 0.5): (0, 158, 115), (0.7, 0.2): (204, 121, 167)}
    for at, colour in wanted.items():
        axes.plot(*at, "o", ms=6, color=np.divide(colour, 255))
    with Image.open(save_movie(Movie(picture, 2, lambda frame: None), tmp_path / "dots.gif")) as opened:
        shown = np.asarray(opened.convert("RGB"), int)

    for (x, y), colour in wanted.items():
        near = shown[round((1 - y) * len(shown)), round(x * len(shown))]
        assert np.abs(near - colour).max() <= 8, (near, colour)


@pytest.mark.skipif(not has_video(), reason="needs the extra [video]")
def test_a_video_is_an_mp4(tmp_path):
    content = save_movie(movie(None), tmp_path / "m.mp4").read_bytes()

    assert content[4:8] == b"ftyp"
    assert b"moov" in content


def test_a_movie_of_another_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"`.gif` or `.mp4`"):
        save_movie(movie(None), tmp_path / "m.avi")


def test_entries_of_the_catalogue_are_complete():
    for name, figure in catalogue().items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
        assert figure.source
        assert chapter_of(name), name
        assert len(figure.shows.split(". ")) >= 2, name
        assert json.loads(json.dumps(figure.settings)) == figure.settings, name
        assert set(figure.quick) <= set(figure.settings), name
        assert figure.seconds[1] <= figure.seconds[0], name


def test_an_unknown_figure_has_its_neighbours_named():
    with pytest.raises(InputError, match="polytope-2d"):
        find("polytop-2d")


def test_only_the_picture_is_made_again_for_another_size(made):
    _, folder = made
    column = {"size": "column", "title": None}

    again = make.make(SMALL, folder, is_quick=True, drawing=column)

    assert again.state == "made"
    assert calls == [4]  # the data of the folder are used again
    assert again.caption == ["A headline", "A caption"]
    with Image.open(folder / "small-quick.png") as opened:
        assert opened.width == 680  # 3.4 inches
    assert 'size="column", title=None' in (folder / "small-quick.py").read_text()
    assert make.make(SMALL, folder, is_quick=True, drawing=column).state == "kept"
    assert make.make(SMALL, folder, is_quick=True).state == "made"
    [page] = [html_report.write_report([(SMALL, again)], folder, is_quick=True).read_text()]
    assert "attnflow reproduce small --quick --size column --no-title" in page
    assert "<p>A headline A caption</p>" in page


def test_fonts_of_pdf_files_are_embedded_as_truetype(made):
    content = (made[1] / "small-quick.pdf").read_bytes()

    assert b"/CIDFontType2" in content or b"/TrueType" in content
    assert b"/Type3" not in content
