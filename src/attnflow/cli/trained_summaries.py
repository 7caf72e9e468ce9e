"""The summary of a prompt in a trained model, in lines of text."""

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
    shown |= {name.replace("_", " "): line(values, digits=".2g") for name, values in found["neural_collapse"].items()}
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
    if "frame_divisors" in found:
        shown["V in the frames"] = divisors_sentence(found["frame_divisors"])
    if "block_coupling" in found:
        mismatch = found["block_coupling"]
        with_next = [mismatch[place][place + 1] for place in range(len(mismatch) - 1)]
        shown["mismatch with the next block"] = line([*with_next, None])
        shown["mismatch, random vectors"] = line(found["random_coupling"])
    return {name: fact for name, fact in shown.items() if fact}


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
        f"tokens have {min(ratios):.3g} to {max(ratios):.3g} times the median"
    )


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
