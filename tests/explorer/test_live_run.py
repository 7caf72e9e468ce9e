"""A run of the explorer without a browser: what it computes, records, replays and refuses."""

from dataclasses import replace

import numpy as np
import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow.experiments import scenarios
from attnflow.explorer import page_requests, run_messages
from attnflow.explorer.export.python_code import python_code
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure import flow_measurements
from attnflow.explorer.pace import SLOW_FRAMES_PER_SECOND, CallTime
from attnflow.explorer.playback_clock import PlaybackClock
from attnflow.explorer.recording import Frame, Recording
from attnflow.explorer.settings_changes import changed_settings
from attnflow.explorer.stepper import Stepper

SMALL = {"n": 8}  # one shape for all tests: compiled once


def started(name="sphere", later=(), **changes):
    return LiveRun(1, page_requests.Start(name, {**SMALL, **changes}, tuple(later)), lambda *_: None)


def forward(run, frames, factor=1.0):
    for _ in range(frames):
        while not run.forward(factor):
            pass
    return run


def simulated(run, times, **changes):
    setup = scenarios.build(changed_settings(run.scenario.settings, {**SMALL, **changes}))
    return af.simulate(setup.flow, setup.tokens, times, solver=setup.solver, rng=setup.rng).tokens.values


@pytest.mark.parametrize(("name", "tolerance"), [("sphere", 1e-7), ("redrawn", 1e-6), ("layers", 0.0)])
def test_frames_are_what_simulate_gives_at_their_times(name, tolerance):
    """Two steppings of one solver agree to its tolerance of 1e-8, grown along the run; layers to the bit."""
    run = forward(started(name), 60, 4.0)

    times = np.array(run.recording.times)
    expected = simulated(run, times)

    found = np.stack([frame.tokens for frame in run.recording.frames])
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    assert times[-1] > 1.0  # past a redrawing of the weights


def test_a_change_acts_on_the_tokens_that_are_shown():
    run = forward(started(), 10)
    before = run.frame
    run.change({"beta": 6.0})
    forward(run, 10)

    setup = scenarios.build(changed_settings(run.scenario.settings, {**SMALL, "beta": 6.0}))
    expected = af.simulate(setup.flow, before.tokens, [before.time, run.frame.time], solver=setup.solver).tokens.values[
        -1
    ]

    np.testing.assert_allclose(run.frame.tokens, expected, atol=1e-7)
    assert np.abs(run.frame.tokens - simulated(run, [0.0, run.frame.time])[-1]).max() > 1e-4  # not what beta = 1 gives


def test_changes_of_a_link_give_the_same_bits_as_making_them():
    made = forward(started(), 10)
    made.change({"beta": 6.0})
    forward(made, 15, 2.0)

    again = started(later=made.later)
    while again.frame.time < made.frame.time:
        while not again.forward(0.7, made.frame.time):
            pass

    np.testing.assert_array_equal(again.frame.tokens, made.frame.tokens)
    assert again.later == made.later


def test_another_beta_compiles_nothing(caplog):
    import jax

    run = forward(started(), 3)
    run.change({"beta": 3.0})
    forward(run, 2)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        run.change({"beta": 5.0})
        forward(run, 2)

    assert not [record for record in caplog.records if "Compiling" in record.message and "advance" in record.message]


def test_recorded_frames_are_replayed_up_to_the_last_one():
    run = forward(started(), 20)
    edge = run.frame
    assert not run.has_recorded_next
    run.seek(0.0)
    assert run.frame.time == 0.0
    assert run.has_recorded_next
    while run.frame.index < edge.index:
        forward(run, 1)

    assert run.frame is edge


def test_the_share_of_a_frame_leads_to_that_frame():
    """A share is rounded; two runs that are compared are brought to one time by it."""
    run = forward(started(end=7.3), 60)
    found = []
    for position in range(61):
        run.position = position
        run.seek(run.share)
        found.append(run.position)

    assert found == list(range(61))


def test_a_coalescing_scenario_is_played_through_all_of_its_states():
    run = LiveRun(1, page_requests.Start("staircase", {}), lambda *_: None)
    assert run.frame.time == -np.inf
    forward(run, 600)

    assert run.is_at_end
    assert run.frame.time > 100  # log t
    assert np.ptp(run.frame.tokens, axis=0).max() < 1e-5  # all in one place


def test_a_refused_change_leaves_the_run_as_it_is():
    run = forward(started(), 3)
    before = run.settings
    with pytest.raises(InputError, match="`mask` 'causel' is not known"):
        run.change({"mask": "causel"})

    assert run.settings == before
    forward(run, 1)


@pytest.mark.parametrize(("before", "after"), [("post", "pre"), ("pre", "post")])
def test_a_normalisation_that_gives_or_takes_lengths_restarts(before, after):
    run = forward(started("layernorm-post", normalisation=before), 2)

    restarts = [
        run.needs_restart(changed_settings(run.settings, {"normalisation": name}), {"normalisation": name})
        for name in (after, before)
    ]

    assert restarts == [True, False]


def test_only_the_next_jump_of_redrawn_weights_is_computed():
    """The next jump is all that a step needs; a list to t = 1e15 would fill the memory."""
    run = forward(started("redrawn"), 1)

    assert run.stepper._window(run.stepper._cursors, 1e15).targets.time[0, 0] == 1.0


def test_changes_made_while_paused_are_all_recorded():
    run = forward(started(), 3)
    run.change({"beta": 3.0})
    run.change({"mask": "causal"})
    run.change({"beta": 4.0})

    assert run.later == [(run.frame.time, {"beta": 4.0, "mask": "causal"})]


def test_noise_is_the_same_as_in_simulate():
    run = forward(started("noisy"), 30)

    expected = simulated(run, run.recording.times)

    np.testing.assert_allclose(run.frame.tokens, expected[-1], atol=1e-12)


def test_the_clock_maps_times_to_shares_and_back():
    for clock in (PlaybackClock(7.0), PlaybackClock(7.0, is_log=True)):
        times = [0.0, 0.01, 3.0, 7.0]
        np.testing.assert_allclose([clock.time_of(clock.share_of(time)) for time in times], times, rtol=1e-9)
        assert clock.after(3.0, 1.0) > 3.0


def test_a_stepper_takes_one_run():
    setup = scenarios.build(scenarios.get("conjecture1").settings)
    with pytest.raises(InputError, match="one run at a time"):
        Stepper(setup)


def test_clusters_that_were_counted_for_the_colours_are_not_counted_again(monkeypatch):
    run = forward(started("polytope"), 5)
    expected = run.measurements.numbers(run.frame._replace(clusters=None))

    def fail(*_):
        raise AssertionError("the clusters and their distance are known")

    monkeypatch.setattr(flow_measurements.clusters, "labels", fail)
    monkeypatch.setattr(flow_measurements, "cluster_distance", fail)

    assert run.measurements.numbers(run.frame) == expected


def test_words_and_code_of_a_changed_run_do_not_claim_the_outcome_of_the_scenario():
    run = forward(started(n=64), 10)
    assert run.sentences[0] == run.scenario.sentence
    run.change({"beta": 60.0})
    forward(run, 3)

    code = python_code(run, run.recording.frames, run.later)
    for words in (" ".join(run_messages.model_fields(run)["words"]), code):
        assert "gathers all tokens" not in words
        assert "with beta = 60" in words


def test_a_length_that_reaches_zero_ends_the_run_with_a_sentence():
    run = started("layernorm-pre", value="minus-identity", beta=8.0)

    with pytest.raises(
        InputError, match=r"The run has ended. Stopped at t = .*: the length of a token has reached zero"
    ):
        forward(run, 400)


def test_a_run_that_stays_where_its_field_jumps_ends_with_a_sentence():
    """Peri with a V of rank one: steps become tiny, and the page would show no further frame."""
    run = started("layernorm-peri", d=2, value="matrix:-1,0.3,-0.5,0.15")

    with pytest.raises(InputError, match=r"direction A/\|A\| of Peri jumps where A passes zero"):
        forward(run, 400)


def test_extreme_settings_are_refused_with_a_sentence_or_run():
    with pytest.raises(InputError, match="size of `beta` of a run through all metastable states must be at most"):
        LiveRun(1, page_requests.Start("staircase", {"beta": 1e20}), lambda *_: None)
    with pytest.raises(InputError, match="entries of `value`"):
        started(value="diagonal:1e308,1e308,1e308")
    run = started(beta=1e300)
    assert run.measurements.numbers(run.first)["height"] is None  # not determined by rounded cosines
    assert started(beta=-400.0).measurements.numbers(run.first)["height"] == np.inf


def test_frames_computed_ahead_are_shown_one_by_one_at_any_speed():
    run = started()
    for _ in range(6):
        while (frame := run.compute(1.0)) is None:
            pass
        assert not run.accept(frame, shows=False)
    assert run.position == 0
    assert run.wants_frame_ahead

    for position in (1, 2, 3):
        run.replay(factor=4.0)
        assert run.position == position
    run.seek(0.0)
    run.replay(factor=2.5)  # shown before: by the clock
    assert run.position == 2


def test_a_full_recording_keeps_the_frames_that_have_yet_to_be_shown():
    recording = Recording(max_frames=4)
    for time in range(6):
        recording.add(Frame(time, float(time), np.zeros((1, 2))), shown=min(2, time))
    assert recording.times == [0.0, 3.0, 4.0, 5.0]


def test_slow_steps_are_shown_in_slow_motion():
    run = started()
    usual = run._next_target(1.0, None)
    run.stepper.pace.add(CallTime(advance=0.1 * usual, steps=1, seconds=1.0))

    wanted = 0.1 * usual / SLOW_FRAMES_PER_SECOND
    parts = usual / run._next_target(1.0, None)
    assert usual / wanted <= parts < 2 * usual / wanted
    assert np.log2(parts) == round(np.log2(parts))
    assert run._next_target(1.0, until=1.0) == usual


@pytest.mark.parametrize("is_log", [False, True])
def test_runs_in_slow_motion_have_frames_at_the_times_of_others(is_log):
    clock, coarse, fine = PlaybackClock(20.0, is_log), [0.0], [0.0]
    while coarse[-1] < 1.0:
        coarse.append(clock.after(coarse[-1], 1.0))
    while fine[-1] < coarse[-1]:
        parts = 8 if len(fine) < 20 else 2  # the pace has changed between two frames
        fine.append(clock.after(fine[-1], 1.0, parts))

    assert set(coarse) <= set(fine)


def test_many_tokens_are_summed_by_the_method_that_simulate_chooses():
    """The recorded flow stays the one that was asked for, and a frame is that of the sums over all pairs."""
    pytest.importorskip("ducc0", reason="the method is part of an extra: pip install 'attnflow[fast]'")
    setup = af.scenario("sphere", n=4000)
    stepper = Stepper(setup)
    assert isinstance(stepper._task.flow.summation, af.summation.Harmonics)
    assert stepper.flow.summation is None
    frame = None
    while frame is None:
        frame = stepper.advance(0.05)
    dense = replace(setup.flow, summation=af.summation.Dense())
    expected = af.simulate(dense, setup.tokens, [0.0, 0.05], solver=setup.solver, progress=False)
    np.testing.assert_allclose(frame.tokens, expected.tokens.values[-1], atol=1e-8)
    assert Stepper(af.scenario("sphere", n=900))._task.flow.summation == af.summation.Dense()
