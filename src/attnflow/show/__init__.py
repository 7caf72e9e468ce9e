"""Pictures of runs. Matplotlib is loaded here and nowhere else."""

from attnflow.show.atlas import atlas
from attnflow.show.attention import attention
from attnflow.show.conjecture1 import conjecture1
from attnflow.show.robustness import robustness
from attnflow.show.staircase import staircase
from attnflow.show.summary import summary
from attnflow.show.trajectories import trajectories

__all__ = ["atlas", "attention", "conjecture1", "robustness", "staircase", "summary", "trajectories"]
