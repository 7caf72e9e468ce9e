"""Pictures of runs. Matplotlib is loaded here and nowhere else."""

from attnflow.show.attention import attention
from attnflow.show.summary import summary
from attnflow.show.trajectories import trajectories

__all__ = ["attention", "summary", "trajectories"]
