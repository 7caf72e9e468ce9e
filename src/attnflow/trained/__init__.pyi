"""Public names of `attnflow.trained`; each is loaded on first use."""

from attnflow.trained.controls import controlled as controlled
from attnflow.trained.coupling import block_coupling as block_coupling
from attnflow.trained.displacement import displacements as displacements
from attnflow.trained.displacement import frames as frames
from attnflow.trained.head_controls import control_rows as control_rows
from attnflow.trained.head_controls import controls_sentences as controls_sentences
from attnflow.trained.head_flows import flow_summary as flow_summary
from attnflow.trained.head_flows import head_flow as head_flow
from attnflow.trained.head_kinds import flows_by_kind as flows_by_kind
from attnflow.trained.head_kinds import kind_rows as kind_rows
from attnflow.trained.head_subsets import by_number_of_heads as by_number_of_heads
from attnflow.trained.head_subsets import count_rows as count_rows
from attnflow.trained.head_tables import eigenvalues_of_heads as eigenvalues_of_heads
from attnflow.trained.head_tables import head_rows as head_rows
from attnflow.trained.head_tables import head_table as head_table
from attnflow.trained.head_tables import strongest as strongest
from attnflow.trained.ladders import ladder as ladder
from attnflow.trained.ladders import ladder_rows as ladder_rows
from attnflow.trained.prompt_reports import extra_summary as extra_summary
from attnflow.trained.prompt_reports import further_story as further_story
from attnflow.trained.prompt_reports import prompt_report as prompt_report
from attnflow.trained.prompt_reports import prompt_summary as prompt_summary
from attnflow.trained.prompt_reports import story as story
