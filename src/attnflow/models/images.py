"""Images as prompts: files, or arrays of pixels, prepared as preprocessor_config.json of the model says."""

import importlib
import json
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError, require_all_finite
from attnflow._common.memory import require_memory
from attnflow.models.config import Config
from attnflow.models.config_entries import Entries
from attnflow.models.source import Source
from attnflow.models.tokenizer import Tokens

FILE = "preprocessor_config.json"
MOST_PIXELS = 2**28  # of a file: 268 megapixels, beyond any camera
GREY = (0.5, 0.5, 0.5)  # mean and deviation of colours that ViT assumes
RESAMPLING = {0: "NEAREST", 1: "LANCZOS", 2: "BILINEAR", 3: "BICUBIC"}  # by their numbers in Pillow


@dataclass(frozen=True, eq=False)
class Patches(Tokens):
    """An image as tokens: some that are no patches, then its patches, row after row."""

    pixels: np.ndarray
    """(3, h, w), as the model takes them."""
    picture: np.ndarray
    """(h, w, 3), the same pixels as colours from 0 to 1, for drawing."""
    grid: tuple[int, int]
    """Rows and columns of patches."""
    side: int
    """Pixels along the side of a patch."""

    @property
    def content(self) -> np.ndarray:
        """The pixels, which the model embeds."""
        return self.pixels

    def shuffled(self, rng: np.random.Generator) -> "Patches":
        """The image with its patches in another order; tokens that are no patches stay."""
        order = rng.permutation(self.grid[0] * self.grid[1])
        pixels = np.moveaxis(_reordered(np.moveaxis(self.pixels, 0, 2), self.grid, self.side, order), 2, 0)
        return replace(self, pixels=pixels, picture=_reordered(self.picture, self.grid, self.side, order))


class ImageReader:
    """The preparation of images for a model."""

    reads_text = False

    def __init__(self, source: Source, config: Config):
        self._source = source
        self._config = config

    def encode(self, prompt: Any) -> Patches:
        """An image file, colours (h, w, 3) as whole numbers, or pixels (3, h, w) as the model takes them."""
        if isinstance(prompt, Patches):
            return prompt
        if isinstance(prompt, str | os.PathLike):
            pixels = self._prepared(_opened(Path(prompt)))
        else:
            pixels = self._of_array(_array(prompt))
        return self._patches(pixels)

    def _of_array(self, array: np.ndarray) -> np.ndarray:
        if array.ndim == 3 and array.shape[2] == 3 and array.dtype == np.uint8:
            return self._prepared(_pillow().fromarray(array))
        if array.ndim != 3 or array.shape[0] != 3 or array.dtype.kind != "f":
            raise InputError(
                "`prompt` must be an image file, colours (h, w, 3) of type uint8, or pixels (3, h, w) as numbers "
                f"with a fraction, but it is an array of shape {array.shape} and type {array.dtype}."
            )
        require_all_finite(array, "prompt", ("channel", "row", "column"))
        return array

    def _patches(self, pixels: np.ndarray) -> Patches:
        side, p, firsts = self._config.image, self._config.patch, self._config.first_tokens
        is_fitting = pixels.shape[1:] == (side, side) or self._config.may_resize_positions
        if not is_fitting or min(pixels.shape[1:]) < p:
            raise InputError(
                f"The model takes images of {side} x {side} pixels, but this one has {pixels.shape[1]} x "
                f"{pixels.shape[2]}. Pass a file, which is resized, or resize the array."
            )
        grid = pixels.shape[1] // p, pixels.shape[2] // p
        words = [*firsts, *(f"{row},{column}" for row in range(grid[0]) for column in range(grid[1]))]
        return Patches(np.arange(len(words)), words, pixels, self._colours(pixels), grid, p)

    def _prepared(self, image: Any) -> np.ndarray:
        """Resize, crop, scale and standardise, as far as the model's file says so."""
        entries = self._entries()
        image = image.convert("RGB")
        if entries.raw.get("do_resize", True):
            method = RESAMPLING.get(entries.raw.get("resample", 2))
            if method is None:
                raise InputError(
                    f"`resample` in {FILE} must be one of {RESAMPLING}, but it is {entries.raw['resample']!r}."
                )
            image = image.resize(self._new_size(entries, image.size), getattr(_pillow().Resampling, method))
        pixels = np.asarray(image, dtype=float)
        if entries.raw.get("do_center_crop", "crop_size" in entries.raw):
            pixels = _cropped(pixels, *self._sides(entries, "crop_size"))
        if entries.raw.get("do_rescale", True):
            pixels = pixels * entries.number("rescale_factor", 1 / 255)
        mean, deviation = self._standard()
        return np.moveaxis((pixels - mean) / deviation, 2, 0)

    def _new_size(self, entries: Entries, size: tuple[int, int]) -> tuple[int, int]:
        """The (width, height) of the resized image: fixed, or with a given shorter side."""
        given = entries.raw.get("size")
        shortest = given.get("shortest_edge") if isinstance(given, dict) else None
        is_cropped = bool(entries.raw.get("do_center_crop", "crop_size" in entries.raw))
        if isinstance(given, int) and is_cropped:
            shortest = given
        if shortest is None:
            height, width = self._sides(entries, "size")
            return width, height
        factor = Entries({"size": shortest}, FILE).count("size") / min(size)
        width, height = (int(shortest) if side == min(size) else int(side * factor) for side in size)
        require_memory(24 * width * height, "The resized image", f"Correct `size` in {FILE}.")
        return width, height

    def _sides(self, entries: Entries, name: str) -> tuple[int, int]:
        """Height and width, from a number or a table; those of the model where the file says nothing."""
        given = entries.raw.get(name, self._config.image)
        table = Entries(given if isinstance(given, dict) else {"height": given, "width": given}, f"{FILE}, `{name}`")
        sides = table.count("height"), table.count("width")
        require_memory(24 * math.prod(sides), "The resized image", f"Correct `{name}` in {FILE}.")
        return sides

    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each colour; 0 and 1 where the model takes colours as they are."""
        entries = self._entries()
        if not entries.raw.get("do_normalize", True):
            return np.zeros(3), np.ones(3)
        mean = np.array(entries.raw.get("image_mean", GREY), dtype=float)
        if mean.shape != (3,) or not np.isfinite(mean).all():
            raise InputError(f"`image_mean` in {FILE} must be three numbers, but it is {entries.raw['image_mean']!r}.")
        return mean, entries.with_defaults(image_std=list(GREY)).numbers("image_std", 3)

    def _colours(self, pixels: np.ndarray) -> np.ndarray:
        mean, deviation = self._standard()
        return np.clip(np.moveaxis(pixels, 0, 2) * deviation + mean, 0, 1)

    def _entries(self) -> Entries:
        path = self._source.find(FILE)
        if path is None:
            return Entries({"size": self._config.image}, FILE)
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is not JSON ({error}). Fetch it again.") from error
        return Entries(raw if isinstance(raw, dict) else {}, FILE)


def _reordered(image: np.ndarray, grid: tuple[int, int], p: int, order: np.ndarray) -> np.ndarray:
    """An image (h, w, 3) with its patches in another order; pixels at the edge that fill no patch stay."""
    (rows, columns), found = grid, image.copy()
    inner = image[: rows * p, : columns * p].reshape(rows, p, columns, p, 3)
    patches = np.moveaxis(inner, 2, 1).reshape(rows * columns, p, p, 3)[order].reshape(rows, columns, p, p, 3)
    found[: rows * p, : columns * p] = np.moveaxis(patches, 2, 1).reshape(rows * p, columns * p, 3)
    return found


def with_picture(run: xr.Dataset, prompt: Patches) -> xr.Dataset:
    """The trajectory of an image with its `picture`, and the numbers of rows and columns of patches as attributes."""
    rows, columns = prompt.grid
    picture = ("pixel_row", "pixel_column", "colour"), prompt.picture.astype("float32")
    return run.assign(picture=picture).assign_attrs(patch_rows=rows, patch_columns=columns)


def read_colours(path: Path) -> np.ndarray:
    """The colours (h, w, 3) of an image file, as uint8; InputError for what is no image."""
    return np.asarray(_opened(path).convert("RGB"))


def _opened(path: Path) -> Any:
    """The image of a file, whose size is checked before it is decoded."""
    library = _pillow()
    if not os.path.isfile(path):
        raise InputError(f"There is no image file {path}. Pass the path of a picture such as photo.jpg or photo.png.")
    try:
        with library.open(path) as image:
            if image.width * image.height > MOST_PIXELS:
                raise InputError(
                    f"{path} has {image.width} x {image.height} pixels, more than {MOST_PIXELS}. Make it smaller."
                )
            image.load()
            return image.copy()
    except InputError:
        raise
    except Exception as error:  # Pillow raises many kinds
        raise InputError(
            f"{path} is not an image that can be read ({str(error)[:120]}). Save it as PNG or JPEG."
        ) from error


def _pillow() -> Any:
    """The library of images, loaded on first use; matplotlib needs it, too."""
    return importlib.import_module("PIL.Image")


def _array(prompt: Any) -> np.ndarray:
    try:
        return np.asarray(prompt)
    except Exception as error:
        raise InputError("`prompt` must be an image file or an array of pixels.") from error


def _cropped(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of an image; smaller images get a black border."""
    missing = [max(side - have, 0) for side, have in zip((height, width), pixels.shape[:2], strict=True)]
    if any(missing):
        pixels = np.pad(pixels, [(one // 2, one - one // 2) for one in missing] + [(0, 0)])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]
