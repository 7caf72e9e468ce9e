"""Public names of `attnflow.show`; each is loaded on first use."""

from attnflow.explorer.export.html import html as html
from attnflow.explorer.export.widget import widget as widget
from attnflow.show.merging.merge_tree import merge_tree as merge_tree
from attnflow.show.merging.plateau_lengths import plateau_lengths as plateau_lengths
from attnflow.show.merging.staircase import staircase as staircase
from attnflow.show.merging.staircase import staircases as staircases
from attnflow.show.merging.through_clusters import through_clusters as through_clusters
from attnflow.show.runs.attention import attention as attention
from attnflow.show.runs.movie import movie as movie
from attnflow.show.runs.summary import summary as summary
from attnflow.show.runs.trajectories import trajectories as trajectories
from attnflow.show.sweeps.sweep import sweep as sweep
from attnflow.show.theory.atlas import atlas as atlas
from attnflow.show.theory.centres import centres as centres
from attnflow.show.theory.conjecture1 import conjecture1 as conjecture1
from attnflow.show.theory.density import branches as branches
from attnflow.show.theory.density import density as density
from attnflow.show.theory.robustness import robustness as robustness
from attnflow.show.trained.coupling import coupling as coupling
from attnflow.show.trained.displacements import displacements as displacements
from attnflow.show.trained.frames import frames as frames
from attnflow.show.trained.head_counts import head_counts as head_counts
from attnflow.show.trained.head_kinds import head_kinds as head_kinds
from attnflow.show.trained.head_spectra import head_spectra as head_spectra
from attnflow.show.trained.ladder import ladder as ladder
from attnflow.show.trained.prompt import prompt as prompt
