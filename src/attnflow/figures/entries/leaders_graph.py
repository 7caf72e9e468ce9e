"""Leaders in the plane: arrows from every token to the tokens that it attends to."""

from dataclasses import replace

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress
from attnflow.analyse import attention_matrices, leaders
from attnflow.figures.entries.scenario_runs import times_until_end
from attnflow.integrate.evaluate import attention_over_time
from attnflow.integrate.simulate import simulate
from attnflow.model.flows import RescaledAttention
from attnflow.model.heads import Head
from attnflow.model.initial import box
from attnflow.show.parts.panels import panel_picture
from attnflow.show.parts.picture import Picture
from attnflow.show.parts.scene import scene_of, snapshots


def compute_leaders(progress: Progress, *, n: int, end: float, saves: int, seed: int) -> xr.Dataset:
    """Rescaled tokens of the plane under random positive definite V and Q^T K, with P at every time."""
    rng = np.random.default_rng(seed)
    value, query_key = (_random_positive(rng) for _ in range(2))
    flow = RescaledAttention(Head.bilinear(query_key, value))
    run = simulate(flow, box(n, 2, -1, 1, rng=rng), np.linspace(0, end, saves), rng=seed, progress=progress)
    return run.assign(attention=attention_over_time(run))


def draw_leaders(run: xr.Dataset) -> Picture:
    """Draw four times, with arrows to every token that gets attention."""
    scene = scene_of(run, arrows=run.attention.values > attention_matrices.DRAWN_WEIGHT)
    last_leader = np.unique(run.attention[-1].argmax("attended"), return_inverse=True)[1]
    scene = replace(scene, drawn=replace(scene.drawn, labels=last_leader))
    drawn = snapshots(scene, times_until_end(run, [0, 2, 5]))
    drawn = [
        replace(panel, title=f"t = {run.time.values[panel.index]:.3g}, {_leader_words(run, panel.index)}")
        for panel in drawn
    ]
    caption = (
        "An arrow goes to every token that gets more than 0.0001 of another's attention; rings mark such tokens. "
        "Colours: the leader of each token at the end."
    )
    rows = [row for row in (drawn[:2], drawn[2:]) if row]
    return panel_picture(rows, leader_title(run), caption, width=3.6, least=2.1)


def leader_title(run: xr.Dataset) -> str:
    """Title with the number of tokens that get attention at the first and at the last time."""
    first, last = (len(leaders.attended(run.attention.values[place])) for place in (0, -1))
    return f"Tokens that get attention: {first} of {run.sizes['token']} at t = 0, {last} at t = {float(run.time[-1]):g}"


def leader_numbers(run: xr.Dataset) -> dict[str, float | int | str]:
    """Number of leaders at the start and at the end, and the distance of P to Boolean."""
    counts = [len(leaders.attended(matrix)) for matrix in run.attention.values]
    return {
        "leaders at the start": counts[0],
        "leaders at the end": counts[-1],
        "distance of P to Boolean at the end": float(attention_matrices.distance_to_boolean(run.attention[-1])),
        "rank of P at the end": int(attention_matrices.rank(run.attention[-1])),
    }


def _leader_words(run: xr.Dataset, place: int) -> str:
    count = len(leaders.attended(run.attention.values[place]))
    return f"{count} leader{'' if count == 1 else 's'}"


def _random_positive(rng: np.random.Generator) -> np.ndarray:
    factor = rng.uniform(-1, 1, (2, 2))
    return factor @ factor.T
