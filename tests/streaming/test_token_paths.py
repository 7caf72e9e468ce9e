"""Evaluation of piecewise polynomial paths, each with pieces of its own."""

import itertools
from fractions import Fraction

import numpy as np

from attnflow.streaming.exact_time import component_count, components_of
from attnflow.streaming.radau import START_AND_NODES, series_of
from attnflow.streaming.token_paths import PathReader, TokenPath, TokenPaths, position_at

COMPONENTS = component_count(1e30)


def path_of(function, starts, end, log_compression=0.0):
    """Pieces that interpolate a function of the time since the first start, between exact times."""
    bounds = [*starts, end]
    pieces = []
    for start, stop in itertools.pairwise(bounds):
        c = log_compression
        fraction = START_AND_NODES if c == 0 else np.expm1(-c * START_AND_NODES) / np.expm1(-c)
        elapsed = float(start - starts[0]) + float(stop - start) * fraction
        pieces.append(series_of(function(elapsed)[:, None]))
    return TokenPath(
        np.stack([components_of(start, COMPONENTS) for start in starts]),
        np.array([float(stop - start) for start, stop in itertools.pairwise(bounds)]),
        np.full(len(starts), log_compression),
        np.stack(pieces),
    )


def test_tokens_are_read_at_common_times_whatever_their_pieces():
    """At t = 1e30 too, where a float does not resolve a unit of time."""
    for origin in (Fraction(0), Fraction(10**30)):
        times = [origin + part for part in (0, Fraction(1, 3), 1, 2)]
        paths = TokenPaths.none(1, COMPONENTS)
        paths = paths.with_path(path_of(np.sin, times, origin + 3))
        paths = paths.with_path(path_of(lambda time: np.cos(time / 8), times[:1], origin + 3, log_compression=2.0))
        paths = paths.with_path(TokenPath.constant(np.array([7.0]), (0.0, 1e31), COMPONENTS))
        reader = PathReader.at_start(paths, np.arange(3)).advance_to(components_of(origin + Fraction(1, 4), COMPONENTS))
        delays = np.array([0.0, 0.5, 2.0])
        now = 0.25 + delays
        expected = np.stack([np.sin(now), np.cos(now / 8), np.full(3, 7.0)], axis=1)
        np.testing.assert_allclose(reader.evaluate(delays)[..., 0], expected, atol=1e-12)


def test_a_reader_is_replaced_not_changed():
    paths = TokenPaths.none(1, 2).with_path(TokenPath.constant(np.ones(1), (0.0, 5.0), 2))
    reader = PathReader.at_start(paths, np.array([0]))
    later = reader.advance_to(components_of(Fraction(3), 2))
    assert reader.now[0] == 0.0
    assert later.now[0] == 3.0


def test_the_time_change_is_inverted():
    c, position = 4.0, np.linspace(0.0, 1.0, 9)
    fraction = -np.expm1(-c * position) / -np.expm1(-c)
    np.testing.assert_allclose(position_at(fraction, np.full(9, c)), position, atol=1e-14)
    np.testing.assert_array_equal(position_at(position, np.zeros(9)), position)
