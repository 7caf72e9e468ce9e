"""The Python code that repeats a run of the explorer, its changes on the way included."""

from dataclasses import fields
from typing import Any

from attnflow._common.plain import evenly_spaced
from attnflow.experiments.scenarios import Settings
from attnflow.explorer import catalogue
from attnflow.explorer.export.story import Story
from attnflow.explorer.live_run import settings_of
from attnflow.explorer.prompt_scenarios import HeadsSettings, LayersSettings
from attnflow.explorer.stepper import grid_of, solver_of

FRAMES = 101  # kept of an adaptive run
MOST_TIMES = 60  # written out where a solver has fixed steps

HEAD = '''"""{sentence} (arXiv:{paper}), as the explorer of attnflow showed it."""

from dataclasses import replace

import numpy as np

import attnflow as af
{scenarios}

settings = replace(scenarios.get({name!r}).settings{changes})
setup = scenarios.build(settings)
'''
PLAIN, TRAINED = "from attnflow import scenarios", "from attnflow.explorer import catalogue as scenarios"
FIRST = """times = {times}
run = af.simulate(setup.flow, setup.tokens, times, solver=setup.solver, rng=setup.rng)
"""
NEXT = """
# Changed at t = {time!r}.
settings = replace(settings{changes})
setup = scenarios.build(settings)
times = {times}
run = af.simulate(setup.flow, {tokens}, times, solver=setup.solver, rng=setup.rng)
"""
PASSAGE = '''"""{sentence} (arXiv:{paper}), as the explorer of attnflow showed it."""

import attnflow as af
from attnflow.trained import measures

model = af.models.load("minilm")
run = model.trajectory({prompt!r}, attention=True)
shown = measures.directions(run)  # the dots: tokens divided by their lengths

print(run.outcome)
print(measures.of_tokens(run).to_dataframe())
'''
COALESCING = "run = af.coalesce(setup.flow, setup.tokens)\n"
TAIL = """
print(run.outcome)
print("clusters:", int(af.clusters.count(run)[-1]))
"""


def code_of(story: Story) -> str:
    """A program that ends with the tokens of the last recorded frame in `run`."""
    run = story.run
    standard = run.scenario.settings
    settings = settings_of(standard, run.asked)
    if isinstance(settings, LayersSettings):
        return PASSAGE.format(sentence=run.scenario.sentence.rstrip("."), paper=run.scenario.paper,
                              prompt=settings.prompt)  # fmt: skip
    head = HEAD.format(sentence=run.scenario.sentence.rstrip("."), paper=run.scenario.paper, name=run.scenario.name,
                       scenarios=TRAINED if isinstance(standard, HeadsSettings) else PLAIN,
                       changes=_arguments(standard, settings))  # fmt: skip
    if run.is_coalescing:
        return head + COALESCING + TAIL
    ends = [*(time for time, _ in story.later), story.moments[-1].time]
    parts = [head]
    if ends[0] > 0:
        parts.append(FIRST.format(times=_times(story, settings, 0.0, ends[0])))
    for (time, changes), end in zip(story.later, ends[1:], strict=True):
        before, settings = settings, settings_of(settings, changes)
        tokens = _tokens(story) if time > 0 else "setup.tokens"
        if end > time:
            parts.append(NEXT.format(time=time, changes=_arguments(before, settings), tokens=tokens,
                                     times=_times(story, settings, time, end)))  # fmt: skip
    return "".join([*parts, TAIL])


def _tokens(story: Story) -> str:
    """Where the run before ended; tokens with lengths are directions times lengths."""
    has_lengths = story.moments[0].radii is not None
    return "run.final_tokens * run.final_radius" if has_lengths else "run.final_tokens"


def _arguments(before: Settings, after: Settings) -> str:
    """What differs, as further arguments of `replace`."""
    names = [entry.name for entry in fields(before)]
    changed = {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}
    return "".join(f", {name}={value!r}" for name, value in changed.items())


def _times(story: Story, settings: Settings, start: float, end: float) -> str:
    if grid_of(solver_of(catalogue.build(settings))) is not None:  # only whole steps
        times: Any = [moment.time for moment in story.moments if start <= moment.time <= end]
        chosen = evenly_spaced(len(times), MOST_TIMES)
        return f"np.array({[times[index] for index in chosen]})"
    if settings.spacing == "log" and start == 0:
        return f"np.append(0.0, np.geomspace({end!r} / 1e4, {end!r}, {FRAMES - 1}))"
    return f"np.linspace({start!r}, {end!r}, {FRAMES})"
