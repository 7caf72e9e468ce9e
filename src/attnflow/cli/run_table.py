"""The table that `attnflow run` and `attnflow rerun` print of a run of `simulate`."""

from typing import Any

from attnflow.cli import studies
from attnflow.cli.numbers import flat, number, number_range


def readable_run(heading: dict[str, Any], summary: dict[str, Any]) -> dict[str, str]:
    """The facts of a run for a table: ensembles as ranges, thresholds beside the counts that depend on them."""
    shown = {"bit for bit": "equal" if heading["bit_for_bit"] else "different"} if "bit_for_bit" in heading else {}
    shown |= {"headline": heading["headline"]}
    shown |= {"model": summary["model"], "tokens": f"{summary['tokens']} in dimension {summary['dimension']}"}
    shown["V"] = summary["value"]
    if summary["runs"] > 1:
        shown["runs"] = str(summary["runs"])
    shown["solver"] = f"{summary['solver']}, {summary['dtype']}"
    if "settings" in heading:
        shown["seed"] = str(heading["settings"]["seed"])
    shown["steps"] = f"{number_range(summary['steps'])} ({number_range(summary['rejected_steps'])} rejected)"
    shown["time"] = f"t = {number_range(summary['time'])}, computed in {number(summary['seconds'])} s"
    shown |= _gathered(summary)
    shown["attention rank"] = rank_words(summary["attention_rank"], summary["tokens"], summary["rank_threshold"])
    shown["outcome"] = summary["outcome"]
    if "experiment" in heading:
        shown |= studies.study_facts(heading["experiment"])
        shown |= {"picture": heading["experiment_picture"]} if "experiment_picture" in heading else {}
    return shown | {name: summary[name] for name in ("result", "picture") if name in summary}


def rank_words(ranks: Any, tokens: int, threshold: float) -> str:
    """The rank of the attention matrix, or the ranks of several, with what is counted.

    Examples
    --------
    >>> rank_words(1, 20, 1e-6)
    '1 of 20 rows is independent (singular values above 1e-06 times the largest)'
    >>> rank_words([[3, 5], [4, 4]], 20, 1e-6)
    '3 to 5 of 20 rows are independent (singular values above 1e-06 times the largest)'
    """
    if None in flat(ranks):
        return number_range(ranks)
    verb = "is" if set(flat(ranks)) == {1} else "are"
    counted_values = f"singular values above {threshold:g} times the largest"
    return f"{number_range(ranks)} of {tokens} rows {verb} independent ({counted_values})"


def _gathered(summary: dict[str, Any]) -> dict[str, str]:
    """The number of clusters, or of the parallel subspaces that tokens lie on, with the distance it depends on."""
    from attnflow.experiments.gathering import counted

    distance = f"(within {summary['cluster_distance']:.3g})"
    dimensions, counts = summary["group_dimension"], summary["groups"]
    if summary["runs"] == 1 and not isinstance(dimensions, list) and dimensions > 0:
        return {"tokens on": f"{counted(counts, dimensions)} {distance}"}
    counts = number_range(summary["clusters"])
    if summary["runs"] > 1 and len(set(summary["clusters"])) > 1:
        from attnflow.analyse.mean_intervals import mean_with_interval

        counts = f"{counts}, {mean_with_interval(summary['clusters'])}"
    return {"clusters": f"{counts} {distance}"}
