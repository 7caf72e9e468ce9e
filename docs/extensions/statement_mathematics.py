"""Statements, hypotheses and measurements in plain text, set as mathematics for Markdown."""

import re

GREEK = "alpha|beta|gamma|delta|kappa|lambda|mu|phi|rho|sigma|tau|theta|xi|psi|omega|pi"
OPERATORS = "sum|min|max|log|cos|sin|exp"
SIGNS = {">=": "≥", "<=": "≤", "+-": "±"}
BASE = r"(?:(?<![\w`])[A-Za-z]{1,6}|(?<![\w`])[0-9.]+|\|[\w']+\||\([^()]*\)(?=\^))"
FORMULA = re.compile(
    rf"{BASE}(?:[_^](?:\{{[^{{}}]*\}}|\([^()]*\)|\w+|\*|-?\d+(?:[./]\d+)*))+(?: [KV]\b(?<=\^T [KV]))?(?![\w`])"
)
FUNCTION = re.compile(r"\b(sqrt|exp)\(((?:[^()]|\([^()]*\))*)\)")
PRODUCT = re.compile(r"<([^<>=]{1,20}, [^<>=]{1,20})>")


def mathematics(text: str) -> str:
    """The text with powers, indices, products and Greek letters as formulas; other marks of Markdown are literal."""
    kept: list[str] = []

    def keep(part: str) -> str:
        # A formula inside of a formula has no dollar signs of its own.
        kept.append(re.sub("\x00(\\d+)\x00", lambda match: kept[int(match[1])].strip("$"), part))
        return f"\x00{len(kept) - 1}\x00"

    text = re.sub(r"`[^`]+`", lambda match: keep(match[0]), text)
    text = PRODUCT.sub(lambda match: keep(rf"$\langle {_latex(match[1])} \rangle$"), text)
    text = FUNCTION.sub(lambda match: keep(f"${_function(match[1], match[2])}$"), text)
    text = FORMULA.sub(lambda match: keep(f"${_latex(match[0])}$"), text)
    text = re.sub("\\bsum (?=\x00)", lambda _: keep(r"$\sum$") + " ", text)
    text = re.sub(rf"\b({GREEK})\b", lambda match: keep(f"$\\{match[0]}$"), text)
    text = re.sub(r"(?<![<>=])(>=|<=|\+-)(?![<>=])", lambda match: SIGNS[match[0]], text)
    text = re.sub(r"([\\*_<>\[\]|$#])", r"\\\1", text)
    return re.sub("\x00(\\d+)\x00", lambda match: kept[int(match[1])], text)


def _function(name: str, argument: str) -> str:
    return rf"\sqrt{{{_latex(argument)}}}" if name == "sqrt" else rf"\exp({_latex(argument)})"


def _latex(formula: str) -> str:
    formula = re.sub(rf"(?<![A-Za-z])(d?)({GREEK})(?![A-Za-z])", r"\1\\\2 ", formula)
    formula = re.sub(rf"(?<![A-Za-z_])({OPERATORS})(?![A-Za-z])", r"\\\1 ", formula)
    formula = re.sub(r"sqrt\(([^()]*)\)", r"\\sqrt{\1}", formula)
    formula = re.sub(r"\^\(([^()]*)\)", r"^{\1}", formula)
    formula = re.sub(r"([_^])(\w{2,}|-[\w./]+)", r"\1{\2}", formula)
    formula = re.sub(r"(?<=\w)\*", "^*", formula)
    return formula.replace("^T", "^{\\top}")
