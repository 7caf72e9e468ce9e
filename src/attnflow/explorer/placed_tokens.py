"""Tokens placed by hand: a run whose first tokens are those on display, with one moved, added or removed."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from attnflow._common.checks import InputError
from attnflow.explorer import catalogue, page_requests
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.settings_changes import changed_settings, changes_from

# settings that bring their own first tokens
REPLACING = frozenset({"space", "n", "d", "start", "seed", "runs", "prompt", "second", "layer"})
LENGTH_TOLERANCE = 1e-6  # of a token on the sphere, whose place a page computes in double precision


def start_from(run: LiveRun, edit: page_requests.EditTokens) -> page_requests.Start:
    """The request for a run that starts from the tokens on display after an edit."""
    has_targets = catalogue.has_targets(run.settings)
    if run.is_precomputed and not has_targets:
        raise InputError("All of this run is computed at once, so that its tokens cannot be changed. Choose another.")
    tokens = _edited(run, edit)
    changes = changes_from(run.scenario, run.settings)
    if not catalogue.labels(run.settings) and not has_targets:
        changes = {**changes, "n": len(tokens)}
    changed_settings(run.scenario.settings, changes)  # refuses too many tokens
    return page_requests.Start(run.scenario.name, changes, plays=edit.plays or has_targets, tokens=_rows(tokens))


def kept(run: LiveRun, changes: Iterable[str]) -> tuple[tuple[float, ...], ...] | None:
    """The placed tokens of a run with which it restarts after changes; None if the settings determine the tokens."""
    return None if REPLACING & set(changes) else run.placed


def _edited(run: LiveRun, edit: page_requests.EditTokens) -> np.ndarray:
    """The tokens on display, directions times lengths, after an edit; the first tokens where they have targets."""
    has_targets = catalogue.has_targets(run.settings)
    frame, n = run.first if has_targets else run.frame, len(run.frame.tokens)
    if edit.token is not None and not 0 <= edit.token < n:
        raise InputError(f"`token` must be from 0 to {n - 1}, but it is {edit.token}.")
    if catalogue.labels(run.settings) and (edit.token is None or edit.point is None):
        raise InputError("The tokens of a prompt are its words: they can be moved, but not added or removed.")
    if has_targets and (edit.token is None or edit.point is None):
        raise InputError("Every token has a target: both can be moved, but not added or removed. Change `n`.")
    if edit.token is None and edit.point is None:
        raise InputError("An edit must name a token, a place or both, but it names none.")
    if edit.point is None:
        if n == 1:
            raise InputError("A run has one token at least, so that the last one cannot be removed.")
        return frame.full_tokens[np.arange(n) != edit.token]
    point = _checked(run, np.asarray(edit.point))
    if frame.radii is not None:  # the point is a direction; an added token gets the mean length
        point = point * (np.mean(frame.radii) if edit.token is None else frame.radii[edit.token])
    if edit.token is None:
        return np.vstack([frame.full_tokens, point])
    tokens = frame.full_tokens.copy()
    tokens[edit.token] = point
    return tokens


def _checked(run: LiveRun, point: np.ndarray) -> np.ndarray:
    d = run.frame.tokens.shape[1]
    if point.shape != (d,):
        raise InputError(f"The place of a token must have {d} coordinates, but it has {point.size}.")
    if run.settings.space != "sphere":
        return point
    length = float(np.linalg.norm(point))
    if abs(length - 1) > LENGTH_TOLERANCE:
        raise InputError(
            f"The tokens of this model lie on the sphere of radius 1, but this place has length {length:.6g}."
        )
    return point / length


def _rows(tokens: np.ndarray) -> Any:
    return tuple(tuple(row) for row in tokens.tolist())
