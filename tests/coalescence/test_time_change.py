"""The time change within a step."""

import numpy as np
import pytest

from attnflow.coalescence.time_change import TimeChange


def test_a_speed_that_is_no_number_ends_the_run_instead_of_raising():
    with pytest.raises(ArithmeticError, match="not a number"):
        TimeChange(np.nan).step_for(1.0, 0.0)
    assert TimeChange(2.0).step_for(1.0, np.log(0.1)) == pytest.approx(-np.log(0.8) / 2)  # (1 - e^(-2u)) / 2 = 0.1
