"""Pictures as files, settings of matplotlib, colours, and what drawing loads."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from attnflow.show import attention, summary, trajectories
from attnflow.show.parts.style import (
    DOTS_PER_INCH,
    colours,
    from_oklch,
    in_house_style,
    require_free_picture,
    save_figure,
)
from attnflow.show.parts.view3d import faint_behind

OKLCH = {
    "white": (1.0, 0.0, 0.0),
    "red": (0.6279, 0.2577, 0.5102),
    "lime": (0.8664, 0.2948, 2.4870),
    "blue": (0.4520, 0.3132, 4.6083),
}
"""Published coordinates of colours of sRGB."""

pytestmark = pytest.mark.filterwarnings("error")

SIGNATURES = {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}


class TestFiles:
    @pytest.mark.parametrize("suffix", SIGNATURES)
    def test_the_suffix_chooses_the_format_and_nothing_else_is_left(self, polygon, suffix, tmp_path):
        path = tmp_path / f"run{suffix}"
        trajectories(polygon, path)
        assert path.read_bytes().startswith(SIGNATURES[suffix])
        assert list(tmp_path.iterdir()) == [path]

    @pytest.mark.parametrize("suffix", SIGNATURES)
    def test_the_same_run_gives_the_same_file(self, polygon, suffix, tmp_path):
        paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
        for path in paths:
            trajectories(polygon, path)
        assert paths[0].read_bytes() == paths[1].read_bytes()

    def test_an_unknown_suffix_is_refused_before_anything_is_drawn(self, tmp_path):
        with pytest.raises(ValueError, match=r"`.png`, `.pdf` or `.svg`, but the path is .*run.gif. Use .*run.png"):
            trajectories("not even a run", tmp_path / "run.gif")

    @pytest.mark.parametrize("draw", [trajectories, summary, lambda run, path: attention(np.eye(3), path)])
    def test_a_missing_directory_is_named(self, polygon, draw, tmp_path):
        with pytest.raises(ValueError, match="nowhere is not a directory"):
            draw(polygon, path=tmp_path / "nowhere" / "run.png")

    def test_a_directory_is_not_overwritten(self, polygon, tmp_path):
        (tmp_path / "run.png").mkdir()
        with pytest.raises(ValueError, match="it is a directory"):
            trajectories(polygon, tmp_path / "run.png")

    def test_a_file_that_must_stay_is_not_overwritten(self, tmp_path):
        (tmp_path / "run.png").write_text("mine")
        with pytest.raises(ValueError, match="exists already"):
            require_free_picture(tmp_path / "run.png", overwrite=False)

    def test_a_png_file_is_what_savefig_writes_and_the_figure_is_as_before(self, polygon, tmp_path):
        """The figure is drawn once instead of twice."""
        ours, other = trajectories(polygon), trajectories(polygon)
        before = ours.dpi, ours.canvas

        save_figure(ours, tmp_path / "ours.png")
        with in_house_style():
            other.savefig(tmp_path / "other.png", dpi=DOTS_PER_INCH)

        assert (tmp_path / "ours.png").read_bytes() == (tmp_path / "other.png").read_bytes()
        assert (ours.dpi, ours.canvas) == before

    def test_a_failure_leaves_the_old_picture_and_no_other_file(self, polygon, tmp_path, monkeypatch):
        path = tmp_path / "run.png"
        path.write_text("old")
        figure = trajectories(polygon)

        def fails_half_way(canvas, beside):
            beside.write_text("half")
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(FigureCanvasAgg, "print_png", fails_half_way)
        with pytest.raises(ValueError, match="No space left on device"):
            save_figure(figure, path)
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]


def test_settings_of_matplotlib_stay_as_they_were(polygon):
    before = dict(mpl.rcParams)
    summary(polygon)
    assert dict(mpl.rcParams) == before


def test_colours_differ_however_many_there_are():
    assert len({to_hex(shade) for shade in colours(200)}) == 200


def test_trajectories_load_no_other_kind_of_picture():
    others = (
        "attnflow.show.trained",
        "attnflow.show.theory",
        "attnflow.show.merging",
        "attnflow.models",
        "PIL.GifImagePlugin",
        "imageio_ffmpeg",
        "scipy.stats",
        "matplotlib.animation",
    )
    code = f"import sys, attnflow; attnflow.show.trajectories; loaded = [name for name in {others} if name in sys.modules]; assert not loaded, loaded"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_matplotlib_is_loaded_by_show_alone_and_pyplot_never():
    code = (
        "import sys, attnflow; assert 'matplotlib' not in sys.modules; attnflow.show.summary; "
        "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("name", OKLCH)
def test_colours_of_known_coordinates_are_found(name):
    np.testing.assert_allclose(from_oklch(*OKLCH[name]), mpl.colors.to_rgb(name), atol=2e-3)


def test_tokens_on_the_far_side_are_fainter_in_proportion_to_the_opacity():
    colours_of = np.zeros((3, 3))
    seen = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, -0.1]])
    strong, weak = (faint_behind(colours_of, seen, opacity)[:, 3] for opacity in (1.0, 0.5))

    np.testing.assert_allclose(strong[:2], 1.0)
    assert 0 < strong[2] < 0.5
    np.testing.assert_allclose(weak, strong / 2)
