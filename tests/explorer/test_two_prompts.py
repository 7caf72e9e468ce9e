"""Two prompts side by side in the explorer: tokens after each other, and no attention between them."""

import numpy as np
import xarray as xr

from attnflow.explorer.prompt_scenarios import _joined


def prompt(count, seed):
    draw = np.random.default_rng(seed).random
    variables = {
        "tokens": (("layer", "token", "coordinate"), draw((2, count, 3))),
        "attention": (("layer", "head", "token", "source"), draw((2, 4, count, count))),
    }
    return xr.Dataset(variables, attrs={"model": "small"})


def test_attention_is_that_of_each_prompt_and_zero_between_them():
    first, second = prompt(3, 0), prompt(5, 1)
    both = _joined([first, second])
    np.testing.assert_array_equal(both.attention[:, :, :3, :3], first.attention)
    np.testing.assert_array_equal(both.attention[:, :, 3:, 3:], second.attention)
    assert not both.attention[:, :, :3, 3:].any()
    assert not both.attention[:, :, 3:, :3].any()
    np.testing.assert_array_equal(both.tokens, np.concatenate([first.tokens, second.tokens], axis=1))
    assert both.prompt.values.tolist() == [0] * 3 + [1] * 5
