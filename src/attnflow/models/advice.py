"""What to do about a config and tensors that do not fit, by where they are: in files or in memory."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    """Words of error messages about the config and the tensors of one model."""

    config: str
    """The config, as in "the last layer by its config.json"."""
    incomplete: str
    """What to do where a tensor is missing."""
    mismatch: str
    """What to do where tensors and config are of different sizes."""
    layers: str
    """What to do where the last layer is missing."""
    quantised: str
    """What to do where tensors hold no floating-point numbers."""
    tied: str
    """What to do where the tensor `output` stands for that of the name `embedding`, too; both are filled in."""


OF_FILES = Advice(
    "its config.json",
    "Its files are incomplete, or of another model: fetch them again.",
    "The two files do not belong together: fetch both again.",
    "The number of layers there is wrong, or files are missing: fetch both again.",
    "Use a checkpoint that is not quantised.",
    "store the tensor under that name too, with safetensors.numpy: "
    "t = load_file(FILE); t[{embedding!r}] = t[{output!r}]; save_file(t, FILE)",
)
IN_MEMORY = Advice(
    "`config`",
    "Pass all arrays of that model, such as model.state_dict(), with its own config.",
    "Pass the config and the arrays of one model.",
    "The number of layers there is wrong, or arrays are missing: pass all arrays of the model.",
    "Pass arrays of floating-point numbers, of a model that is not quantised.",
    "pass the array under that name too: arrays[{embedding!r}] = arrays[{output!r}]",
)
