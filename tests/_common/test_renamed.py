"""A renamed argument: the old word works and warns."""

import inspect

import pytest

import attnflow as af
from attnflow._common.checks import InputError
from attnflow._common.renamed import renamed_argument


@renamed_argument("runs", "member")
def chosen(*, member=0):
    """The run that was chosen."""
    return member


def test_the_old_word_is_accepted_with_a_warning_that_says_the_new_one():
    with pytest.warns(FutureWarning, match="`runs` is now called `member`") as caught:
        assert chosen(runs=3) == 3
    assert caught[0].filename == __file__  # the line of the caller
    assert chosen(member=2) == 2
    assert chosen() == 0


def test_both_words_at_once_are_refused():
    with pytest.raises(InputError, match="both are given"):
        chosen(runs=1, member=2)


def test_the_signature_has_the_new_word_only():
    for function in (chosen, af.show.html, af.show.widget):
        names = inspect.signature(function).parameters
        assert "member" in names
        assert "runs" not in names
