"""What to watch in each scenario, and the titles of its papers."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from attnflow.experiments.scenarios import Scenario
from attnflow.explorer.prompt_scenarios import HEADS, LAYERS, HeadsSettings, LayersSettings, PromptSettings

PAPERS = {
    "2110.11773": "Sinkformers: transformers with doubly stochastic attention",
    "2305.05465": "The emergence of clusters in self-attention dynamics",
    "2312.10794": "A mathematical perspective on transformers",
    "2407.01602": "Clustering in pure-attention hardmax transformers",
    "2410.06833": "Dynamic metastability in the self-attention model",
    "2411.04551": "Measure-to-measure interpolation using transformers",
    "2411.04990": "Clustering in causal attention masking",
    "2510.22026": "Normalization in attention dynamics",
    "2512.01868": "The mean-field dynamics of transformers",
}

WHAT_TO_WATCH = {
    "boolean": "Each dot is a token on the line. Watch the attention matrix turn into one or two black columns.",
    "polytope": "Tokens are divided by their growth e^t. The hull shrinks to a polygon, and dots stop at its corners.",
    "polytope-3d": "Drag to turn the picture. The hull shrinks to a polyhedron, and dots stop at its corners.",
    "hyperplanes": "Along the eigenvector that grows fastest only two or three values remain: the dots line up.",
    "hyperplanes-3d": "Turn the picture until you look along the planes: the dots have only two or three heights left.",
    "codim2": "Two directions grow and one does not. Tokens agree in the two that grow and differ in the third.",
    "mixed": "Seen along x_3, the picture is the polygon of V = I. Tokens spread along x_3, which has its own scale.",
    "minus-identity": "The tokens shrink towards zero: to become ten times smaller takes a hundred times longer.",
    "multihead": "Four random heads act at once; with V = I the tokens still gather.",
    "sphere": "Every token moves towards similar tokens. Small clusters form first and merge later.",
    "sphere-usa": "Without the division in softmax, dense groups attract more strongly, and the energy can only rise.",
    "kuramoto": "Every token sees all tokens equally, and all synchronise like coupled oscillators.",
    "causal": "Token 1 sees only itself and does not move; the other tokens come to it one after the other.",
    "renyi": "Ringed tokens started far from all earlier ones. Each holds the tokens around it for a very long time.",
    "staircase": "Time is logarithmic. Long rests are followed by merges of two tokens, at which the energy rises.",
    "metastable": "Earlier positions are drawn inside the circle. Where lines join, clusters merged after a long wait.",
    "conjecture1": "The first token goes to an end of the line of the leading eigenvector; the second stops elsewhere.",
    "hardmax": "Each token moves straight to the token it scores highest; tokens that score themselves highest lead.",
    "noisy": "Attention pulls tokens together, noise drives them apart. Lower kappa (more noise): clusters dissolve.",
    "layernorm-post": "Only directions are kept. This is the fastest of the schemes here.",
    "layernorm-pre": "Dots show directions. Lengths grow with depth, so that every further layer has less effect.",
    "layernorm-mix": "Watch the speed change at t = 3, when the scheme switches.",
    "layernorm-peri": "Both the input and the output of attention are normalised; directions meet slowly and steadily.",
    "layernorm-ngpt": "No token turns faster than a fixed speed, however much attention it receives.",
    "layernorm-sqrt": "Each layer has less effect than the one before: tokens meet more slowly than exponentially.",
    "sinkhorn": "Every token gives and receives the same total attention: no token can attract the attention of all.",
    "mlp": "A ReLU between attention and token breaks the symmetry. Compare with the scenario polytope.",
    "layers": "The same model as in the scenario sphere, in the discrete steps of a network with that many layers.",
    "redrawn": "New random weights are drawn at every unit of time. No theorem says where the tokens go.",
    "steer-sphere": "Drag a hollow dot: the control to the new targets is found at once. The bar has its pieces.",
    "minilm-heads": "Tokens that attend to each other come together first; one unit of time is about one layer.",
    "minilm-layers": "Dots show directions and stop at the state after each layer; "
    "the motion between two layers is interpolated for display.",
}


# settings that change the start or the accuracy, not the model; the page shows one run
NUMERICAL_SETTINGS = ("seed", "saves", "rtol", "atol", "runs")


def sentences_of(
    scenario: Scenario,
    settings: Any = None,
    later: Sequence[tuple[float, dict[str, Any]]] = (),
    is_placed: bool = False,
) -> list[str]:
    """The sentences about a scenario; of a run with other settings only the values that differ from its own.

    `settings` are those at the start, and `later` are changes made while the run played, with their times. The sentence
    of a scenario and the one about what to watch describe its own settings, and claim nothing of others. `is_placed`:
    whether the first tokens were placed by hand.
    """
    changed = {} if settings is None else _changed(scenario.settings, settings)
    parts = ["from tokens placed by hand"] if is_placed else []
    parts += [f"with {values_in_words(changed)}"] if changed else []
    parts += [f"from t = {time:.4g} on with {values_in_words(values)}" for time, values in later]
    if parts:
        return [f"The scenario {scenario.name} {', '.join(parts)}."]
    watched = WHAT_TO_WATCH.get(_watched_as(scenario))
    return [scenario.sentence] if watched is None else [scenario.sentence, watched]


def _watched_as(scenario: Scenario) -> str:
    """The scenario with the same sentence about what to watch: that of MiniLM for every trained model."""
    match scenario.settings:
        case LayersSettings():
            return LAYERS.name
        case HeadsSettings():
            return HEADS.name
        case _:
            return scenario.name


def values_in_words(settings: dict[str, Any]) -> str:
    """Settings and their values in words."""
    return ", ".join(f"{name} = {_value(name, value)}" for name, value in settings.items())


def _value(name: str, value: Any) -> str:
    if name in ("prompt", "second"):
        return json.dumps(value, ensure_ascii=False)
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _changed(own: Any, settings: Any) -> dict[str, Any]:
    """The settings of the model, the start and the times that differ from a scenario's own."""
    before, now = dataclasses.asdict(own), dataclasses.asdict(settings)
    follows = (*NUMERICAL_SETTINGS, "n") if isinstance(own, PromptSettings) else NUMERICAL_SETTINGS  # n is counted
    return {name: value for name, value in now.items() if name not in follows and before.get(name) != value}
