"""What trained transformers do to their tokens, held against the idealised flow.

model = attnflow.models.load("minilm")
table = attnflow.trained.head_table(model)                   # one row a head: spectra, prediction, simulation
run = attnflow.trained.head_flow(model, layer=3, heads=[1])  # the idealised flow with trained weights
found = attnflow.trained.prompt_report(model, "a sentence")  # cosines, clusters and their words, ranks, energy
steps = attnflow.trained.ladder(model, "a sentence")         # from attention alone to the true block, part by part
"""

from attnflow.trained.controls import controlled
from attnflow.trained.coupling import block_coupling
from attnflow.trained.displacement import displacements, frames
from attnflow.trained.flows import by_number_of_heads, flow_summary, head_flow
from attnflow.trained.head_kinds import flows_by_kind, kind_rows
from attnflow.trained.head_spectra import eigenvalues_of_heads, head_rows, head_table, strongest
from attnflow.trained.reports import further_story, prompt_report, story
from attnflow.trained.rungs import ladder, ladder_rows

__all__ = [
    "block_coupling",
    "by_number_of_heads",
    "controlled",
    "displacements",
    "eigenvalues_of_heads",
    "flow_summary",
    "flows_by_kind",
    "frames",
    "further_story",
    "head_flow",
    "head_rows",
    "head_table",
    "kind_rows",
    "ladder",
    "ladder_rows",
    "prompt_report",
    "story",
    "strongest",
]
