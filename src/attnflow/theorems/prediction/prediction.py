"""`Prediction`: the limit that theorems promise of a flow, as values, as text and as a table of HTML."""

import dataclasses
from collections.abc import Iterable
from typing import Any

from attnflow._common.fact_tables import html_table, text_table
from attnflow.theorems.prediction.limits import WORDS
from attnflow.theorems.verdict import Hypothesis


@dataclasses.dataclass(frozen=True)
class Result:
    """A theorem, conjecture or observation that applies."""

    id: str
    paper: str
    says: str
    limit: str
    proved: bool
    rate: str
    note: str = ""

    @property
    def source(self) -> str:
        """The name of the result, whether it is proved, and its publication."""
        return f"{self.id} ({'proved' if self.proved else 'conjectured or observed'}, {self.paper})"


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The limit by the theorems that apply, or the theorem that comes nearest to applying."""

    limit: str
    """One word of `limits.WORDS`; "unknown" where no result applies."""
    says: str
    results: tuple[Result, ...]
    """All results that apply; the first decides `limit`."""
    rate: str
    hypotheses: tuple[Hypothesis, ...]
    """The hypotheses of the deciding result, or of the nearest one where no result applies."""
    suggestion: str
    """What the spectrum of V suggests where no result applies; otherwise a caution or nothing."""

    @property
    def proved(self) -> bool:
        """Whether a theorem, not a conjecture or an observation, promises the limit."""
        return bool(self.results) and self.results[0].proved

    @property
    def broken(self) -> tuple[Hypothesis, ...]:
        """The hypotheses that are not met; none where a result applies."""
        return tuple(hypothesis for hypothesis in self.hypotheses if not hypothesis.holds)

    @property
    def facts(self) -> dict[str, str]:
        """The prediction by name, in the order in which it is printed; a value may have several lines."""
        promised = [f"{one.source}: {one.says} {one.note}".rstrip() for one in self.results]
        facts = {"limit": WORDS[self.limit]}
        facts |= {"promised by": _listed(promised)} if self.results else {"why": self.says}
        facts |= {"rate": self.rate} if self.rate else {}
        kinds = {"met": [one.says for one in self.hypotheses if one.holds], "not met": map(missed_words, self.broken)}
        facts |= {f"hypotheses {kind}": text for kind, said in kinds.items() if (text := _listed(said))}
        return facts | ({"caution" if self.results else "suggestion": self.suggestion} if self.suggestion else {})

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values, for JSON; infinities become words."""
        plain = dataclasses.asdict(self) | {"proved": self.proved}
        plain["results"] = [dataclasses.asdict(result) for result in self.results]
        plain["hypotheses"] = [hypothesis.as_dict() for hypothesis in self.hypotheses]
        return plain

    def __repr__(self) -> str:
        return text_table(self.facts)

    def _repr_html_(self) -> str:
        return html_table(self.facts)


def missed_words(one: Hypothesis) -> str:
    """A hypothesis that is not met, with the distance by which it is missed."""
    return f"{one.says} ({one.shortfall or 'not so'})"


def _listed(items: Iterable[str]) -> str:
    return "\n".join(f"- {item}" for item in items)
