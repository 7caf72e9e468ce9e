"""The command `attnflow convert`: tensors of a torch pickle as safetensors, and its refusals."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file
from tests.helpers.torch_files import HOSTILE, PLAIN, index_of, saved, zip_format
from typer.testing import CliRunner

from attnflow._common.checks import InputError
from attnflow.cli.app import app


def run(*arguments):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


def test_tensors_are_written(tmp_path):
    source, target = tmp_path / "model.bin", tmp_path / "model.safetensors"
    source.write_bytes(saved({"a": PLAIN}, zip_format))

    found = json.loads(run("convert", source, target, "--json").output)

    assert found["tensors"] == 1
    np.testing.assert_array_equal(load_file(target)["a"], PLAIN)
    with pytest.raises(InputError, match="exists already"):
        run("convert", source, target)
    assert run("convert", source, target, "--overwrite").exit_code == 0


def test_a_hostile_file_is_refused(tmp_path):
    (tmp_path / "model.bin").write_bytes(zip_format(index_of({"w": HOSTILE["runs a command"][0]}), {"0": PLAIN}))
    with pytest.raises(InputError, match=r"names posix.system.*which is not read"):
        run("convert", tmp_path / "model.bin", tmp_path / "out.safetensors")
