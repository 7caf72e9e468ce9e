"""The playback of a run: up to which time it is computed before it is shown."""

import pytest

from attnflow.explorer.playback import Playback


@pytest.mark.parametrize(("until", "expected"), [(None, None), (0.0, None), (-1.0, None), (2.5, 2.5)])
def test_a_link_to_the_start_computes_no_further_frame(until, expected):
    playback = Playback()
    playback.start(until)

    assert playback.until == expected
    assert playback.is_moving == (expected is not None)
