"""The command `attnflow convert`: weights of a torch pickle as safetensors, without running anything in it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnflow.cli.console import AsJson, Overwrite, print_facts, print_json_or
from attnflow.cli.trained_options import PANEL


def convert(
    file: Annotated[Path, typer.Argument(help="Weights that torch.save wrote, such as DIR/pytorch_model.bin.")],
    out: Annotated[Path, typer.Argument(help="The new file, such as DIR/model.safetensors.")],
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write the tensors of a torch pickle as safetensors; nothing that the pickle names is run."""
    from attnflow.models.conversion import convert as write

    facts = {"file": str(file), "out": str(out), "tensors": write(file, out, overwrite=overwrite)}
    print_json_or(as_json, facts, lambda: print_facts("Converted", facts))


def register(app: Any) -> None:
    """Add the command of this file."""
    example = "attnflow convert DIR/pytorch_model.bin DIR/model.safetensors"
    app.command(epilog=f"Example: {example}", rich_help_panel=PANEL)(convert)
