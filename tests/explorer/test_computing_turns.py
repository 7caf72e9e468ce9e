"""Computing turns: bounded, fair, and given back."""

import itertools
import threading
import time
from types import SimpleNamespace

import pytest
from tests.helpers.served_explorer import wait_until

from attnflow.explorer import computing_turns
from attnflow.explorer.computing_turns import SHORT_TURN, ComputingTurns, TurnCancelledError
from attnflow.explorer.player import Player


def never():
    return False


def test_no_more_turns_are_taken_than_there_are(monkeypatch):
    monkeypatch.setattr(computing_turns, "LONG_TURN", 60)  # a thread that a busy machine keeps waiting counts on
    turns, most, lock = ComputingTurns(2), [0, 0], threading.Lock()
    pair = threading.Barrier(2)  # which two threads pass only together

    def compute():
        with turns.for_viewer().turn(never):
            with lock:
                most[0] += 1
                most[1] = max(most)
            pair.wait(60)
            time.sleep(0.02)
            with lock:
                most[0] -= 1

    threads = [threading.Thread(target=compute) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert most == [0, 2]
    assert turns.taken == 0


def test_a_viewer_with_short_calls_does_not_wait_behind_long_runs():
    """Four viewers compute without a pause on one turn; a fifth takes a short turn now and then."""
    turns, is_over, begun = ComputingTurns(1), threading.Event(), itertools.count(1)
    latest = 0

    def compute_on():
        nonlocal latest
        mine = turns.for_viewer()
        while not is_over.is_set():
            with mine.turn(never):
                latest = next(begun)
                time.sleep(0.02)

    threads = [threading.Thread(target=compute_on, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    wait_until(lambda: latest > 16)
    mine, waits = turns.for_viewer(), []
    for _ in range(10):
        before = latest
        with mine.turn(never):
            waits.append(latest - before)  # turns of others that began meanwhile, whatever the machine does
        time.sleep(0.03)
    is_over.set()

    # One turn is under way, and another may begin before this viewer is in the queue; in turn it would be three.
    assert sorted(waits)[5] < 2


def test_a_compilation_does_not_keep_others_waiting():
    turns, is_over = ComputingTurns(1), threading.Event()

    def compile_long():
        with turns.for_viewer().turn(never):
            is_over.wait(120)

    thread = threading.Thread(target=compile_long, daemon=True)
    thread.start()
    wait_until(lambda: turns.taken == 1)
    with turns.for_viewer().turn(never):
        assert turns.taken == 2
    is_over.set()
    thread.join(60)


def test_a_cancelled_computation_ends_while_it_waits_and_while_it_computes():
    turns, flag = ComputingTurns(1), threading.Event()
    with turns.for_viewer().turn(never):
        threading.Timer(0.05, flag.set).start()
        with pytest.raises(TurnCancelledError):
            turns.take(turns.for_viewer(), flag.is_set)
    flag.clear()
    with turns.for_viewer().turn(flag.is_set) as pass_on:
        pass_on()
        flag.set()
        with pytest.raises(TurnCancelledError):
            pass_on()
    assert turns.taken == 0


def test_a_long_computation_passes_its_turn_on(monkeypatch):
    turns, order, clock = ComputingTurns(1), [], [0.0]
    monkeypatch.setattr(computing_turns, "wall", SimpleNamespace(monotonic=lambda: clock[0]))

    def second():
        with turns.for_viewer().turn(never):
            order.append("second")

    with turns.for_viewer().turn(never) as pass_on:
        thread = threading.Thread(target=second)
        thread.start()
        wait_until(lambda: turns._waiting)
        pass_on()
        order.append("first")  # its turn is still short
        clock[0] += 2 * SHORT_TURN
        pass_on()
        thread.join(60)
        order.append("first")

    assert order == ["first", "second", "first"]


@pytest.mark.parametrize("prepares", [False, True], ids=["a frame", "a run"])
def test_a_change_of_settings_waits_for_what_is_being_computed(prepares):
    """A change is answered once a frame is there; a run that is prepared has to be taken up as well."""
    may_end, has_ended = threading.Event(), threading.Event()
    player = Player(lambda kind, message: None, None, ComputingTurns().for_viewer(), has_ended.set)
    assert not player.is_computing
    player._compute(lambda _: may_end.wait(10), prepares=prepares)
    assert player.is_computing
    may_end.set()
    assert has_ended.wait(10)
    assert player.is_computing == prepares
