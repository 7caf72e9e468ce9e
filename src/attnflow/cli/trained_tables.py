"""Tables that the commands about trained models print."""

from collections.abc import Sequence
from typing import Any

SIGNS = {"positive": "+", "negative": "-", "indefinite": "+-"}


def print_heads(table: Any, rows: list[dict[str, Any]]) -> None:
    """Print one line for each head, and the number of heads of each kind."""
    from rich.console import Console
    from rich.table import Table

    from attnflow.trained import controls_sentences

    title = f"heads of {table.attrs['model']}"
    # Without margins the line of a complex head fits into 80 columns.
    drawn = Table(box=None, header_style="bold", title=title, title_justify="left", pad_edge=False)
    for name in ("head", "leading", "gap", "Re > 0", "beta", "whole", "Q^T K", "predicted", "simulated"):
        drawn.add_column(name, no_wrap=True)
    for row in rows:
        turning = f" ± {row['imaginary_part']:.2f}i" if row["imaginary_part"] else ""
        gap = "" if row["gap"] is None else f"{row['gap']:.3f}"
        mark = {None: "yellow", 1.0: "green"}.get(row["agreement"], "bold red")
        drawn.add_row(
            f"{row['layer']}/{row['head']}", f"{row['real_part']:.2f}{turning}", gap,
            f"{100 * row['positive_share']:.0f} %", f"{row['effective_beta']:.0f}", f"{row['whole_beta']:.0f}",
            SIGNS[row["definiteness"]], row["predicted"], f"[{mark}]{row['simulated']}[/]",
        )  # fmt: skip
    Console().print(drawn)
    print(f"{len(rows)} heads: {_counted(rows, 'kind')}.{_agreement(table, rows)}")
    for sentence in controls_sentences(table):
        print(sentence)
    print(f"Leading: of largest real part. The eigenvalues of largest modulus: {_counted(rows, 'dominant_kind')}.")
    print(left_out(table.attrs))
    print("beta = sqrt(d) |sym B|_F with B = W_Q^T W_K / sqrt(k) and sym B = (B + B^T) / 2; whole = sqrt(d) |B|_F.")


def left_out(attributes: dict[str, Any]) -> str:
    """What the heads of a table include of the model's norm, and what they leave out, in one sentence."""
    missing = [
        name
        for name, is_there in (
            ("biases", attributes["has_biases"]),
            ("rotary positions", attributes["has_rotary_positions"]),
        )
        if is_there
    ]
    without = f" Left out of B and V: {' and '.join(missing)}." if missing else ""
    if attributes["norm_place"] != "pre":
        return f"Heads act on the tokens as they are.{without}"
    return (
        "Heads act on tokens of root mean square 1, since a norm precedes them; its gain (and centring, in a "
        f"LayerNorm) is part of W_Q, W_K and W_V.{without}"
    )


def _agreement(table: Any, rows: list[dict[str, Any]]) -> str:
    """How many of the simulations have the predicted limit, of all of them."""
    runs = table.attrs["runs"] * len(rows)
    agreeing, undecided = (sum(row[name] for row in rows) for name in ("agreeing", "undecided"))
    return f" {agreeing} of {runs} simulations have the predicted limit; {undecided} are undecided." if runs else ""


def _counted(rows: list[dict[str, Any]], name: str) -> str:
    kinds = [row[name] for row in rows]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))


def print_flow(summary: dict[str, Any], files: dict[str, str]) -> None:
    """Print the summary of a head's flow: one line for each kept time, then outcome and rate."""
    print_rows(summary["course"], f"{summary['model']}, layer {summary['layer']}, {heads_named(summary['heads'])}")
    from attnflow._common.plain import text_with_error
    from attnflow.trained.head_flows import MISALIGNMENT_ERROR

    misalignment = text_with_error(summary["misalignment"], MISALIGNMENT_ERROR)
    print(f"{summary['outcome']} 1 - mean squared cosine is {misalignment}: {_rate(summary)}.")
    for name, path in files.items():
        print(f"{name}: {path}")


def _rate(summary: dict[str, Any]) -> str:
    """The rate of alignment of a flow, or why it has none."""
    from attnflow.analyse.rates import MIN_POINTS
    from attnflow.trained.head_flows import FITTED_MISALIGNMENT

    if summary["rate"] is not None:
        return f"tokens align at rate {summary['rate']:.3g}"
    if summary["saves"] < MIN_POINTS:
        return f"a rate needs {MIN_POINTS} kept times or more, and there are {summary['saves']}"
    if summary["misalignment"] < FITTED_MISALIGNMENT[0]:
        return "tokens align, too fast for the kept times to tell a rate"
    return "its decay, if any, is not exponential at these times, and no rate is given"


def heads_named(heads: Sequence[int]) -> str:
    """Heads by their numbers.

    Examples
    --------
    >>> heads_named([9]), heads_named([0, 5])
    ('head 9', 'heads 0, 5')
    """
    return f"head{'' if len(heads) == 1 else 's'} {', '.join(map(str, heads))}"


def print_by_heads(rows: list[dict[str, Any]]) -> None:
    """Print one line for each number of heads: means over subsets, and intervals where there are several."""
    from attnflow.trained import count_rows

    shown = ("clusters", "mean_cosine", "misalignment", "rate", "attention_rank")
    counts = count_rows(rows)
    lines = [
        {"heads": row["heads"], "subsets": f"{row['subsets']} of {row['possible_subsets']}"}
        | {name: _mean_and_interval(row, name) for name in shown}
        for row in counts
    ]
    print_rows(lines, rows[0]["model"])
    print("Means over random subsets of heads, all from the same first tokens; in brackets 95 % t intervals of the")
    print("mean over all subsets of that many heads. Without brackets: of all subsets, of one, or equal in all drawn.")
    print("Misalignment: 1 - mean squared cosine; the rate is that of its decay, a mean over subsets that have one:")
    rates = [
        f"{row['heads']} head{'' if row['heads'] == 1 else 's'} {row['with_rate']} of {row['subsets']}"
        for row in counts
    ]
    print(f"{'; '.join(rates)}.")


def _mean_and_interval(row: dict[str, Any], name: str) -> str | None:
    if row[name] is None or row[f"{name}_low"] is None:
        return None if row[name] is None else _word(row[name])
    return f"{_word(row[name])} [{_word(row[f'{name}_low'])}, {_word(row[f'{name}_high'])}]"


def print_by_kind(rows: list[dict[str, Any]]) -> None:
    """Print one line for each kind of head in the model."""
    _print_ends([{"kind": row["kind"], "head": f"{row['layer']}/{row['heads'][0]}"} for row in rows], rows)


def _print_ends(names: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    """Print the final numbers of several runs, one line for each."""
    shown = ("clusters", "mean_cosine", "misalignment", "rate", "attention_rank")
    ends = [{name: row[name] for name in shown} for row in rows]
    print_rows([name | end for name, end in zip(names, ends, strict=True)], rows[0]["model"])
    print("Misalignment: 1 - mean squared cosine; the rate is that of its decay, where it has one.")


def print_ladder(rows: list[dict[str, Any]], title: str) -> None:
    """Print one line for each rung; a rung that overflows has its last layer in place of the last cosine."""
    shown = []
    for row in rows:
        after, line = row["layers_before_overflow"], {**row}
        del line["layers_before_overflow"], line["common_layer"]
        shown.append(line | ({} if after is None else {"last_cosine": f"overflows after layer {after}"}))
    print_rows(shown, title)
    if any(row["layers_before_overflow"] is not None for row in rows):
        print(f"Common cosine: after layer {rows[0]['common_layer']}, the last that all rungs reach.")


def print_rows(rows: list[dict[str, Any]], title: str) -> None:
    """Print rows with the same names as a table."""
    from rich.console import Console
    from rich.table import Table

    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    table = Table(title=title, title_justify="left", box=None, header_style="bold")
    for place, name in enumerate(names):
        table.add_column(name.replace("_", " "), no_wrap=place == 0)
    for row in rows:
        table.add_row(*(_word(row[name]) for name in names))
    Console().print(table)


def _word(value: Any) -> str:
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
