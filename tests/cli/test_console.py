"""Printed tables: whole in any width, without colours or trailing spaces in a pipe."""

import pytest

from attnflow.cli import console
from attnflow.cli.coalesce import readable_facts
from attnflow.cli.numbers import column, number
from attnflow.cli.run_table import rank_words


@pytest.mark.parametrize("width", ["20", "80", "120"])
def test_no_cell_is_cut_off(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", width)
    cells = ["attention only", "+ positions"]
    console.print_columns(
        "a model", {"rung": cells, "mean cosine of all pairs": ["0.4382", "0.6791"], "none": ["", ""]}
    )
    console.print_facts("a run", {"statement": "sequential-gradient-of-all-tokens", "outcome": "Reached t = 5. " * 9})
    text = capsys.readouterr().out
    for whole in (*cells, "0.4382", "0.6791", "sequential-gradient-of-all-tokens", "cosine"):
        assert whole in text
    assert "…" not in text
    assert "none" not in text
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


def test_facts_with_brackets_are_printed_as_they_are(capsys):
    console.print_facts("[a title]", {"axes": "tokens[0] and [/] and [red]"})
    assert "tokens[0] and [/] and [red]" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "error", "texts"),
    [
        ([0.3696, 12.6612, None], 0.0, ["0.37", "12.66", ""]),
        ([24.0, 1.0], 0.0, ["24", "1"]),
        ([0.5, 3e-17], 1e-14, ["0.5000", "0 ± 1e-14"]),
        ([3e-17, 0.0], 1e-14, ["0 ± 1e-14", "0 ± 1e-14"]),
        ([0.0, 0.0], 1e-14, ["0", "0"]),
        ([float("inf"), 1.5], 0.0, ["inf", "1.5"]),
        ([123456.7, 2.0], 0.0, ["1.235e+05", "2"]),
        ([-0.09123, 0.0012], 0.0, ["-0.09123", "0.00120"]),
    ],
)
def test_columns_have_four_digits(values, error, texts):
    assert column(values, error) == texts


def test_minus_zero_is_zero():
    assert number(-0.0) == "0"


def test_ranks_that_were_not_formed_are_said_so():
    assert rank_words(None, 3000, 1e-6) == "not formed"
    assert rank_words([1, None], 3000, 1e-6) == "not formed"


def test_the_facts_of_a_coalescing_run_are_in_words():
    facts = {"outcome": "Stopped.", "clusters": 2, "merges": 1, "log_time": 2.0, "merge": 1e-6, "quadrature_error": 0.0}
    shown = readable_facts(facts | {"quadrature_merges": 0, "perturbed": '{"amount": 0.01, "seed": "7"}'})
    assert shown["clusters"] == "2 after 1 merge"
    assert shown["time"] == "log t = 2, t = 7.389"
    assert shown["first tokens"] == "moved at random by 0.01, seed 7"
    assert "by quadrature" not in shown
