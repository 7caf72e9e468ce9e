"""Python code that repeats a watched run, with the changes made while it played. It uses public names only."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from attnflow._common.plain import evenly_spaced
from attnflow.experiments.scenarios import Settings
from attnflow.explorer import catalogue, pictures, trained_models
from attnflow.explorer.live_run import LiveRun
from attnflow.explorer.measure.control_measurements import ControlMeasurements
from attnflow.explorer.prompt_scenarios import HeadsSettings, LayersSettings, PromptSettings, plain_settings
from attnflow.explorer.recording import Frame
from attnflow.explorer.settings_changes import changed_settings
from attnflow.explorer.stepper import solver_for, step_length_of

SAVED_TIMES = 101  # of a run with adaptive steps
MAX_WRITTEN_TIMES = 60  # of a run with fixed steps, whose times are written out

TITLE = '"""{sentence} (arXiv:{paper}), as shown in the explorer of attnflow."""\n'
SCENARIO = """
from dataclasses import replace

import numpy as np

import attnflow as af
from attnflow import scenarios

build = scenarios.build
settings = replace(scenarios.get({name!r}).settings{changes})
setup = build(settings)
"""
HEADS = """
from dataclasses import replace

import numpy as np

import attnflow as af
from attnflow import scenarios
{imports}
model = af.models.load({origin})
layer, head, prompts = {layer}, {head}, {prompts}


def read(prompt):
    tokens = model.trajectory(prompt, layers=layer).tokens.values[-1] if layer else model.embed(prompt)
    tokens = np.asarray(tokens, float)
{norm}    return tokens


entering = [read(prompt) for prompt in prompts]
number = np.repeat(range(len(prompts)), [len(tokens) for tokens in entering])
entering = np.concatenate(entering)
lengths = np.linalg.norm(entering, axis=-1)
# On the unit sphere scores are smaller by the squared length, which is put into the heads.
scale = float(np.mean(lengths**2))


def build(settings):
    setup = scenarios.build(settings)
    chosen = model.heads(layer) if head is None else [model.heads(layer)[head]]
    heads = [af.Head(scale * np.asarray(h.query), h.key, h.value, h.output) for h in chosen]
    mask = setup.flow.mask
    if len(prompts) > 1:  # no token of one prompt attends to the other
        mask = mask & af.masks.boolean(number[:, None] == number)
    flow = af.SphereAttention(heads, attention=setup.flow.attention, mask=mask)
    return replace(setup, flow=flow, tokens=entering / lengths[:, None])


settings = scenarios.Settings({arguments})
setup = build(settings)
"""
# the norm before attention
CENTRE = "    tokens = tokens - tokens.mean(axis=1, keepdims=True)\n"
DIVIDE = "    tokens = tokens / np.sqrt((tokens**2).mean(axis=1, keepdims=True) + {epsilon!r})\n"
PLACED = """placed = np.array([  # tokens placed by hand
{rows}])
setup = replace(setup, tokens=placed)
"""
FIRST = """times = {times}
run = af.simulate(setup.flow, setup.tokens, times, solver=setup.solver, rng=setup.rng)
"""
NEXT = """
# Changed at t = {time!r}.
{head}settings = replace(settings{changes})
setup = build(settings)
times = {times}
run = af.simulate(setup.flow, {tokens}, times, solver=setup.solver, rng=setup.rng)
"""
COALESCING = "run = af.coalesce(setup.flow, setup.tokens)\n"
SUMMARY = """
print(run.outcome)
print("clusters:", int(af.clusters.count(run)[-1]))
"""
LAYERS = """
import numpy as np

import attnflow as af
{imports}
model = af.models.load({origin})
for prompt in {prompts}:
    run = model.trajectory(prompt, attention=True)
    tokens = run.tokens.astype(float)
    directions = tokens / np.sqrt((tokens**2).sum("coordinate"))  # the dots on the page

    print(run.outcome)
    print("mean cosine:", af.order.mean_cosine(directions).values.round(3))
    print("clusters:", af.clusters.count(directions, 0.5, geodesic=True).values)
"""


STEERED = """
import numpy as np

import attnflow as af

tokens = np.array({tokens})
targets = np.array({targets})
found = af.control.{function}(tokens, targets{rest})
run = found.run

print(found)
"""


def python_code(run: LiveRun, frames: Sequence[Frame], later: Sequence[tuple[float, dict[str, Any]]]) -> str:
    """A program whose variable `run` ends with the tokens of the last of `frames`."""
    title = TITLE.format(sentence=run.sentences[0].rstrip("."), paper=run.scenario.paper)
    settings = changed_settings(run.scenario.settings, run.first_changes)
    if isinstance(settings, LayersSettings):
        return title + LAYERS.format(origin=_origin(settings), **_prompts(settings))
    if isinstance(run.measurements, ControlMeasurements):
        found = run.measurements.found
        function = "steer" if settings.d == 3 else "steer_circle"
        return title + STEERED.format(
            function=function, tokens=found.tokens.tolist(), targets=found.targets.tolist(),
            rest=", rng=0" if settings.d == 3 else "",
        )  # fmt: skip
    parts = [title, _model(run, settings), *_placed_tokens(run)]
    if run.is_coalescing:
        return "".join([*parts, COALESCING, SUMMARY])
    ends = [*(time for time, _ in later), frames[-1].time]
    if ends[0] > 0:
        parts.append(FIRST.format(times=_times(frames, settings, 0.0, ends[0])))
    for (time, changes), end in zip(later, ends[1:], strict=True):
        before, settings = settings, changed_settings(settings, changes)
        if end > time:
            first = "setup.tokens" if run.placed is None else "placed"
            tokens = _final_tokens(frames) if time > 0 else first
            times = _times(frames, settings, time, end)
            made = {"changes": _changes(before, settings), "head": _head_line(before, settings)}
            parts.append(NEXT.format(time=time, tokens=tokens, times=times, **made))
    return "".join([*parts, SUMMARY])


def _model(run: LiveRun, settings: Settings) -> str:
    """The code that builds the first model."""
    if not isinstance(settings, HeadsSettings):
        return SCENARIO.format(name=run.scenario.name, changes=_changes(run.scenario.settings, settings))
    arguments = _changes(Settings(), plain_settings(settings)).removeprefix(", ")
    model = {"origin": _origin(settings), "layer": settings.layer, "head": settings.head}
    return HEADS.format(**model, norm=_norm(settings), **_prompts(settings), arguments=arguments)


def _norm(settings: HeadsSettings) -> str:
    """The lines that normalise tokens as `trained.head_flows.tokens_read` does; gains are part of the heads."""
    model = trained_models.get(settings.model)
    config = model.config
    if config.norm_place != "pre":
        return DIVIDE.format(epsilon=0.0) if config.query_norm else ""
    if model.block(settings.layer).attention_norm is None:
        return ""
    return (CENTRE if config.norm == "layer" else "") + DIVIDE.format(epsilon=config.norm_epsilon)


def _origin(settings: PromptSettings) -> str:
    """The arguments of `models.load`."""
    return trained_models.get(settings.model).load_arguments


def _prompts(settings: PromptSettings) -> dict[str, str]:
    """The code of the list of prompts, and the import that it needs."""
    model = trained_models.get(settings.model)
    if trained_models.takes_images(model):
        code = pictures.code(settings.prompt)
        is_drawn = code.startswith("pictures.")
        return {"prompts": f"[{code}]", "imports": "from attnflow.explorer import pictures\n" if is_drawn else ""}
    return {"prompts": repr([trained_models.parsed(model, prompt) for prompt in settings.prompts]), "imports": ""}


def _head_line(before: Settings, after: Settings) -> str:
    """The line that chooses another head; empty if it stays."""
    if not (isinstance(before, HeadsSettings) and isinstance(after, HeadsSettings)) or before.head == after.head:
        return ""
    return f"head = {after.head}\n"


def _placed_tokens(run: LiveRun) -> list[str]:
    """The code that sets first tokens placed by hand, if they were."""
    if run.placed is None:
        return []
    tokens = catalogue.build_from(changed_settings(run.scenario.settings, run.first_changes), run.placed).tokens
    return [PLACED.format(rows="".join(f"    {row},\n" for row in tokens.tolist()))]


def _final_tokens(frames: Sequence[Frame]) -> str:
    """The last tokens of the run before; tokens with lengths are directions times lengths."""
    has_lengths = frames[0].radii is not None
    return "run.final_tokens * run.final_radius" if has_lengths else "run.final_tokens"


def _changes(before: Settings, after: Settings) -> str:
    """The settings that differ, as further keyword arguments."""
    names = [entry.name for entry in fields(Settings)]
    changed = {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}
    return "".join(f", {name}={value!r}" for name, value in changed.items())


def _times(frames: Sequence[Frame], settings: Settings, start: float, end: float) -> str:
    if step_length_of(solver_for(catalogue.build(settings))) is not None:  # multiples of the step only
        times = [frame.time for frame in frames if start <= frame.time <= end]
        return f"np.array({[times[index] for index in evenly_spaced(len(times), MAX_WRITTEN_TIMES)]})"
    if settings.spacing == "log" and start == 0:
        return f"np.append(0.0, np.geomspace({end!r} / 1e4, {end!r}, {SAVED_TIMES - 1}))"
    return f"np.linspace({start!r}, {end!r}, {SAVED_TIMES})"
