"""Scenarios as programs in Python, which their pages show."""

from attnflow.experiments.control_scenarios import CONTROLS
from attnflow.experiments.law_scenarios import LAWS
from attnflow.experiments.settings import Scenario


def code(scenario: Scenario) -> str:
    """A program that runs the scenario with its settings and draws a picture."""
    name, picture = f'"{scenario.name}"', f'"{scenario.name}.png"'
    if scenario.name in LAWS:
        setup = f"af.law_scenario({name})"
        run, drawn = "af.mean_field.evolve(**setup.arguments())", f"af.show.density(run, {picture})"
    elif scenario.name in CONTROLS:
        setup, run, drawn = f"af.control_scenario({name})", "setup.find().run", f"af.show.steering(run, {picture})"
    elif scenario.coalesces:
        setup, run = f"af.scenario({name})", "af.coalesce(setup.flow, setup.tokens)"
        drawn = f"af.show.staircase(run, {picture})"
    else:
        setup = f"af.scenario({name})"
        run = "af.simulate(setup.flow, setup.tokens, setup.times, solver=setup.solver, rng=setup.rng)"
        drawn = f"af.show.trajectories(run, {picture})"
    return f"import attnflow as af\n\nsetup = {setup}\nrun = {run}\n{drawn}"
