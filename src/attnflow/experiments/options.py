"""Options of a run: the kind of value and the meaning of each, for the command line and for files of settings."""

from dataclasses import dataclass

from attnflow.experiments.vocabulary import SETTINGS


@dataclass(frozen=True)
class Option:
    """One option: its kind, one of the kinds in `configs.kinds`, and its meaning in words."""

    kind: str
    meaning: str

    def help(self, name: str) -> str:
        """The meaning, with the words that the option takes, as a sentence."""
        if name == "query_key":
            return f"{self.meaning}, in the words of --value."
        return f"{self.meaning}: {SETTINGS[name].usage()}." if name in SETTINGS else f"{self.meaning}."


MODEL = {
    "space": Option("word", "Space and equation"),
    "d": Option("whole", "Dimension"),
    "beta": Option("number", "Inverse temperature; may be negative"),
    "attention": Option("word", "Attention rule"),
    "mask": Option("mask", "Mask"),
    "normalisation": Option("word", "Normalisation on the sphere"),
    "heads": Option("whole", "Number of heads"),
    "query_key": Option("matrix", "Q^T K"),
    "value": Option("matrix", "V"),
    "redraw": Option("number", "Period after which the weights are drawn again"),
    "mlp": Option("word", "Activation of a feed-forward layer: relu, tanh, gelu, identity"),
    "kappa": Option("number", "Noise sqrt(2 / kappa) dW"),
}
TOKENS = {
    "start": Option("tokens", "First tokens"),
    "n": Option("whole", "Number of tokens"),
    "runs": Option("whole", "Number of runs, each from its own first tokens"),
    "seed": Option("whole", "Seed of weights, first tokens and noise"),
}
TIMES = {
    "end": Option("number", "Last time"),
    "saves": Option("whole", "Number of times that are kept"),
    "spacing": Option("word", "Spacing of the times that are kept: linear or log"),
}
SOLVER = {
    "solver": Option("word", "Solver"),
    "rtol": Option("number", "Relative tolerance of adaptive solvers"),
    "atol": Option("number", "Absolute tolerance of adaptive solvers"),
}
SCENARIO_OPTIONS = MODEL | TOKENS | TIMES | SOLVER
"""Options of every command that takes a scenario: the fields of `Settings`."""

LIMITS = {
    "clustered": Option("number", "Stop when all tokens are within this distance of each other"),
    "settled": Option("number", "Stop when the speed of every token is below this"),
    "diverged": Option("number", "Stop when a token is farther from the origin than this"),
    "budget": Option("number", "Seconds after which to stop"),
}
COALESCING = {
    "merge": Option("number", "For staircase and metastable: tokens within this distance merge"),
    "perturb": Option("number", "For staircase and metastable: move the first tokens at random by this much"),
}
COMPUTING = {
    "float32": Option("switch", "Compute in single precision"),
    "memory": Option("number", "Bytes that the computation may use; default 1e9, 1 GB"),
}
STREAMING = {"tolerance": Option("number", "Error allowed in each polynomial piece of the path of a token")}

ORIGIN = {
    "scenario": Option("word", "Scenario whose settings apply where none are given"),
    "method": Option("word", "Computation: simulate, coalesce or stream"),
}
FURTHER_MODEL = {
    "mlp_weight": Option("matrix", "Weight W of the feed-forward layer W sigma(y + b); the identity if left out"),
    "mlp_bias": Option("vector", "Bias b of the feed-forward layer"),
    "perceptron": Option("tables", "Drift W sigma(U x + b) of every token, one table"),
    "common_noise": Option("switch", "One Brownian motion for all tokens"),
    "masses": Option("vector", "Mass of each token"),
    "frozen": Option("flags", "Whether each token is held where it starts"),
    "rescaling": Option("matrix", "V of z = exp(-tV) x; the sum of the heads' V if left out"),
    "head": Option("tables", "One table for each head, in place of heads, query_key, value and redraw"),
    "no_attention": Option("switch", "No heads at all: tokens move by the perceptron alone"),
}
FURTHER_TIMES = {
    "times": Option("vector", "Times that are kept, in place of end, saves and spacing"),
    "log_end": Option("number", "Logarithm of the last time of coalesce, in place of end"),
}
FURTHER_SOLVER = {
    "max_steps": Option("whole", "Largest number of steps"),
    "min_step": Option("number", "Length below which a step is accepted whatever its error"),
    "shortcuts": Option("switch", "Use the accelerations of coalesce"),
    "noise_seed": Option("seed", "Seed of the noise, in place of the one that follows from seed"),
    "stop": Option("tables", "Conditions that end a run, in place of clustered, settled and diverged"),
    "observables": Option("words", "Quantities saved at every time, by name"),
    "keep_tokens": Option("switch", "Keep the tokens at every time"),
}
FILE_OPTIONS = {
    "Origin": ORIGIN,
    "Model": MODEL | FURTHER_MODEL,
    "Tokens": TOKENS,
    "Times": TIMES | FURTHER_TIMES,
    "Computation": SOLVER | LIMITS | COALESCING | STREAMING | COMPUTING | FURTHER_SOLVER,
}
"""Options of a file of settings, under the headings of the file."""

ALL_OPTIONS = {name: option for options in FILE_OPTIONS.values() for name, option in options.items()}

_WEIGHTS = {
    "query": Option("matrix", "Q, k x d"),
    "key": Option("matrix", "K, k x d"),
    "query_key": Option("matrix", "Q^T K, in place of query and key"),
    "value": Option("matrix", "V, d x d, or m x d beside an output"),
    "output": Option("matrix", "Second factor of the value map, d x m"),
}
_PERCEPTRON = {
    "outer": Option("matrix", "W, d x p"),
    "inner": Option("matrix", "U, p x d"),
    "bias": Option("vector", "b, p numbers; zero if left out"),
    "activation": Option("word", "Activation sigma: relu, tanh, gelu, identity or hat; relu if left out"),
}
TABLE_OPTIONS = {
    "head": _WEIGHTS
    | {
        "redraw": Option("number", "Period after which the weights are drawn again"),
        "seed": Option("whole", "Seed of the weights that are drawn again"),
        "switches": Option("vector", "Times at which the next piece begins to act"),
        "piece": Option("tables", "Weights between two switches, one table for each piece"),
    },
    "head.piece": _WEIGHTS,
    "perceptron": _PERCEPTRON
    | {
        "switches": Option("vector", "Times at which the next piece begins to act"),
        "piece": Option("tables", "Weights between two switches, one table for each piece"),
    },
    "perceptron.piece": _PERCEPTRON,
    "stop": {
        "clustered": Option("number", "All tokens within this distance of the centres"),
        "count": Option("whole", "Number of centres"),
        "settled": Option("number", "No token is faster"),
        "diverged": Option("number", "A token is farther from the origin"),
    },
}
"""Options of the tables in a file of settings."""
