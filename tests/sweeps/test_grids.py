"""Functions over cells: their order, their errors, and workers of another version."""

from concurrent.futures import Future

import pytest

from attnflow._common.checks import InputError
from attnflow.sweeps.grids import computed_cells


class WorkersOfAnotherVersion:
    """An executor whose workers say that they have attnflow 9.9."""

    def submit(self, function, batch):
        computed, future = function(batch), Future()
        object.__setattr__(computed, "version", "9.9")
        future.set_result(computed)
        return future


def test_results_are_in_the_order_of_the_cells_and_progress_counts_them():
    seen = []
    found = computed_cells(divmod, [(7, 2), (9, 4), (1, 1)], progress=lambda share, words: seen.append((share, words)))

    assert found == [(3, 1), (2, 1), (1, 0)]
    assert seen[-1] == (1.0, "3 of 3 cells")


def test_an_error_of_the_function_is_raised_as_it_is_and_at_once():
    calls = []

    def once(number):
        calls.append(number)
        return 1 / number

    with pytest.raises(ZeroDivisionError):
        computed_cells(once, [(1,), (0,), (2,)])
    assert calls == [1, 0]


def test_workers_of_another_version_are_refused():
    with pytest.raises(InputError, match=r"A worker has attnflow 9\.9, but this process has"):
        computed_cells(pow, [(2, 3)], executor=WorkersOfAnotherVersion())
