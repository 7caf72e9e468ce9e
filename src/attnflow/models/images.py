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
    """(rows * side, columns * side, 3), the pixels of the patches as colours from 0 to 1, for drawing."""
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
        return self._of_patches(rng.permutation(self.grid[0] * self.grid[1]))

    def repeated(self) -> "Patches":
        """The image with its middle patch in the place of every patch."""
        rows, columns = self.grid
        return self._of_patches(np.full(rows * columns, rows // 2 * columns + columns // 2))

    def _of_patches(self, places: np.ndarray) -> "Patches":
        """The image of the patches at these places."""
        pixels = np.moveaxis(_reordered(np.moveaxis(self.pixels, 0, 2), self.grid, self.side, places), 2, 0)
        return replace(self, pixels=pixels, picture=_reordered(self.picture, self.grid, self.side, places))


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
            return self._patches(self._prepared(_opened(Path(prompt))), f"{FILE} makes images of")
        array = _array(prompt)
        if array.ndim == 3 and array.shape[2] == 3 and array.size and array.dtype == np.uint8:
            return self._patches(self._prepared(_pillow().fromarray(array)), f"{FILE} makes images of")
        if array.ndim != 3 or array.shape[0] != 3 or array.dtype.kind != "f":
            raise InputError(
                "`prompt` must be an image file, colours (h, w, 3) of type uint8, or pixels (3, h, w) as numbers "
                f"with a fraction, but it is an array of shape {array.shape} and type {array.dtype}."
            )
        require_all_finite(array, "prompt", ("channel", "row", "column"))
        return self._patches(array, "this one has")

    def _patches(self, pixels: np.ndarray, found: str) -> Patches:
        """The patches of pixels; `found` says in an error where their number comes from."""
        side, p, firsts = self._config.image, self._config.patch, self._config.first_tokens
        is_fitting = pixels.shape[1:] == (side, side) or self._config.may_resize_positions
        if not is_fitting or min(pixels.shape[1:]) < p:
            raise InputError(
                f"The model takes images of {side} x {side} pixels, but {found} {pixels.shape[1]} x {pixels.shape[2]}. "
                + ("Correct its `size` or `crop_size`." if FILE in found else "Pass a file, or resize the array.")
            )
        grid = pixels.shape[1] // p, pixels.shape[2] // p
        words = [*firsts, *(f"{row},{column}" for row in range(grid[0]) for column in range(grid[1]))]
        picture = self._colours(pixels[:, : grid[0] * p, : grid[1] * p])
        return Patches(np.arange(len(words)), words, pixels, picture, grid, p)

    def _prepared(self, image: Any) -> np.ndarray:
        """Resize, crop, scale and standardise, as far as the model's file says so."""
        entries = self._entries()
        if entries.raw.get("do_resize", True):
            number = entries.with_defaults(resample=2).count("resample", least=0)
            method = RESAMPLING.get(number)
            if method is None:
                raise InputError(f"`resample` in {FILE} must be one of {RESAMPLING}, but it is {number}.")
            image = image.resize(self._new_size(entries, image.size), getattr(_pillow().Resampling, method))
        pixels = np.asarray(image, dtype=float)
        if entries.raw.get("do_center_crop", entries.raw.get("crop_size") is not None):
            pixels = _cropped(pixels, *self._sides(entries, "crop_size"))
        if entries.raw.get("do_rescale", True):
            pixels = pixels * entries.number("rescale_factor", 1 / 255)
        mean, deviation = self._standard()
        return np.moveaxis((pixels - mean) / deviation, 2, 0)

    def _new_size(self, entries: Entries, size: tuple[int, int]) -> tuple[int, int]:
        """The (width, height) of the resized image: fixed, or with a given shorter side."""
        given = entries.raw.get("size")
        shortest = given.get("shortest_edge") if isinstance(given, dict) else None
        is_cropped = bool(entries.raw.get("do_center_crop", entries.raw.get("crop_size") is not None))
        if isinstance(given, int) and is_cropped:
            shortest = given
        if shortest is None:
            height, width = self._sides(entries, "size")
            return width, height
        shortest = Entries({"size": shortest}, FILE).count("size")
        width, height = (shortest * side // min(size) for side in size)
        require_memory(24 * width * height, "The resized image", f"Correct `size` in {FILE}.")
        return width, height

    def _sides(self, entries: Entries, name: str) -> tuple[int, int]:
        """Height and width, from a number or a table; those of the model where the file says nothing."""
        given = entries.with_defaults(**{name: self._config.image}).raw[name]
        table = Entries(given if isinstance(given, dict) else {"height": given, "width": given}, f"{FILE}, `{name}`")
        sides = table.count("height"), table.count("width")
        require_memory(24 * math.prod(sides), "The resized image", f"Correct `{name}` in {FILE}.")
        return sides

    def _standard(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and deviation of each colour; 0 and 1 where the model takes colours as they are."""
        entries = self._entries()
        if not entries.raw.get("do_normalize", True):
            return np.zeros(3), np.ones(3)
        entries = entries.with_defaults(image_mean=list(GREY), image_std=list(GREY))
        mean = entries.raw["image_mean"]
        is_mean = isinstance(mean, list) and len(mean) == 3 and all(isinstance(one, int | float) for one in mean)
        if not is_mean or not np.isfinite(np.array(mean, dtype=float)).all():
            raise InputError(f"`image_mean` in {FILE} must be three numbers, but it is {mean!r:.60}.")
        return np.array(mean, dtype=float), entries.numbers("image_std", 3)

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


def _reordered(image: np.ndarray, grid: tuple[int, int], p: int, places: np.ndarray) -> np.ndarray:
    """An image (h, w, 3) of its patches at these places; pixels at the edge that fill no patch stay."""
    (rows, columns), found = grid, image.copy()
    inner = image[: rows * p, : columns * p].reshape(rows, p, columns, p, 3)
    patches = np.moveaxis(inner, 2, 1).reshape(rows * columns, p, p, 3)[places].reshape(rows, columns, p, p, 3)
    found[: rows * p, : columns * p] = np.moveaxis(patches, 2, 1).reshape(rows * p, columns * p, 3)
    return found


def with_picture(run: xr.Dataset, prompt: Patches) -> xr.Dataset:
    """The trajectory of an image with its `picture`, and the numbers of rows and columns of patches as attributes.

    The coordinate `word`, which measures of the run keep, has them in its attribute `patches`.
    """
    rows, columns = prompt.grid
    picture = ("pixel_row", "pixel_column", "colour"), prompt.picture.astype("float32")
    word = run.word.assign_attrs(patches=f"{rows} x {columns}")
    return run.assign(picture=picture).assign_coords(word=word).assign_attrs(patch_rows=rows, patch_columns=columns)


def read_colours(path: Path) -> np.ndarray:
    """The colours (h, w, 3) of an image file, as uint8; InputError for what is no image."""
    return np.asarray(_opened(path))


def _opened(path: Path) -> Any:
    """The image of a file in three colours of 8 bits, whose size is checked before it is decoded."""
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
            return _in_colours(importlib.import_module("PIL.ImageOps").exif_transpose(image), path)
    except InputError:
        raise
    except Exception as error:  # Pillow raises many kinds
        raise InputError(
            f"{path} is not an image that can be read ({str(error)[:120]}). Save it as PNG or JPEG."
        ) from error


def _in_colours(image: Any, path: Path) -> Any:
    """An image as RGB. Transparency is dropped, as transformers drops it."""
    if image.mode.startswith("I"):  # grey of 16 bits, which Pillow would cut off at 255
        grey = np.asarray(image)
        if grey.min() >= 0 and grey.max() <= 65535:
            image = _pillow().fromarray((grey // 257).astype(np.uint8))
    if image.mode.startswith("I") or image.mode == "F":
        raise InputError(
            f"{path} has numbers of 32 bits, whose range is not known. Save it with 8 or 16 bits a colour."
        )
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # else Pillow warns
    return image.convert("RGB")


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
