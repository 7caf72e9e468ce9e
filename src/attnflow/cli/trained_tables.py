"""Tables that the commands about the heads of a trained model print."""

from collections.abc import Sequence
from typing import Any

from attnflow.cli.console import print_columns, print_sentences, print_table
from attnflow.cli.numbers import column, counted, interval_text, number

SIGNS = {"positive": "+", "negative": "-", "indefinite": "+-"}
ENDS = ("clusters", "mean_cosine", "misalignment", "rate", "attention_rank")
MISALIGNMENT = "Misalignment: 1 - mean squared cosine"


def print_heads(table: Any, rows: list[dict[str, Any]], files: dict[str, str]) -> None:
    """Print one line for each head, the number of heads of each kind, the controls of the simulations, and files."""
    from rich.table import Table

    # Without margins the line of a complex head fits into 80 columns.
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("head", "leading", "gap", "Re>0", "beta", "whole", "Q^T K"):
        drawn.add_column(name, no_wrap=True, justify="left" if name in ("head", "leading", "Q^T K") else "right")
    for name in ("predicted", "simulated"):
        drawn.add_column(name)
    for row in rows:
        turning = f" ± {row['imaginary_part']:.3f}i" if row["imaginary_part"] else ""
        mark = {None: "yellow", 1.0: "green"}.get(row["agreement"], "bold red")
        drawn.add_row(
            f"{row['layer']}/{row['head']}", f"{row['real_part']:6.3f}{turning}",
            "" if row["gap"] is None else f"{row['gap']:.3f}", f"{100 * row['positive_share']:.0f} %",
            f"{row['effective_beta']:.0f}", f"{row['whole_beta']:.0f}", SIGNS[row["definiteness"]],
            _limit(row["predicted"]), f"[{mark}]{_limit(row['simulated'])}[/]",
        )  # fmt: skip
    print_table(drawn, f"heads of {table.attrs['model']}")
    print_sentences(
        f"{counted(len(rows), 'head')}: {_kinds(rows, 'kind')}.{_agreement(table, rows)}",
        "leading: the eigenvalue of V of largest real part; gap: to the next real part; Re>0: the share of eigenvalues "
        f"with positive real part. The eigenvalues of largest modulus are {_kinds(rows, 'dominant_kind')}.",
        "beta = sqrt(d) |sym B|_F with B = W_Q^T W_K / sqrt(k) and sym B = (B + B^T) / 2; whole = sqrt(d) |B|_F; "
        "Q^T K: the signs of the eigenvalues of sym B.",
        left_out(table.attrs),
    )
    _print_controls(table)
    print_files(files)


def _limit(name: str) -> str:
    """A limit as words: names of limits have hyphens between them."""
    return name.replace("-", " ")


def _print_controls(table: Any) -> None:
    """Print how often heads have the predicted limit with their own Q and K, and with others."""
    from attnflow.trained import control_rows
    from attnflow.trained.head_controls import control_verdict

    rows = control_rows(table)
    if not rows:
        return
    counts = {
        "predicted limit": "agreeing",
        "undecided": "undecided",
        "two or three hyperplanes": "several_hyperplanes",
    }
    columns = {"simulations of": [row["control"] for row in rows]}
    columns |= {heading: [f"{row[name]} of {row['runs']}" for row in rows] for heading, name in counts.items()}
    print()
    print_columns(f"controls, on {counted(table.attrs['control_heads'], 'head')}", columns)
    print_sentences(
        f"The predicted limit: {control_verdict(rows, 'agreeing')}",
        "Two or three hyperplanes, where equal weights of all tokens give one: "
        f"{control_verdict(rows, 'several_hyperplanes')}",
    )


def left_out(attributes: dict[str, Any]) -> str:
    """What the heads of a table include of the model's norm, and what they leave out, in one sentence."""
    missing = list(attributes["left_out"])
    listed = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
    without = f" Left out of B and V: {listed}." if missing else ""
    if attributes["norm_place"] != "pre":
        return f"Heads act on the tokens as they are.{without}"
    return (
        "Heads act on tokens of root mean square 1, since a norm precedes them; its gain (and centring, in a "
        f"LayerNorm) is part of W_Q, W_K and W_V.{without}"
    )


def _agreement(table: Any, rows: list[dict[str, Any]]) -> str:
    """How many of the simulations have the predicted limit, of all of them."""
    runs = table.attrs["runs"] * len(rows)
    if not runs:
        return ""
    agreeing, undecided = (sum(row[name] for row in rows) for name in ("agreeing", "undecided"))
    verb = "has" if agreeing == 1 else "have"
    open_ones = counted(undecided, "is undecided", "are undecided")
    return f" Of {counted(runs, 'simulation')} {agreeing} {verb} the predicted limit; {open_ones}."


def _kinds(rows: list[dict[str, Any]], name: str) -> str:
    kinds = [row[name] for row in rows]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))


def print_flow(summary: dict[str, Any], files: dict[str, str]) -> None:
    """Print the summary of a head's flow: one line for each kept time, then outcome and rate."""
    from attnflow.trained.head_flows import MISALIGNMENT_ERROR

    course = summary["course"]
    columns = {
        "time": column([row["time"] for row in course]),
        "clusters": column([row["clusters"] for row in course]),
        "mean cosine": column([row["mean_cosine"] for row in course], MISALIGNMENT_ERROR),
        "attention rank": column([row["attention_rank"] for row in course]),
    }
    print_columns(f"{summary['model']}, layer {summary['layer']}, {heads_named(summary['heads'])}", columns)
    misalignment = number(summary["misalignment"], MISALIGNMENT_ERROR)
    print_sentences(
        f"{summary['outcome']} 1 - mean squared cosine is {misalignment}: {_rate(summary)}.",
        rank_note(summary["tokens"]),
    )
    print_files(files)


def print_files(files: dict[str, str]) -> None:
    """Print what was written where, a line for each file."""
    for name, path in files.items():
        print(f"{name}: {path}")


def rank_note(tokens: int) -> str:
    """What the column "attention rank" of a flow counts."""
    from attnflow.analyse.attention_rank import THRESHOLD

    return (
        f"Attention rank: singular values of the attention matrix above {THRESHOLD:g} times the largest, of {tokens}; "
        "a mean over heads."
    )


def _rate(summary: dict[str, Any]) -> str:
    """The rate of alignment of a flow, or why it has none."""
    from attnflow._common.plain import interval_texts
    from attnflow.analyse.rates import MIN_POINTS
    from attnflow.trained.head_flows import FITTED_MISALIGNMENT

    if summary["rate"] is not None:
        rate, low, high = interval_texts(summary["rate"], *summary["rate_interval"])
        return f"tokens align at rate {rate} (95 % interval {low} to {high})"
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


def print_by_heads(rows: list[dict[str, Any]], files: dict[str, str]) -> None:
    """Print two lines for each number of heads: means over subsets, and below them the intervals of the means."""
    from attnflow.trained import count_rows

    counts = count_rows(rows)
    columns = {
        "heads": [str(row["heads"]) for row in counts],
        "subsets": [f"{row['subsets']} of {row['possible_subsets']}" for row in counts],
    }
    columns |= {name.replace("_", " "): [_mean_and_interval(row, name) for row in counts] for name in ENDS}
    rates = [f"{counted(row['heads'], 'head')} {row['with_rate']} of {row['subsets']}" for row in counts]
    print_columns(f"{rows[0]['model']}, layer {rows[0]['layer']}", columns)
    print_sentences(
        "Means over random subsets of heads, all from the same first tokens; in brackets 95 % t intervals of the mean "
        "over all subsets of that many heads. Without brackets: of all subsets, of one, or equal in all drawn.",
        f"{MISALIGNMENT}; the rate is that of its decay, a mean over the subsets that have one: {'; '.join(rates)}.",
        rank_note(rows[0]["tokens"]),
    )
    print_files(files)


def _mean_and_interval(row: dict[str, Any], name: str) -> str:
    mean = _end(row[name], name)
    if row[name] is None or row[f"{name}_low"] is None:
        return mean
    return f"{mean}\n{interval_text(row[f'{name}_low'], row[f'{name}_high'])}".rstrip()


def _end(value: float | None, name: str) -> str:
    from attnflow.trained.head_flows import MISALIGNMENT_ERROR

    return number(value, MISALIGNMENT_ERROR if name in ("misalignment", "mean_cosine") else 0.0)


def print_by_kind(rows: list[dict[str, Any]], files: dict[str, str]) -> None:
    """Print one line for each kind of head in the model."""
    columns = {"kind": [row["kind"] for row in rows], "head": [f"{row['layer']}/{row['heads'][0]}" for row in rows]}
    columns |= {name.replace("_", " "): [_end(row[name], name) for row in rows] for name in ENDS}
    print_columns(rows[0]["model"], columns)
    print_sentences(f"{MISALIGNMENT}; the rate is that of its decay, where it has one.", rank_note(rows[0]["tokens"]))
    print_files(files)


def print_ladder(rows: list[dict[str, Any]], title: str, tokens: int, files: dict[str, str]) -> None:
    """Print one line for each rung; a rung that overflows has its last layer in place of the last cosine."""
    lost = [row["layers_before_overflow"] for row in rows]
    last = column([row["last_cosine"] for row in rows])
    columns = {
        "rung": [row["rung"] for row in rows],
        "first cosine": column([row["first_cosine"] for row in rows]),
        "last cosine": [
            text if layer is None else f"overflows after\nlayer {layer}" for text, layer in zip(last, lost, strict=True)
        ],
        "clusters": [number(row["clusters"]) for row in rows],
        "effective rank": column([row["effective_rank"] for row in rows]),
        "attention rank": column([row["attention_rank"] for row in rows]),
        "common cosine": column([row["common_cosine"] for row in rows]),
    }
    overflows = any(layer is not None for layer in lost)
    print_columns(title, columns if overflows else {name: columns[name] for name in columns if name != "common cosine"})
    print_sentences(
        f"Cosines are means over pairs of {tokens} tokens, before the first and after the last layer. Effective rank: "
        "the exponential of the entropy of the singular values. Attention rank: singular values above 1 % of the "
        f"largest in the last layer, of {tokens}; a mean over heads."
    )
    if overflows:
        print_sentences(f"Common cosine: after layer {rows[0]['common_layer']}, the last that all rungs reach.")
    print_files(files)
