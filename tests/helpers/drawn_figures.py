"""Datasets to draw that need no equation, and what is found in a drawn figure."""

import json
import re

import numpy as np
import xarray as xr

import attnflow as af


def simulated(flow, tokens, times, **options):
    """A run of `simulate` without a progress bar."""
    return af.simulate(flow, tokens, times, progress=False, **options)


def dataset_of(tokens, kind, times=None, **attributes):
    """A dataset as `simulate` makes it, from tokens (time, token, coordinate) that solve no equation."""
    tokens = np.asarray(tokens, dtype=float)
    times = np.linspace(0, 3, len(tokens)) if times is None else np.asarray(times)
    each = ("token", "coordinate")
    variables = {
        "tokens": (("time", *each), tokens),
        "initial_tokens": (each, tokens[0]),
        "final_tokens": (each, tokens[-1]),
        "final_time": ((), times[-1]),
    }
    return xr.Dataset(variables, {"time": times}, {"flow": json.dumps({"is": kind})} | attributes)


def random_walk(n, d, kind, steps=6, seed=0):
    """Tokens on a random walk, on the sphere for `SphereAttention`."""
    tokens = np.random.default_rng(seed).normal(size=(steps, n, d)).cumsum(axis=0)
    if kind == "SphereAttention":
        tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    return dataset_of(tokens, kind)


def artist(axes, label):
    """The only artist of a label."""
    artists = [child for child in axes.get_children() if child.get_label() == label]
    assert len(artists) == 1, f"{len(artists)} artists are called {label}"
    return artists[0]


def drawn_labels(axes):
    """Labels of all artists of some axes."""
    return {child.get_label() for child in axes.get_children()}


def legend_texts(figure):
    """Texts of the legend of a figure."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def caption(figure):
    """The caption of a figure on one line, as plain text."""
    return plain(figure.get_supxlabel()).replace("\n", " ")


def heading(figure):
    """The title of a figure as plain text."""
    return plain(figure.get_suptitle())


def plain(text):
    """A text whose formulas are written as plain words: beta for its letter, t for an italic one."""
    text = re.sub(r"\\math\w+\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1", text)
    return re.sub(r"[$\\{}]", "", re.sub(r"\\math\w+\{([^{}]*)\}", r"\1", text))
