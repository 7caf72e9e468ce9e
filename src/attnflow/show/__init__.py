"""Pictures of runs. Matplotlib is loaded here and nowhere else."""

from attnflow.show.atlas import atlas
from attnflow.show.attention import attention
from attnflow.show.conjecture1 import conjecture1
from attnflow.show.merge_tree import merge_tree
from attnflow.show.plateau_lengths import plateau_lengths
from attnflow.show.robustness import robustness
from attnflow.show.staircase import staircase, staircases
from attnflow.show.summary import summary
from attnflow.show.through_clusters import through_clusters
from attnflow.show.trajectories import trajectories

__all__ = [
    "atlas",
    "attention",
    "conjecture1",
    "merge_tree",
    "plateau_lengths",
    "robustness",
    "staircase",
    "staircases",
    "summary",
    "through_clusters",
    "trajectories",
]
