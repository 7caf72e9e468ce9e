"""Named scenarios of the mean field: settings in words and numbers, and the arguments of `mean_field.evolve`.

Model and times are those of `Settings`; `start` is the word of a density, and settings about tokens have no effect.
`attnflow run` asks for the names of laws in every run, so that `mean_field` is imported where a law is made.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from attnflow._common.checks import InputError, require_known
from attnflow.experiments import scenarios, specs
from attnflow.experiments.settings import Scenario, Settings
from attnflow.experiments.vocabulary import Vocabulary, Word
from attnflow.model.dynamics import AbstractDynamics


def _wave(mode: int, amplitude: float, d: int, on_sphere: bool) -> Any:
    from attnflow.mean_field import densities

    _require_sphere("wave", d, on_sphere)
    return densities.uniform(mode, amplitude) if d == 2 else densities.zonal_wave(mode, amplitude)


def _von_mises(concentration: float, d: int, on_sphere: bool) -> Any:
    from attnflow.mean_field import densities

    _require_sphere("von-mises", d, on_sphere)
    return densities.von_mises(concentration) if d == 2 else densities.von_mises_fisher(concentration)


def _ripples(mode: int, amplitude: float, d: int, on_sphere: bool) -> Any:
    """A wave of one mode, and the first mode with half of its amplitude, turned by one radian."""
    _require_sphere("ripples", d, on_sphere)
    if d == 2:
        return lambda theta: 1 + amplitude * np.cos(mode * theta) + amplitude / 2 * np.cos(theta - 1)
    return lambda points: 1 + amplitude * points[..., 0] * points[..., 1] + amplitude / 2 * points @ (0.2, 0.5, 0.8)


def _box(low: float, high: float, d: int, on_sphere: bool) -> Any:
    from attnflow.mean_field import densities

    _require_space("box", on_sphere)
    return densities.box([low] * d, [high] * d)


def _gaussian(deviation: float, d: int, on_sphere: bool) -> Any:
    from attnflow.mean_field import densities

    _require_space("gaussian", on_sphere)
    return densities.normal(np.zeros(d), deviation**2 * np.eye(d))


def _require_sphere(word: str, d: int, on_sphere: bool) -> None:
    if not on_sphere or d not in (2, 3):
        raise InputError(f"`start` {word!r} is a density on the circle or S^2. In R^d use 'box' or 'gaussian'.")


def _require_space(word: str, on_sphere: bool) -> None:
    if on_sphere:
        raise InputError(f"`start` {word!r} is a density in R^d. On the sphere use 'wave', 'ripples' or 'von-mises'.")


LAW_STARTS = Vocabulary(
    {
        "wave": Word(_wave, "MODE,AMPLITUDE", (1, 0.1)),
        "ripples": Word(_ripples, "MODE,AMPLITUDE", (4, 0.02)),
        "von-mises": Word(_von_mises, "CONCENTRATION", (1.0,)),
        "box": Word(_box, "LOW,HIGH", (-1.0, 1.0)),
        "gaussian": Word(_gaussian, "DEVIATION", (1.0,)),
    }
)
"""First densities; each is made with `d` and whether the space is the sphere."""

LAWS = {
    scenario.name: scenario
    for scenario in (
        Scenario("meanfield", "The law of infinitely many tokens on the circle with noise: four clusters form.",
                 "2312.10794", Settings(d=2, beta=9.0, kappa=60.0, start="ripples:4,0.02", end=40.0, saves=121)),
        Scenario("meanfield-transition", "Noise on the circle, above beta_c, below kappa_1: a gathered law persists.",
                 "2606.05140", Settings(d=2, beta=4.0, attention="unnormalised", kappa=0.395, start="von-mises:4",
                                        end=60.0)),
        Scenario("meanfield-zonal", "A law on S^2 symmetric about an axis: a cap and a ring, then two caps.",
                 "2312.10794", Settings(d=3, beta=8.0, kappa=60.0, start="wave:3,0.3", end=22.0, saves=111)),
        Scenario("meanfield-sphere", "A law on S^2 without symmetry, with noise.",
                 "2312.10794", Settings(d=3, beta=4.0, kappa=30.0, start="ripples:4,0.5", end=6.0, saves=13,
                                        rtol=1e-6)),
        Scenario("meanfield-line", "V = -1 on the line. Theory: a Gaussian law stays so, with variance 1/(1 + 2t).",
                 "2501.18322", Settings(space="euclidean", d=1, value="minus-identity", start="gaussian:1", end=4.0,
                                        saves=41)),
        Scenario("meanfield-plane", "V = I in the plane, rescaled: the law gathers towards the corners of its square.",
                 "2305.05465", Settings(space="rescaled", d=2, start="box:-1,1", end=0.8, saves=9, rtol=1e-6)),
    )
}  # fmt: skip
"""Every scenario of the mean field by its name."""

USED = ("space", "d", "beta", "attention", "heads", "query_key", "value", "kappa", "start", "end", "saves", "spacing",
        "rtol", "seed")  # fmt: skip
"""Settings that act on a law."""


@dataclass(frozen=True)
class LawSetup:
    """The arguments of `mean_field.evolve`."""

    flow: AbstractDynamics
    start: Any
    times: np.ndarray
    rtol: float
    settings: Settings

    def __repr__(self) -> str:
        return f"LawSetup(flow={self.flow!r}, times={scenarios.times_in_words(self.times)}, rtol={self.rtol:g})"

    def arguments(self) -> dict[str, Any]:
        """The arguments by name."""
        return {"flow": self.flow, "start": self.start, "times": self.times, "rtol": self.rtol}


def law_scenario(name: str, **changes: Any) -> LawSetup:
    """The arguments of `mean_field.evolve` of a named scenario, with some of its settings changed.

    Parameters
    ----------
    name
        A name that `attnflow list` prints.
    changes
        Settings by name, such as ``n=50``: the fields of `scenarios.Settings`.

    Examples
    --------
    >>> import attnflow as af
    >>> setup = af.law_scenario("meanfield-line", end=1.0)
    >>> result = af.mean_field.evolve(**setup.arguments())
    >>> round(float(result.covariance[-1, 0, 0]), 5)  # 1 / (1 + 2 t)
    0.33333
    """
    require_known(name, LAWS, "scenario")
    given = {setting: value for setting, value in changes.items() if value is not None}
    for setting in given:
        require_known(setting, [entry.name for entry in fields(Settings)], "setting")
        if setting not in USED:
            raise InputError(f"`{setting}` would change nothing here: a law stands for infinitely many tokens, and "
                             "`rtol` is its tolerance. Leave it out.")  # fmt: skip
    return _setup(replace(LAWS[name].settings, **given))


def _setup(settings: Settings) -> LawSetup:
    """Flow, first density and times, checked."""
    from attnflow.mean_field.first_states import is_zonal
    from attnflow.mean_field.served_flows import domain_of

    built = scenarios.build(settings, tokens=np.zeros((1, settings.d)))
    on_sphere = settings.space == "sphere"
    start = specs.object_of(settings.start, "start", LAW_STARTS, d=settings.d, on_sphere=on_sphere)
    domain_of(built.flow, is_zonal(start))
    return LawSetup(built.flow, start, built.times, settings.rtol, settings)
