"""The summary of a prompt in a trained model: tables with a row for each layer, and facts in words."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attnflow._common.rounding import ROUNDING
from attnflow.cli.console import print_columns, print_facts
from attnflow.cli.numbers import column, number, rounding_of

MAX_GROUPS = 8  # clusters, merges and parts of a merge that are printed
MAX_WORDS = 20  # of a cluster that are printed
LEAST_SHARE = 0.01  # of a fall of the energy from which on a pair of words is named: all pairs of a long text have less
MAX_LAYERS = 33  # rows of a table: all layers of most models
# e^(-tA) with antisymmetric A is a rotation, under which cosines are those of x: the two share a column.
FRAMES = {"x": "x and e^(-tA) x", "V": "e^(-tV) x", "S": "e^(-tS) x"}
HALVES = {"attention": "attention", "mlp": "the MLP"}
Columns = Mapping[str, Sequence[float | None]]


def print_prompt(found: dict[str, Any], files: dict[str, str], dtype: str) -> None:
    """Print the summary of a prompt: tables by layer, then clusters, merges, plateau and falls of the energy.

    `dtype` is the precision in which the model computed, which limits all numbers.
    """
    rounding = rounding_of(dtype)
    layers, tokens = found["layers"], found["tokens"]
    title = (
        f"{tokens} token{'' if tokens == 1 else 's'} in {found['model']}, {layers} layer{'' if layers == 1 else 's'}"
    )
    print_by_layer(title, layers, _token_columns(found), rounding)
    print_by_layer("what each layer does", layers, _layer_columns(found), rounding)
    if "displacement" in found:
        print_by_layer(
            "output of attention, split by parts of V", layers, _part_columns(found["displacement"]), rounding
        )
    if "cosine_in_frame" in found:
        framed = {label: found["cosine_in_frame"][name] for name, label in FRAMES.items()}
        print_by_layer("mean cosine in frames that move with V, S and A", layers, framed, rounding)
    if "logit_lens" in found:
        _print_lens(found["logit_lens"], rounding)
    measured = {name.replace("_", " "): values for name, values in found["neural_collapse"].items()}
    # Variability is a ratio of squares, whose rounding error is that of cosines squared.
    errors = {name: rounding**2 for name in measured if name.endswith("variability")}
    print_by_layer("neural collapse (0 where it is complete)", layers, measured, rounding, errors)
    print_facts("in words", _facts(found) | files)


def print_by_layer(
    title: str, layers: int, columns: Columns, rounding: float = ROUNDING, errors: dict[str, float] | None = None
) -> None:
    """Print quantities in columns, with a row for the embedding, 0, and one after each layer; then an empty line.

    Quantities of layers, which the embedding lacks, are blank in its row. A quantity without values is left out, and a
    table without quantities too. `errors` are absolute; by default those of rounding, relative to the largest number of
    the column, or to one where that is smaller.
    """
    whole = {name: [*[None] * (layers + 1 - len(values)), *values] for name, values in columns.items()}
    known = {name: values for name, values in whole.items() if any(value is not None for value in values)}
    if known:
        largest = {name: max(abs(value) for value in values if value is not None) for name, values in known.items()}
        error_of = {name: rounding * max(1.0, value) for name, value in largest.items()} | (errors or {})
        rows = _rows(layers)
        shown = {name: column([values[row] for row in rows], error_of[name]) for name, values in known.items()}
        print_columns(title, {"layer": [str(row) for row in rows]} | shown)
        print()


def _print_lens(rows: list[dict[str, Any]], rounding: float) -> None:
    """Print what the tokens of each layer predict: numbers over all tokens, and the word of the last token."""
    chosen = [rows[place] for place in _rows(len(rows) - 1)]
    names = {"entropy": "mean entropy", "divergence": "divergence from last layer"}
    columns = {words: column([row[name] for row in chosen], rounding) for name, words in names.items()}
    columns["same first word"] = [f"{100 * row['agreement']:.0f} %" for row in chosen]
    columns["last token predicts"] = [_predicted(row["last_word"], row["probability"]) for row in chosen]
    columns["largest cluster"] = [_said(row["clusters"][0]["words"], 3) if row["clusters"] else "" for row in chosen]
    named = [row["clusters"][0] if row["clusters"] else None for row in chosen]
    columns["predicts"] = ["" if one is None else _predicted(one["word"], one["probability"]) for one in named]
    print_columns(
        "logit lens: words predicted by each layer", {"layer": [str(row["layer"]) for row in chosen]} | columns
    )
    print()


def _predicted(word: str, probability: float) -> str:
    return f"{word} {100 * probability:.0f} %"


def _token_columns(found: dict[str, Any]) -> Columns:
    energies = {f"energy beta={beta}": values for beta, values in found["energy"].items()}
    names = ("mean_cosine", "clusters", "effective_rank")
    return {name.replace("_", " "): found[name] for name in names} | energies


def _layer_columns(found: dict[str, Any]) -> Columns:
    columns: dict[str, Sequence[float | None]] = {
        "similarity (CKA)": found["cka"],
        "attention rank": found["attention_rank"],
        "second eigenvalue": found["second_eigenvalue"],
    }
    if "block_coupling" in found:
        mismatch = found["block_coupling"]
        with_next = [mismatch[place][place + 1] for place in range(len(mismatch) - 1)]
        columns["mismatch with next block"] = [*with_next, None]
        columns["of random vectors"] = found["random_coupling"]
    return columns


def _part_columns(parts: dict[str, dict[str, list[float]]]) -> Columns:
    lengths = {f"{part} length": values["length"] for part, values in parts.items()}
    return lengths | {f"{part} cosine rate": values["cosine_change"] for part, values in parts.items()}


def _facts(found: dict[str, Any]) -> dict[str, str]:
    from attnflow.trained.neural_collapse import classes_sentence

    facts = {
        "effective rank": f"the exponential of the entropy of the singular values, at most {found['tokens']}",
        "similarity (CKA)": "of the tokens before and after a layer; 1 if they agree up to rotation, shift and scale",
        "attention rank": f"singular values above 1 % of the largest, of {found['tokens']}; a mean over heads",
        "second eigenvalue": "of the attention matrix, in modulus; a mean over heads",
        "neural collapse": classes_sentence(found["collapse_classes"]),
        "last clusters": _clusters(found["last_clusters"]) or "each token is a cluster",
        "merges": _merges(found["merges"]),
        "plateau": _plateau(found),
    }
    for beta in found["energy"]:
        falls = [fall for fall in found["energy_falls"] if fall["beta"] == float(beta)]
        facts[f"energy falls, beta = {beta}"] = _falls(falls, found["layers"])
    if "logit_lens" in found:
        facts["logit lens"] = (
            "softmax of the unembedding of the last norm of the tokens; that of a cluster is the mean of its tokens"
        )
    if "displacement" in found:
        facts["cosine rate"] = "rate of change of the mean cosine along the part's output; above 0 it contracts"
    if "block_coupling" in found:
        facts["mismatch"] = (
            "0 if a block acts along the singular vectors of the next; that of random vectors if the two share nothing"
        )
    if "cosine_in_frame" in found:
        facts["frames"] = (
            "x and e^(-tA) x have one column: e^(-tA) with antisymmetric A is a rotation, so cosines are the same"
        )
    if "frame_divisors" in found:
        facts["V in the frames"] = divisors_sentence(found["frame_divisors"])
    if found["layers"] >= MAX_LAYERS:
        facts["layers"] = f"{MAX_LAYERS} of {found['layers'] + 1} rows are shown; all of them with --json"
    return {name: fact for name, fact in facts.items() if fact}


def divisors_sentence(divisors: dict[str, list[float]]) -> str:
    """The numbers that V is divided by in frames, and how far the tokens are from them; empty where all are 1.

    Examples
    --------
    >>> divisors_sentence({"divisor": [0.5, 2.0], "divisor_least": [0.5, 1.0], "divisor_greatest": [1.0, 8.0]})
    'over the median root mean square of the tokens of a layer, 0.5 to 2; tokens have 0.5 to 4 times the median'
    """
    medians, least, greatest = (divisors[name] for name in ("divisor", "divisor_least", "divisor_greatest"))
    if {*medians, *least, *greatest} == {1.0}:
        return ""
    ratios = [one / median for ends in (least, greatest) for one, median in zip(ends, medians, strict=True)]
    return (
        f"over the median root mean square of the tokens of a layer, {min(medians):.2g} to {max(medians):.2g}; "
        f"tokens have {number(min(ratios), ROUNDING)} to {number(max(ratios))} times the median"
    )


def _plateau(found: dict[str, Any]) -> str:
    """The longest plateau of the number of clusters, divided by the time at which the number is least."""
    if found["plateau_to_collapse"] is None:
        return "the embedding has the fewest clusters"
    least, when = min(found["clusters"]), found["collapse_time"]
    if not found["longest_plateau"]:
        return f"none: the number of clusters changes in each of the {when:g} layers until it is {least}"
    rested = f"the number is constant for {found['longest_plateau']:g} of the {when:g} layers until it is {least}"
    return f"{rested}: ratio {found['plateau_to_collapse']:.2f}"


def _falls(falls: list[dict[str, Any]], layers: int) -> str:
    """How often each half of a block lowers the energy, and the pairs that contribute most to the largest fall."""
    if not falls:
        return "nowhere"
    counts = [f"{name} in {sum(fall['half'] == half for fall in falls)}" for half, name in HALVES.items()]
    worst = min(falls, key=lambda fall: fall["change"])
    shown = [one for one in worst["pairs"][:3] if one["share"] >= LEAST_SHARE]
    pairs = [f"“{'” and “'.join(one['words'])}” {100 * one['share']:.2g} %" for one in shown]
    pairs = pairs or [f"no pair has more than {100 * LEAST_SHARE:g} % of it"]
    where = f"most by {HALVES[worst['half']]} of layer {worst['layer'] + 1}, {worst['change']:.2g}"
    return f"by {', '.join(counts)} of {layers} layers; {where}: {', '.join(pairs)}"


def _rows(layers: int) -> list[int]:
    """At most MAX_LAYERS of the rows 0, ..., layers, evenly chosen, with the first and the last."""
    from attnflow._common.plain import evenly_spaced

    return [int(row) for row in evenly_spaced(layers + 1, MAX_LAYERS)]


def _merges(merges: list[dict[str, Any]]) -> str:
    """The first merges by their words, after the number of merges in each layer where there are many."""
    layers = Counter(one["after_layer"] for one in merges)
    each = ", ".join(f"{count} in layer {layer}" for layer, count in sorted(layers.items()))
    heading = [f"{len(merges)}: {each}"] if len(merges) > MAX_GROUPS else []
    return "\n".join([*heading, _merges_in_words(merges)])


def _merges_in_words(merges: list[dict[str, Any]]) -> str:
    return _first([f"layer {one['after_layer']}: " + _first(map(_said, one["parts"]), " + ") for one in merges])


def _clusters(groups: list[list[str]]) -> str:
    return _first(map(_said, groups))


def _said(words: Sequence[str], most: int = MAX_WORDS) -> str:
    """The first `most` different words of a cluster with their numbers, and the number of tokens if there are more.

    Examples
    --------
    >>> _said(["the", "cat", "the"])
    'the x 2 cat'
    >>> _said(["a", "dog", "and", "cat"], 3)
    'a dog and ... (4 tokens)'
    """
    counts = Counter(words)
    pieces = [word if count == 1 else f"{word} x {count}" for word, count in counts.items()]
    first = " ".join(pieces[:most])
    return first if len(pieces) <= most else f"{first} ... ({len(words)} tokens)"


def _first(pieces: Iterable[str], between: str = "\n") -> str:
    """The first MAX_GROUPS pieces, and the number of those left out."""
    pieces = list(pieces)
    more = [f"and {len(pieces) - MAX_GROUPS} more, see --json"] if len(pieces) > MAX_GROUPS else []
    return between.join(pieces[:MAX_GROUPS] + more)
