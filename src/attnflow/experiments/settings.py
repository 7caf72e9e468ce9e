"""Settings of a run in words and numbers, and `Scenario`, a named set of them."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """Model, first tokens, times and solver of a run, each as a word or a number.

    The fields are the options of `attnflow run`, with the same words: `attnflow run --help` says what each means.

    Examples
    --------
    >>> import attnflow as af
    >>> settings = af.scenarios.Settings(space="sphere", n=8, d=3)
    >>> settings.space, settings.n
    ('sphere', 8)
    """

    space: str = "sphere"
    n: int = 32
    d: int = 3
    beta: float = 1.0
    attention: str = "softmax"
    mask: str = "full"
    heads: int = 1
    query_key: str = "identity"
    value: str = "identity"
    redraw: float | None = None
    normalisation: str = "post"
    mlp: str | None = None
    kappa: float | None = None
    start: str = "sphere"
    end: float = 10.0
    saves: int = 101
    spacing: str = "linear"
    solver: str | None = None
    rtol: float = 1e-8
    atol: float = 1e-10
    runs: int | None = None
    seed: int = 0


@dataclass(frozen=True)
class Scenario:
    """A named set of settings, and sentences on the setting and on what theory says of it.

    Examples
    --------
    >>> import attnflow as af
    >>> scenario = af.scenarios.get("renyi")
    >>> scenario.name, scenario.paper, scenario.settings.beta
    ('renyi', '2411.04990', 64.0)
    """

    name: str
    """The name for `scenario` and `attnflow run`."""
    sentence: str
    """The setting, and what theory says of it."""
    paper: str
    """Number of the paper on arXiv."""
    settings: Settings = field(default_factory=Settings)
    coalesces: bool = False
    """Whether `coalesce` runs it, through all metastable states, and not `simulate`."""
    statement: str = ""
    """Id of the statement of `verify` that decides whether a run shows the sentence; empty where there is none."""
    study: str = ""
    """Name of a study that belongs to it: its findings are printed with the run and drawn in place of it."""
