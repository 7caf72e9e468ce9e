"""Public names of `attnflow.control`; each is loaded on first use."""

from attnflow.control.assignments import assign as assign
from attnflow.control.circle_caps import cap_mover as cap_mover
from attnflow.control.circle_caps import steer_circle as steer_circle
from attnflow.control.families import FlowFamily as FlowFamily
from attnflow.control.known_obstructions import Obstruction as Obstruction
from attnflow.control.known_obstructions import obstructions as obstructions
from attnflow.control.optimiser import optimise as optimise
from attnflow.control.pontryagin import PontryaginCheck as PontryaginCheck
from attnflow.control.prompt_matching import PromptMatching as PromptMatching
from attnflow.control.prompt_matching import match_prompts as match_prompts
from attnflow.control.sequences import SequenceInterpolation as SequenceInterpolation
from attnflow.control.sequences import interpolate_sequences as interpolate_sequences
from attnflow.control.speed_limits import SpeedLimit as SpeedLimit
from attnflow.control.speed_limits import speed_limit as speed_limit
from attnflow.control.steering import SearchReport as SearchReport
from attnflow.control.steering import Steering as Steering
from attnflow.control.steering import steer as steer
from attnflow.control.weight_schedules import Piece as Piece
from attnflow.control.weight_schedules import Schedule as Schedule
