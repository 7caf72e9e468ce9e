"""Models from names, directories and files, and from arrays in memory."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attnflow._common.checks import require_known
from attnflow._common.precision import DTYPES
from attnflow.models import advice, handover, torch_pickle, unembedding
from attnflow.models.checkpoint import Checkpoint
from attnflow.models.config import read_entries
from attnflow.models.config_entries import Entries
from attnflow.models.families import FAMILIES, clip
from attnflow.models.gguf_file import GgufFile
from attnflow.models.images import ImageReader
from attnflow.models.refusals import require_known_type, require_plain_weights
from attnflow.models.registry import PACKAGED
from attnflow.models.source import Directory, File, Hub, Memory, Package, Source, locate
from attnflow.models.tensor_files import ArraysInMemory, OfPrefix, TensorFiles, open_tensors
from attnflow.models.tokenizer import Tokenizer, of_vocabulary
from attnflow.models.transformer import Model
from attnflow.results.provenance import IN_MEMORY


def load(
    name: str | os.PathLike, dtype: str | None = None, *, tower: str | None = None, revision: str | None = None
) -> Model:
    """A trained transformer from a directory, a GGUF file, a package, or the Hugging Face hub.

    Opening reads the config and the headers; weights are read on first use.

    Parameters
    ----------
    name
        A directory with config.json and safetensors files (or model.npz), a .gguf file, a hub name such as
        "albert/albert-base-v2", or a model that comes as a Python package: "minilm", "smollm2", "rxnmapper", "rxnfp",
        "rxnfp-ft", "rxnfp-ft-10k" or "antiberty" (a package that is missing is named, with the line that installs it).
    dtype
        "float32" or "float64"; None means the checkpoint's own precision, at least float32.
    tower
        "text" or "vision", for a CLIP, which has both.
    revision
        A branch, a tag or a commit of a repository of the hub, such as "step1000" of a Pythia. See `load_checkpoints`
        for several.

    Examples
    --------
    >>> import attnflow as af
    >>> model = af.models.load(folder)  # a directory with config.json and model.safetensors
    >>> model.family
    'bert'
    """
    source = locate(name, revision)
    is_named = str(name) in PACKAGED
    origin = str(name) if isinstance(source, Hub) or is_named else str(source.path.resolve())
    entries, files, tokenizer = _opened(source)
    chosen = clip.tower(entries, tower)
    files = files if chosen is entries else OfPrefix(files, f"{tower}_model.")
    chosen_by = {"dtype": dtype, "tower": tower, "revision": revision}
    origins = {"origin": origin} | {key: value for key, value in chosen_by.items() if value is not None}
    own_name = os.path.basename(origin) + ("" if revision is None else f"@{revision}")
    own_name += "" if tower is None else f" ({tower})"
    return _model(own_name, origins, chosen, files, source, dtype, tokenizer)


def _opened(source: Directory | File | Hub) -> tuple[Entries, TensorFiles, Callable[[], Any] | None]:
    """The config and the tensors of a source, and the function that makes its tokenizer if no file holds it."""
    if isinstance(source, File):
        file = GgufFile(source.path)
        return Entries(file.entries(), f"the metadata of {source}"), file, file.tokenizer
    entries = read_entries(source)
    require_plain_weights(source, entries.raw)
    if isinstance(source, Package) and source.packaged.has_pickle:
        packaged, arrays = source.packaged, torch_pickle.tensors(source.path / "pytorch_model.bin")
        return (
            entries,
            ArraysInMemory(arrays),
            partial(of_vocabulary, source.path / packaged.vocabulary, packaged.pattern),
        )
    return entries, open_tensors(source), None


def from_arrays(
    config: Any,
    arrays: Mapping[str, Any],
    dtype: str | None = None,
    *,
    tokenizer: str | os.PathLike | None = None,
    tower: str | None = None,
) -> Model:
    """A model whose weights are in memory: a torch state dictionary, that of TransformerLens, or parameters of Flax.

    Parameters
    ----------
    config
        The entries of config.json as a dictionary, or an object with `to_dict` (a config of transformers or of
        TransformerLens).
    arrays
        Names and arrays, as `model.state_dict()` gives them; nested dictionaries for Flax. Arrays are those of NumPy,
        torch or JAX, and are not copied where they need not be.
    dtype
        As in `load`.
    tokenizer
        The path of a tokenizer.json; without one, prompts are ids.
    tower
        "text" or "vision", for a CLIP, which has both.

    Examples
    --------
    >>> import attnflow as af
    >>> import json, pathlib, safetensors.numpy
    >>> config = json.loads(pathlib.Path(folder, "config.json").read_text())
    >>> arrays = safetensors.numpy.load_file(pathlib.Path(folder, "model.safetensors"))
    >>> af.models.from_arrays(config, arrays).family
    'bert'
    """
    entries = Entries(handover.entries(config), "`config`")
    named = handover.saved_names(handover.arrays(arrays), entries.raw.get("model_type"))
    files = ArraysInMemory(named)
    chosen = clip.tower(entries, tower)
    named_files = files if chosen is entries else OfPrefix(files, f"{tower}_model.")
    name = IN_MEMORY if tower is None else f"{IN_MEMORY} ({tower})"
    return _model(name, {"origin": IN_MEMORY}, chosen, named_files, Memory(tokenizer), dtype)


def _model(
    name: str,
    origin: dict[str, str],
    entries: Entries,
    files: TensorFiles,
    source: Source,
    dtype: str | None,
    tokenizer: Callable[[], Any] | None = None,
) -> Model:
    """The model of a config and its tensors, after a check that the two belong together."""
    if dtype is not None:
        require_known(dtype, DTYPES, "dtype")
    words = advice.IN_MEMORY if isinstance(source, Memory) else advice.OF_FILES
    require_known_type(entries, FAMILIES)
    family = FAMILIES[entries.raw["model_type"]]
    config = family.read_config(entries)
    tensors = Checkpoint(files, str(source), family.ANCHOR, dtype, words)
    embedding = config.anchor_shape or (config.vocabulary, config.embedding_width)
    last, further = (family.stem(config, layer) for layer in (config.layers - 1, config.layers))
    tensors.require_sizes(family.ANCHOR, embedding, last, further)
    reader = ImageReader(source, config) if config.patch else Tokenizer(source, config.vocabulary, tokenizer)
    return Model(name, origin, config, family, tensors, reader, unembedding.plan(files.names(), config))
