"""Result files: `save`, `load`, and the digest by which damage is recognised."""

import datetime
import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.checks import InputError
from attnflow._common.files import RESULTS, require_free, require_suffix, written_beside
from attnflow._common.memory import require_memory
from attnflow.results.contents import require_contents
from attnflow.results.descriptions import described, with_copies_of_flow, without_copies
from attnflow.results.former_names import with_present_names
from attnflow.results.provenance import require_complete

SWEEP_FOLDER = ".sweep"  # in a store of `attnflow.sweeps`, which holds many runs
WHOLE = "attributes and "  # begins the digests that cover attributes too; those of version 0.1.0 do not


def save(run: xr.Dataset, path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """Write a dataset as Zarr, or as netCDF if the name ends in ``.nc``, and return the path.

    The file is written under a temporary name and renamed when it is complete. It has a long name and a unit on every
    variable, the date among its attributes, and `flow_beta`, `flow_query_key` and `flow_value` for programs that do
    not read the record of the flow; `load` leaves these three out, since `flow_of` gives the flow.

    Parameters
    ----------
    run
        A dataset.
    path
        A Zarr directory, or a netCDF file if the name ends in ``.nc``.
    overwrite
        Replace a result that exists.

    Examples
    --------
    >>> import attnflow as af
    >>> import tempfile
    >>> run = af.simulate(af.SphereAttention(af.Head.identity(2)), [[1.0, 0.0]], [0.0, 1.0], progress=False)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     af.save(run, f"{folder}/run.nc").name
    'run.nc'
    """
    path = require_free_result(path, overwrite=overwrite)
    require_complete(run, "`run`")
    try:
        whole = with_copies_of_flow(described(run)).assign_attrs({"date": _now()} | run.attrs)
        stamped = whole.assign_attrs(digest=_digest(whole))
        with written_beside(path) as beside:
            if path.suffix.lower() == ".nc":
                stamped.to_netcdf(beside, engine="scipy")
            else:
                _write_zarr(stamped, beside)
            _require_attributes_kept(whole, path, beside)
    except InputError:
        raise
    except Exception as error:  # formats raise errors of many types for what they cannot hold
        raise InputError(f"{path} cannot hold this dataset: {error}") from error
    return path


def _now() -> str:
    """The date and time in UTC, such as 2026-03-01T12:30:00+00:00."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _write_zarr(run: xr.Dataset, path: Path) -> None:
    """Write Zarr with one summary of all metadata, which `xarray.open_zarr` looks for first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the summary is not yet in the specification of Zarr 3
        run.to_zarr(path, mode="w", consolidated=True)


def dataset_of(source: Any) -> Any:
    """The dataset of a result file, given its path; any other object is returned as it is."""
    return load(source) if isinstance(source, str | os.PathLike) else source


def load(path: str | os.PathLike) -> xr.Dataset:
    """The dataset of a file written by `save`, read into memory.

    Parameters
    ----------
    path
        A Zarr directory or a netCDF file.

    Examples
    --------
    >>> import attnflow as af
    >>> import tempfile
    >>> from pathlib import Path
    >>> flow = af.SphereAttention(af.Head.identity(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = af.save(af.simulate(flow, [[1.0, 0.0]], [0.0, 1.0], progress=False), Path(folder) / "run.nc")
    ...     run = af.load(path)
    >>> run.final_time.item()
    1.0
    """
    path = Path(path)
    if not os.path.exists(path):  # unlike the method of Path, false for names that the system refuses
        raise InputError(f"There is no result file at {path}.")
    if (path / SWEEP_FOLDER).is_dir():
        raise InputError(
            f"{path} is the store of a sweep, not one run: `attnflow show` draws it, `af.load_sweep` reads it, and "
            "`attnflow rerun --cell` repeats one of its runs."
        )
    if path.is_file() and path.suffix.lower() != ".nc":
        raise InputError(f"{path} is no result file: results are directories, usually .zarr, or files that end in .nc.")
    try:
        with _opened(path) as opened:
            require_memory(opened.nbytes, str(path))
            run = opened.load()
        require_complete(run, str(path))
        # A missing part of a Zarr directory reads as fill values, which only the digest reveals.
        digest = str(run.attrs.pop("digest", ""))
        is_whole = digest == (_digest(run) if digest.startswith(WHOLE) else _digest_of_0_1_0(run))
        run = without_copies(with_present_names(run))
    except InputError:
        raise
    except Exception as error:  # a damaged file can raise anything
        raise InputError(
            f"{path} cannot be read as a result file: it is damaged, or of another program ({type(error).__name__}). "
            "Compute it again with `attnflow run`."
        ) from error
    if not is_whole:
        raise InputError(
            f"{path} is damaged: its numbers or attributes are not those that were written. "
            "Compute it again with `attnflow run`."
        )
    require_contents(run, str(path))
    return run


def _opened(path: Path) -> xr.Dataset:
    if path.is_file():
        return xr.open_dataset(path, engine="scipy")
    _read_headers(path)
    return xr.open_zarr(path, consolidated=False, chunks=None)


def _read_headers(path: Path) -> None:
    """Read the header of each array of a Zarr directory, and raise what the first damaged one raises.

    `open_zarr` reads all headers at once. If one is damaged, it leaves the other readers behind, and each of them that
    fails prints a traceback later.
    """
    import zarr  # takes most of a second

    for folder in sorted(part for part in path.iterdir() if part.is_dir()):
        zarr.open_array(folder, mode="r")


def _digest(run: xr.Dataset) -> str:
    """A hash of all variables, dimensions and attributes, independent of the number types of a file format."""
    digest = hashlib.sha256(_digest_of_0_1_0(run).encode())
    dimensions = {str(name): values.dims for name, values in run.variables.items()}
    digest.update(json.dumps([sorted(dimensions.items()), _plain_attributes(run)]).encode())
    return f"{WHOLE}{digest.hexdigest()}"


def _digest_of_0_1_0(run: xr.Dataset) -> str:
    """A hash of all variables, as version 0.1.0 wrote it."""
    digest = hashlib.sha256()
    for name in sorted(map(str, run.variables)):
        values = run[name].values
        is_text = values.dtype.kind in "OSUT"
        content = json.dumps(values.tolist()).encode() if is_text else np.ascontiguousarray(values, "<f8").tobytes()
        digest.update(f"{name} {values.shape}".encode() + content)
    return digest.hexdigest()


def _plain_attributes(run: xr.Dataset) -> list[tuple[str, list[str]]]:
    """The attributes as text, equal for values that file formats do not distinguish: 1, 1.0, [1] and True."""
    found = {str(name): np.ravel(np.asarray(value)).tolist() for name, value in run.attrs.items() if name != "digest"}
    return [(name, [_plain(entry) for entry in found[name]]) for name in sorted(found)]


def _plain(value: Any) -> str:
    return repr(float(value)) if isinstance(value, int | float) else str(value)


def _require_attributes_kept(run: xr.Dataset, path: Path, beside: Path) -> None:
    """Raise InputError if the file format has changed an attribute, as it may change lists and dictionaries."""
    with _opened(beside) as written:
        is_kept = _plain_attributes(written) == _plain_attributes(run)
    if not is_kept:
        raise InputError(
            f"{path} cannot hold all attributes of the dataset as they are. Replace those that are neither numbers "
            "nor text by text: run.attrs[name] = str(value)."
        )


def require_free_result(path: str | os.PathLike, *, overwrite: bool = False) -> Path:
    """The path, if a result can be written to it; only results are overwritten, no other files or directories."""
    require_suffix(path, "A result", RESULTS)
    path = require_free(path, overwrite=overwrite, may_be_directory=True)
    is_netcdf = path.suffix.lower() == ".nc"
    is_foreign = path.is_file() != is_netcdf or (path.is_dir() and not (path / "zarr.json").is_file())
    if path.exists() and is_foreign:
        raise InputError(f"{path} is not a result, and will not be overwritten. Choose another name.")
    return path
