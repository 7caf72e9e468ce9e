r"""The mathematics of all pictures: symbols, names of axes and times as mathtext, and sentences set with them.

Sentences of other packages are plain text with words such as beta and Q^T K. `typeset` sets them as mathematics.
"""

import re
import textwrap

BETA = r"$\beta$"
PLUS_MINUS_XI = r"$\pm\xi$"
QUERY_KEY = r"$Q^\mathrm{T}K$"
TIME_AXIS = "time $t$"

# Greek letters that sentences name; the words are used in no other sense there.
_LETTERS = ("beta", "xi", "lambda", "theta", "kappa", "phi", "alpha", "sigma", "epsilon", "eta")
_POWER = re.compile(
    rf"(?<![\w$\\])(?P<base>{'|'.join(_LETTERS)}|[A-Za-z])(?=[_^])(?:_(?P<index>[A-Za-z0-9])(?![A-Za-z0-9]))?"
    r"(?:\^(?P<power>\{[^}]*\}|\([^)]*\)|[-−]?\d+(?:[./]\d+)?|[-−]?[A-Za-z]+))?(?<![_^])"
    r"(?: (?P<factor>[KVx]\b))?"
)
_LETTER = re.compile(rf"(?<![\w$\\^{{])(?:{'|'.join(_LETTERS)})(?![\w^])")
# Every single letter is a symbol, but for a, I and s (seconds), and x between numbers. I is one after a sign or factor.
_SYMBOL = re.compile(
    r"(?<![\w$\\.^'’])(?:[b-hj-rt-wyzB-HJ-Z]|x(?! \d)|[aAis](?= = )|(?<=[=+−-] )[-−]?I|(?<=[\dkc] )I)"
    r"(?:'(?!\w))?(?!\w|\.\w|[\^_'’])"
)
_FACTOR = re.compile(r"(?<=\d)[it](?!\w)")  # of 2t, or the imaginary unit
_DERIVATIVE = re.compile(r"(?<!\w)d/dt(?!\w)")
_GREEK = {"β": "beta", "ξ": "xi", "λ": "lambda", "θ": "theta", "κ": "kappa", "φ": "phi", "α": "alpha", "σ": "sigma"}
_INDEXED = re.compile(rf"(?<![\w$\\])([A-Za-z{''.join(_GREEK)}])([₀-₉ₖ])(?!\w)")
_GREEK_LETTER = re.compile(f"[{''.join(_GREEK)}]")
_BASE = re.compile(r"(?<![\w$\\])([A-Za-z])\$\^")  # a letter before the formula of its power
_TERM = rf"\d|[A-Z](?!\w)|{'|'.join(_LETTERS)}"
_MINUS = re.compile(
    r"(?<![\w.)^])-(?=\d)|(?<=\d)-(?=[\d.]+i(?!\w))"  # of a number, of an imaginary part
    rf"|(?:(?<=[\d)n] )|(?<= [A-Z] ))-(?= (?:{_TERM}))"  # of a difference
)
_FORMULA = re.compile(r"(?<!\\)\$[^$]*(?<!\\)\$")


def typeset(sentence: str) -> str:
    r"""Set the letters, powers, indices and transposes of a plain sentence as mathematics.

    Formulas between dollar signs stay as they are.

    Examples
    --------
    >>> typeset("beta = 4, V = I in R^2, falling like t^-2.00, Q^T K of W_O")
    '$\\beta$ = 4, $V$ = $I$ in $\\mathbb{R}^{2}$, falling like $t^{-2.00}$, $Q^\\mathrm{T}K$ of $W_{O}$'
    >>> typeset("Q^T K = 2 I, where I is the identity")
    '$Q^\\mathrm{T}K$ = 2 $I$, where I is the identity'
    >>> typeset("from $e^{2}$ to beta^-1/2 in snake_case")
    'from $e^{2}$ to $\\beta^{-1/2}$ in snake_case'
    >>> typeset("A rate e$^{-t}$ in 2 s: |z| of x' = P - I, 3 x 3 numbers")
    "A rate $e^{-t}$ in 2 s: |$z$| of $x'$ = $P$ − $I$, 3 x 3 numbers"
    >>> typeset("κ₁ = β / I₁(β)")
    '$\\kappa_{1}$ = $\\beta$ / $I_{1}$($\\beta$)'
    """
    sentence = _INDEXED.sub(_with_index, _BASE.sub(r"$\1^", sentence))
    rules = (
        (_MINUS, lambda found: "\N{MINUS SIGN}"),
        (_POWER, _power),
        (_LETTER, lambda found: f"$\\{found[0]}$"),
        (_GREEK_LETTER, lambda found: f"$\\{_GREEK[found[0]]}$"),
        (_DERIVATIVE, lambda found: r"$\mathrm{d}/\mathrm{d}t$"),
        (_FACTOR, lambda found: f"${found[0]}$"),
        (_SYMBOL, lambda found: f"${found[0]}$".replace("\N{MINUS SIGN}", "-")),
    )
    for pattern, set_as in rules:
        sentence = _outside_formulas(pattern, set_as, sentence)
    return sentence


def literal(text: str) -> str:
    """Text of a user, such as the words of a prompt, in which a dollar sign begins no formula."""
    return text.replace("$", r"\$")


def emphasised(text: str) -> str:
    r"""A text for bold type, with bold formulas.

    Examples
    --------
    >>> emphasised(r"$Q^\mathrm{T}K$ = I")
    '$\\mathbfit{Q^\\mathbf{T}K}$ = I'
    >>> emphasised("$Z'$ = Z")
    "$\\mathbfit{Z}'$ = Z"
    """

    def bold(found: re.Match[str]) -> str:
        formula = found[0][1:-1]
        name = formula.rstrip("'")
        primes = "'" * (len(formula) - len(name))  # the bold fonts have none
        return rf"$\mathbfit{{{name}}}{primes}$".replace(r"\mathrm", r"\mathbf")

    return _FORMULA.sub(bold, text)


def wrapped(text: str, letters: float) -> str:
    r"""A text in lines of at most `letters` letters; a formula is never broken and counts as what is seen of it.

    Examples
    --------
    >>> wrapped(r"the rate $e^{-2 t}$ of tokens", 16)
    'the rate $e^{-2 t}$\nof tokens'
    """
    formulas: list[str] = []

    def placeholder(found: re.Match[str]) -> str:
        formulas.append(found[0])
        return "\0" + "\1" * max(letters_seen(found[0]) - 1, 0)

    hidden = _FORMULA.sub(placeholder, text).replace(" = ", "\2=\2")  # equations are not broken either
    lines = [textwrap.fill(line, max(int(letters), 8), break_long_words=False) for line in hidden.splitlines()]
    remaining = iter(formulas)
    return re.sub("\0\1*", lambda _: next(remaining), "\n".join(lines)).replace("\2", " ")


def letters_seen(text: str) -> int:
    r"""The number of letters of a text with formulas that are seen; a symbol such as beta is one.

    Examples
    --------
    >>> letters_seen(r"$\beta$ = 500"), letters_seen(r"$\mathrm{d}_t$ of_2"), letters_seen("$e^{-2 t}$")
    (7, 7, 5)
    """

    def seen(formula: re.Match[str]) -> str:
        unformatted = re.sub(r"\\math[a-z]+|[{}^_$]", "", formula[0])
        return re.sub(r"\\[A-Za-z]+", "x", unformatted)

    return len(_FORMULA.sub(seen, text))


def at_time(time: float) -> str:
    """The words for a time, to three digits."""
    return f"$t$ = {float(f'{time:.3g}'):g}".replace("-", "\N{MINUS SIGN}")


def coordinate(letter: str, number: int | None) -> str:
    """A coordinate of a token: its letter with an index, or without one on the line.

    Examples
    --------
    >>> coordinate("z", 2), coordinate("x", None)
    ('$z_{2}$', '$x$')
    """
    return f"${letter}$" if number is None else f"${letter}_{{{number}}}$"


def power_of_e(exponent: float) -> str:
    """A number, given its logarithm, as a power of e.

    Examples
    --------
    >>> [power_of_e(value) for value in (-2.0, 0.0, 0.5, 500.0)]
    ['$e^{-2}$', '1', '$e^{0.5}$', '$e^{500}$']
    """
    return "1" if exponent == 0 else f"$e^{{{exponent:.4g}}}$"


def _with_index(found: re.Match[str]) -> str:
    """A letter with an index as `_POWER` reads it; few fonts of formulas have small digits."""
    return f"{_GREEK.get(found[1], found[1])}_{'k' if found[2] == 'ₖ' else ord(found[2]) - ord('₀')}"


def _power(found: re.Match[str]) -> str:
    base, power = found["base"], (found["power"] or "").strip("{}()").replace("\N{MINUS SIGN}", "-")
    if not (found["index"] or power):
        return found[0]
    letter = r"\mathbb{R}" if base == "R" else f"\\{base}" if base in _LETTERS else base
    index = f"_{{{found['index']}}}" if found["index"] else ""
    exponent = r"^\mathrm{T}" if power == "T" else f"^{{{power}}}" if power else ""
    return f"${letter}{index}{exponent}{found['factor'] or ''}$"


def _outside_formulas(pattern: re.Pattern[str], replacement, text: str) -> str:
    """Replace matches of a pattern in the parts of a text that are no formulas."""
    parts, last = [], 0
    for formula in _FORMULA.finditer(text):
        parts += [pattern.sub(replacement, text[last : formula.start()]), formula[0]]
        last = formula.end()
    return "".join([*parts, pattern.sub(replacement, text[last:])])
