"""Tables that the commands about trained models print."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

MAX_GROUPS = 8  # clusters, merges and parts of a merge that are printed
MAX_WORDS = 20  # of a cluster that are printed
# e^(-tA) with antisymmetric A is a rotation, under which cosines are those of x: the two share a line.
FRAMES = {"x": "cosine of x and e^(-tA) x", "V": "cosine of e^(-tV) x", "S": "cosine of e^(-tS) x"}
MAX_LAYERS = 13  # numbers of one line: that many fit into 80 columns
HALVES = {"attention": "attention", "mlp": "the MLP"}
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
    if table.attrs["norm_place"] == "pre":
        print("Gain and centring of the norm before attention are part of W_Q, W_K and W_V; its shift is left out.")
    print("beta = sqrt(d) |sym B|_F with B = W_Q^T W_K / sqrt(k) and sym B = (B + B^T) / 2; whole = sqrt(d) |B|_F.")


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
    rate = f"tokens align at rate {summary['rate']:.3g}"
    if summary["rate"] is None:
        is_aligned = summary["misalignment"] < 1e-6  # all tokens on one line, up to rounding
        rate = (
            "tokens align, too fast for the kept times to tell a rate"
            if is_aligned
            else "tokens do not align at one rate"
        )
    from attnflow._common.plain import text_with_error
    from attnflow.trained.head_flows import MISALIGNMENT_ERROR

    misalignment = text_with_error(summary["misalignment"], MISALIGNMENT_ERROR)
    print(f"{summary['outcome']} 1 - mean squared cosine is {misalignment}: {rate}.")
    for name, path in files.items():
        print(f"{name}: {path}")


def heads_named(heads: Sequence[int]) -> str:
    """Heads by their numbers.

    Examples
    --------
    >>> heads_named([9]), heads_named([0, 5])
    ('head 9', 'heads 0, 5')
    """
    return f"head{'' if len(heads) == 1 else 's'} {', '.join(map(str, heads))}"


def print_by_heads(rows: list[dict[str, Any]]) -> None:
    """Print one line for each number of heads: means over subsets, and ranges where there are several."""
    from attnflow.trained import count_rows

    shown = ("clusters", "mean_cosine", "misalignment", "rate", "attention_rank")
    lines = [
        {"heads": row["heads"], "subsets": row["subsets"]} | {name: _mean_and_range(row, name) for name in shown}
        for row in count_rows(rows)
    ]
    print_rows(lines, rows[0]["model"])
    print("Means over random subsets of heads, all from the same tokens; in brackets the least and greatest of them.")
    print("Misalignment: 1 - mean squared cosine; the rate is that of its decay, a mean over subsets that have one.")


def _mean_and_range(row: dict[str, Any], name: str) -> str | None:
    if row[name] is None or row["subsets"] == 1:
        return None if row[name] is None else _word(row[name])
    return f"{_word(row[name])} [{_word(row[f'{name}_least'])}, {_word(row[f'{name}_greatest'])}]"


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


def readable(found: dict[str, Any]) -> dict[str, str]:
    """The summary of a prompt as names and lines of text."""
    from attnflow.trained.neural_collapse import classes_sentence

    by_layer = ("mean_cosine", "effective_rank", "cka", "attention_rank", "second_eigenvalue")
    line = partial(_line, layers=found["layers"])
    shown = {"after layer": _layers(found["layers"])}
    shown |= {name.replace("_", " "): line(found[name]) for name in by_layer}
    shown["clusters"] = "  ".join(str(count) for count in _some(found["clusters"]))
    shown |= {f"energy, beta = {beta}": line(values) for beta, values in found["energy"].items()}
    shown["neural collapse"] = classes_sentence(found["collapse_classes"])
    shown |= {name.replace("_", " "): line(values) for name, values in found["neural_collapse"].items()}
    shown["last clusters"] = _clusters(found["last_clusters"]) or "each token is a cluster"
    shown["merges"] = _merges(found["merges"])
    shown["plateau"] = _plateau(found)
    for beta in found["energy"]:
        falls = [fall for fall in found["energy_falls"] if fall["beta"] == float(beta)]
        shown[f"energy falls, beta = {beta}"] = _falls(falls, found["layers"])
    for part, values in found.get("displacement", {}).items():
        shown[f"{part} part moves by"] = line(values["length"])
        shown[f"{part} part, cosine"] = line(values["cosine_change"], digits="+.2f")
    framed = found.get("cosine_in_frame", {})
    shown |= {label: line(framed[name]) for name, label in FRAMES.items() if name in framed}
    if "block_coupling" in found:
        mismatch = found["block_coupling"]
        with_next = [mismatch[place][place + 1] for place in range(len(mismatch) - 1)]
        shown["mismatch with the next block"] = line([*with_next, None])
        shown["mismatch, random vectors"] = line(found["random_coupling"])
    return {name: fact for name, fact in shown.items() if fact}


def _line(values: Sequence[float | None], layers: int, digits: str = ".2f") -> str:
    """Some of the values in one line; empty where none exists, such as cosines of a single token.

    Quantities of layers, which the embedding lacks, begin with a dash: all lines show the same layers.
    """
    if all(value is None for value in values):
        return ""
    whole = [*[None] * (layers + 1 - len(values)), *values]
    return "  ".join("-" if value is None else f"{value:{digits}}" for value in _some(whole))


def _layers(layers: int) -> str:
    some = "" if layers < MAX_LAYERS else "; all of them with --json"
    return f"{'  '.join(map(str, _some(range(layers + 1))))}  (0: the embedding{some})"


def _plateau(found: dict[str, Any]) -> str:
    """The longest plateau of the number of clusters, relative to the time until the number is least."""
    if found["plateau_to_collapse"] is None:
        return "the embedding has the fewest clusters"
    least, when = min(found["clusters"]), found["collapse_time"]
    rested = f"the number is constant for {found['longest_plateau']:g} of the {when:g} layers until it is {least}"
    return f"{rested}: ratio {found['plateau_to_collapse']:.2f}"


def _falls(falls: list[dict[str, Any]], layers: int) -> str:
    """How often each half of a block lowers the energy, and the pairs that contribute most to the largest fall."""
    if not falls:
        return "nowhere"
    counts = [f"{name} in {sum(fall['half'] == half for fall in falls)}" for half, name in HALVES.items()]
    worst = min(falls, key=lambda fall: fall["change"])
    pairs = [f"“{'” and “'.join(one['words'])}” {100 * one['share']:.2g} %" for one in worst["pairs"][:3]]
    where = f"most by {HALVES[worst['half']]} of layer {worst['layer'] + 1}, {worst['change']:.2g}"
    return f"by {', '.join(counts)} of {layers} layers; {where}: {', '.join(pairs)}"


def _some(values: Sequence[Any]) -> list[Any]:
    """At most MAX_LAYERS of the values, evenly chosen, with the first and the last."""
    from attnflow._common.plain import evenly_spaced

    return [values[index] for index in evenly_spaced(len(values), MAX_LAYERS)]


def _merges(merges: list[dict[str, Any]]) -> str:
    return _first([f"layer {one['after_layer']}: " + _first(map(_said, one["parts"]), " + ") for one in merges])


def _clusters(groups: list[list[str]]) -> str:
    return _first(map(_said, groups))


def _said(words: Sequence[str]) -> str:
    """The first MAX_WORDS different words of a cluster with their numbers, and the number of tokens if there are more.

    Examples
    --------
    >>> _said(["the", "cat", "the"])
    'the x 2 cat'
    """
    counts = Counter(words)
    pieces = [word if count == 1 else f"{word} x {count}" for word, count in counts.items()]
    first = " ".join(pieces[:MAX_WORDS])
    return first if len(pieces) <= MAX_WORDS else f"{first} ... ({len(words)} tokens)"


def _first(pieces: Iterable[str], between: str = "\n") -> str:
    """The first MAX_GROUPS pieces, and the number of those left out."""
    pieces = list(pieces)
    more = [f"and {len(pieces) - MAX_GROUPS} more, see --json"] if len(pieces) > MAX_GROUPS else []
    return between.join(pieces[:MAX_GROUPS] + more)
