"""Players of runs: pages of `show.html` that other pages show in a frame."""

from pathlib import Path

import numpy as np
from sphinx.application import Sphinx

import attnflow as af

RUNS = {
    "start": ("Forty tokens on the sphere, β = 9", "sphere", {"n": 40, "beta": 9.0, "end": 20.0}),
}


def setup(app: Sphinx) -> dict:
    """Write the players before the sources are read."""
    app.connect("builder-inited", lambda app: write_players(Path(app.srcdir)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_players(source: Path) -> None:
    """Write the players that are missing into _build/extra/players."""
    folder = source / "_build" / "extra" / "players"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (title, scenario, changes) in RUNS.items():
        page = folder / f"{name}.html"
        if page.exists():
            continue
        setup = af.scenario(scenario, **changes)
        times = np.linspace(0, float(setup.times[-1]), 200)
        run = af.simulate(setup.flow, setup.tokens, times, solver=setup.solver, rng=setup.rng, progress=False)
        af.show.html(run, page, title=title)
