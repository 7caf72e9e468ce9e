"""Pictures of runs. Matplotlib is loaded here and nowhere else."""

from attnflow.show.atlas import atlas
from attnflow.show.attention import attention
from attnflow.show.centres import centres
from attnflow.show.conjecture1 import conjecture1
from attnflow.show.coupling import coupling
from attnflow.show.displacements import displacements
from attnflow.show.frames import frames
from attnflow.show.head_counts import head_counts
from attnflow.show.head_kinds import head_kinds
from attnflow.show.head_spectra import head_spectra
from attnflow.show.html import html
from attnflow.show.ladder import ladder
from attnflow.show.merge_tree import merge_tree
from attnflow.show.movie import movie
from attnflow.show.plateau_lengths import plateau_lengths
from attnflow.show.prompt import prompt
from attnflow.show.robustness import robustness
from attnflow.show.staircase import staircase, staircases
from attnflow.show.summary import summary
from attnflow.show.through_clusters import through_clusters
from attnflow.show.trajectories import trajectories
from attnflow.show.widget import widget

__all__ = [
    "atlas",
    "attention",
    "centres",
    "conjecture1",
    "coupling",
    "displacements",
    "frames",
    "head_counts",
    "head_kinds",
    "head_spectra",
    "html",
    "ladder",
    "merge_tree",
    "movie",
    "plateau_lengths",
    "prompt",
    "robustness",
    "staircase",
    "staircases",
    "summary",
    "through_clusters",
    "trajectories",
    "widget",
]
