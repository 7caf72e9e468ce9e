"""`Movie`: a figure whose artists change from frame to frame, written as MP4 or GIF."""

import os
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from attnflow._common.extras import is_installed, require_extra
from attnflow._common.files import require_free, require_suffix, written_beside
from attnflow.show.parts.page import Page, drawing_on
from attnflow.show.parts.style import DOTS_PER_INCH, PageFigure

MOST_FRAMES = 90  # of a movie of a run: between four and five seconds
LAST_FRAME_SECONDS = 1.5  # time to look at the end before the movie repeats


@dataclass(frozen=True)
class Movie:
    """A figure and a function that draws each frame."""

    figure: Figure
    frames: int
    show_frame: Callable[[int], None]
    """Draws frame 0, ..., frames - 1 in `figure`."""
    fastest: int = 20
    """Largest number of frames a second."""

    @property
    def rate(self) -> int:
        """Frames a second: fewer for a movie of few frames, so that it lasts two seconds without its last frame.

        Examples
        --------
        >>> [Movie(Figure(), frames, lambda frame: None).rate for frames in (8, 60)]
        [4, 20]
        """
        return int(np.clip(self.frames / 2.0, 4, self.fastest))

    def pictures(self) -> Iterator[np.ndarray]:
        """Every frame as bytes (height, width, 3); height and width are even, as video encoders need."""
        canvas = FigureCanvasAgg(self.figure)
        page = self.figure.page if isinstance(self.figure, PageFigure) else Page()
        # Dots an inch: for screens 100; pages of a paper are small and have those of their pictures.
        self.figure.set_dpi(100 if page.width is None or page.width > 10 else DOTS_PER_INCH)
        with drawing_on(page):
            for frame in range(self.frames):
                self.show_frame(frame)
                canvas.draw()
                if frame == 0 and self.figure.get_layout_engine() is not None:
                    self.figure.set_layout_engine("none")  # the axes must not move
                yield _even(np.asarray(canvas.buffer_rgba())[..., :3])

    def seconds(self, frame: int) -> float:
        """Seconds for which a frame is shown."""
        return LAST_FRAME_SECONDS if frame == self.frames - 1 else 1 / self.rate


def has_video() -> bool:
    """Whether MP4 can be written, which needs the extra [video]."""
    return is_installed("video")


def save_movie(movie: Movie, path: str | os.PathLike) -> Path:
    """Write a movie as MP4 or GIF by its suffix. Returns the path.

    Raises
    ------
    ValueError
        If the suffix is not a known one, nothing can be written there, or MP4 is wanted and the extra
        [video] is not installed.
    """
    return save_movies(movie, [path])[0]


def save_movies(
    movie: Movie, paths: list[str | os.PathLike], progress: Callable[[float, str], None] | None = None
) -> list[Path]:
    """Write a movie to several files, drawing each frame once; `progress` is called with the share of frames done."""
    targets = [require_movie_path(path) for path in paths]
    pictures = []
    for picture in movie.pictures():
        pictures.append(picture.copy())
        if progress is not None:
            progress(len(pictures) / movie.frames, f"frame {len(pictures)} of {movie.frames}")
    for path in targets:
        with written_beside(path) as beside:
            (_write_mp4 if path.suffix.lower() == ".mp4" else _write_gif)(movie, pictures, beside)
    return targets


def require_movie_path(path: str | os.PathLike) -> Path:
    """A path that a movie can be written to."""
    path = Path(path)
    require_suffix(path, "A movie", (".gif", ".mp4"))
    if path.suffix.lower() == ".mp4":
        require_extra("video", str(path), instead="Write a GIF")
    return require_free(path, overwrite=True)


def _write_mp4(movie: Movie, pictures: list[np.ndarray], path: Path) -> None:
    import imageio_ffmpeg

    height, width = pictures[0].shape[:2]
    # A constant rate factor of x264 below 28 shows no blocks in flat colours.
    options = ["-crf", "26", "-f", "mp4", "-movflags", "+faststart", "-threads", "1"]
    writer = imageio_ffmpeg.write_frames(
        str(path), (width, height), fps=movie.rate, codec="libx264", macro_block_size=2,
        output_params=options, ffmpeg_log_level="error",
    )  # fmt: skip
    with warnings.catch_warnings():
        # JAX warns of forks, but the child process runs ffmpeg immediately.
        warnings.filterwarnings("ignore", message=".*os.fork", category=RuntimeWarning)
        writer.send(None)
    for frame, picture in enumerate(pictures):
        for _ in range(round(movie.seconds(frame) * movie.rate)):
            writer.send(np.ascontiguousarray(picture))
    writer.close()


def _write_gif(movie: Movie, pictures: list[np.ndarray], path: Path) -> None:
    """Write a GIF with one palette for all frames, so that colours do not flicker."""
    from PIL import Image

    palette = Image.new("P", (1, 1))
    palette.putpalette(_frequent_colours(pictures).ravel().tolist())
    frames = [Image.fromarray(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    durations = [round(1000 * movie.seconds(frame)) for frame in range(len(frames))]
    frames[0].save(
        path, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0, optimize=False
    )


def _frequent_colours(pictures: list[np.ndarray], most: int = 128) -> np.ndarray:
    """The colours of a palette: the most frequent one of each of the `most` cells of 8^3 shades with most pixels.

    A median cut, which divides the pixels evenly, would merge the colours of small dots with those of thin lines.
    """
    sample = np.concatenate([pictures[k].reshape(-1, 3) for k in {0, len(pictures) // 2, len(pictures) - 1}])
    packed, counts = np.unique(sample.astype(int) @ [2**16, 2**8, 1], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    colours = (packed.astype(int)[order, None] >> np.array([16, 8, 0])) & 255
    first, cells = np.unique((colours >> 3) @ [2**10, 2**5, 1], return_index=True, return_inverse=True)[1:]
    pixels = np.bincount(cells, counts[order])
    return colours[first[np.argsort(-pixels, kind="stable")[:most]]]


def _even(picture: np.ndarray) -> np.ndarray:
    height, width = (side - side % 2 for side in picture.shape[:2])
    return picture[:height, :width]
