"""Runs of the tests with a mutant, each in a child of one process that has imported the package and collected all tests.

Importing and collecting takes longer than most tests. The parent does it once, and forks a child for every mutant: the child
replaces the code of the changed function, or the value of the changed constant, and runs tests until one fails. The parent never
starts JAX's threads, which a child would not have. A default value of a class or an argument is part of an object that exists
already; a mutant of one is imported by a child that has collected nothing.
"""

import contextlib
import functools
import gc
import inspect
import json
import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.mutation.chosen_tests import LEFT_OUT, is_near, mentions, words_of
from tests.mutation.mutants import Mutant
from tests.mutation.swapping import functions_by_file, in_place, is_swappable, swap

SECONDS_OF_A_TEST = 120
"""Processor seconds after which a test counts as hanging; the slowest test takes about twenty."""
SECONDS_OF_WAITING = 240
"""Seconds by the clock after which a test counts as waiting for ever, on a machine that has much else to do."""
UNKNOWN_SECONDS = 0.02
"""Guess for a test that has not run yet, low, so that new tests are tried soon."""
OPTIONS = ["-q", "-n", "0", "-s", "-p", "no:cacheprovider", "-p", "no:cov", "--hypothesis-seed=0"]


class Ended(NamedTuple):
    """How the tests ended with a mutant."""

    outcome: str
    """`killed`, `survived` or `not run`."""
    by: str
    """The test that failed, or why nothing ran."""
    seconds: float
    """Processor time."""


class Settings(NamedTuple):
    """What a session of many mutants needs."""

    copy: Path
    """The copy of the tree."""
    budget: float
    """Processor seconds of tests for a mutant."""
    tell: Callable[[Mutant, Ended], None]

    @property
    def timings(self) -> Path:
        """The seconds of all tests that have run."""
        return self.copy.parent / "timings.json"


def run_mutants(settings: Settings, mutants: list[Mutant]) -> None:
    """Run all mutants: those that can be swapped in one session, the others in a session each."""
    os.chdir(settings.copy)
    for name in [name for name in sys.modules if name == "tests" or name.startswith("tests.")]:
        del sys.modules[name]
    sys.path[:0] = [str(settings.copy / "src"), str(settings.copy)]
    os.environ |= {"PYTHONPATH": str(settings.copy / "src"), "MPLBACKEND": "agg"}
    for mutant in mutants:
        if not is_swappable(settings.copy, mutant):
            with in_place(settings.copy, mutant):
                _in_child(lambda one=mutant: _session(settings, [one]))
    _session(settings, [mutant for mutant in mutants if is_swappable(settings.copy, mutant)])


def _session(settings: Settings, mutants: list[Mutant]) -> None:
    left_out = [f"--ignore-glob=*/{name}" for name in LEFT_OUT]
    pytest.main([*OPTIONS, *left_out, "tests"], plugins=[_Loop(settings, mutants)])


def _in_child(work: Callable[[], Any]) -> tuple[int, float]:
    """Do some work in a child; the status that it ended with, and its processor seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status, used = os.wait4(child, 0)
    return status, used.ru_utime + used.ru_stime


class _Loop:
    """A plugin that runs the collected tests once for every mutant."""

    def __init__(self, settings: Settings, mutants: list[Mutant]):
        self.settings, self.mutants, self.failed = settings, mutants, ""

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        """Answer for JAX while tests are collected, so that it starts no threads."""
        import jax

        self.backend, jax.default_backend = jax.default_backend, lambda: "cpu"

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A file that cannot be imported notices the mutant."""
        if report.failed and not self.failed:
            self.failed = f"{report.nodeid} cannot be imported"

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All mutants, one after the other."""
        from jax._src import xla_bridge

        assert not xla_bridge._backends, "a test file starts JAX when it is imported"
        for item in session.items:
            _source(getattr(item, "function", None))
        known = functions_by_file()
        gc.collect()
        gc.freeze()  # what exists is not visited, and so not copied, by collections of the children
        for mutant in self.mutants:
            if is_swappable(self.settings.copy, mutant):
                assert not self.failed, self.failed
                with in_place(self.settings.copy, mutant):
                    ended = self._run(session.items, mutant, lambda one=mutant: swap(self.settings.copy, one, known))
            else:
                ended = (
                    Ended("killed", self.failed, 0.0) if self.failed else self._run(session.items, mutant, lambda: None)
                )
            self.settings.tell(mutant, ended)
        return True

    def _run(self, items: list[Any], mutant: Mutant, prepare: Callable[[], None]) -> Ended:
        answer = self.settings.copy.parent / "answer.json"
        answer.unlink(missing_ok=True)
        status, seconds = _in_child(lambda: self._tests(items, mutant, prepare, answer))
        if answer.exists():
            found = json.loads(answer.read_text("utf-8"))
            return Ended(found["outcome"], found["by"], seconds)
        if not os.WIFSIGNALED(status):
            return Ended("not run", f"status {status}", seconds)
        number = signal.Signals(os.WTERMSIG(status))
        return Ended(
            "killed",
            "a test ran too long" if number in (signal.SIGXCPU, signal.SIGALRM) else f"a test ended with {number.name}",
            seconds,
        )

    def _tests(self, items: list[Any], mutant: Mutant, prepare: Callable[[], None], answer: Path) -> None:
        """Run tests until one fails or the budget is spent, and write the answer."""
        import jax

        os.setsid()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        with open(self.settings.copy.parent / "last.log", "w") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
        jax.default_backend = self.backend
        prepare()
        timings = self.settings.timings
        watch = _Watch(json.loads(timings.read_text("utf-8")) if timings.exists() else {})
        items[0].config.pluginmanager.register(watch)
        start, chosen = time.process_time(), _in_order(items, mutant, watch.seconds)
        for item, after in zip(chosen, [*chosen[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if watch.failed or time.process_time() - start > self.settings.budget:
                break
        timings.write_text(json.dumps(watch.seconds, indent=0), "utf-8")
        outcome = "killed" if watch.failed else "survived" if watch.count else "not run"
        answer.write_text(json.dumps({"outcome": outcome, "by": watch.failed or f"{watch.count} tests pass"}), "utf-8")


def _in_order(items: list[Any], mutant: Mutant, seconds: dict[str, float]) -> list[Any]:
    """The tests that may notice a mutant: of its package or with its name, the cheapest and most likely first."""
    words, counts = words_of(mutant), {}
    module = f"[attnflow.{mutant.path.removesuffix('.py').replace('/', '.')}]"
    costs: dict[Any, float] = {}
    for item in items:
        if item.path.name == "test_doctests.py":
            if item.name.endswith(module):
                costs[item] = 0.0
            continue
        if item.function not in counts:
            counts[item.function] = mentions(_source(item.function), words)
        count, nearness = counts.get(item.function, 0), is_near(item.path, mutant)
        if count or nearness > 1:
            costs[item] = seconds.get(item.nodeid, UNKNOWN_SECONDS) / (1 + 3 * count) / nearness
    return sorted(costs, key=lambda item: costs[item])


@functools.cache
def _source(function: Any) -> str:
    with contextlib.suppress(OSError, TypeError):
        return inspect.getsource(function)
    return ""


class _Watch:
    """A plugin that times tests and keeps the first failure."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds, self.failed, self.count = seconds, "", 0

    def pytest_runtest_setup(self, item: Any) -> None:
        """Limit the processor time of one test."""
        limit = int(time.process_time()) + SECONDS_OF_A_TEST
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        signal.alarm(SECONDS_OF_WAITING)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count, time, and keep the first failure."""
        if report.when == "setup":
            self.seconds[report.nodeid] = 0.0
        self.seconds[report.nodeid] += report.duration
        self.count += report.when == "call" and report.passed
        if report.failed and not self.failed:
            self.failed = report.nodeid
