"""Checkpoints that cannot be read, and why: adapters, other formats, quantised weights, missing tensors and types."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attnflow._common.checks import InputError
from attnflow.models.advice import OF_FILES, Advice
from attnflow.models.config_entries import Entries
from attnflow.models.source import Directory, Hub

ADAPTER = "adapter_config.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "model.ckpt")
VARIANTS = ("model.fp16.safetensors", "model.bf16.safetensors", "model.fp32.safetensors")
# Formats of other libraries, each with its usual file.
FORMATS = {
    "model.onnx": "ONNX",
    "onnx/model.onnx": "ONNX",
    "tf_model.h5": "TensorFlow",
    "flax_model.msgpack": "Flax",
}
QUANTISED = ("quantize_config.json", "quant_config.json")  # written by early versions of AutoGPTQ and AutoAWQ


def no_config(source: Directory | Hub) -> InputError:
    """The error of a folder without config.json."""
    if source.find("0_Transformer/config.json"):
        passed = "Download that folder and pass it" if isinstance(source, Hub) else f"Pass {source}/0_Transformer"
        return InputError(
            f"{source} is a folder of sentence-transformers, whose model is in a folder of its own, 0_Transformer. "
            f"{passed}."
        )
    if source.find(ADAPTER):
        return _adapter(source)
    if isinstance(source, Directory) and (found := sorted(source.path.glob("*/config.json"))):
        return InputError(
            f"{source} holds no config.json, but {len(found)} of its folders do. Pass one of them, such as "
            f"{found[0].parent}, or all of them to models.load_checkpoints."
        )
    return InputError(f"{source} holds no config.json, so it is not a model in the Hugging Face layout.")


def no_weights(source: Directory | Hub) -> InputError:
    """The error of a folder with config.json and without weights that can be read."""
    if source.find(ADAPTER):
        return _adapter(source)
    variant = next((file for file in VARIANTS if source.find(file)), None)
    if variant:
        return InputError(
            f"{source} holds its weights as {variant}, and only model.safetensors is looked for. "
            f"Copy {variant} to model.safetensors in a directory with config.json, and pass that directory."
        )
    pickled = next((file for file in PICKLES if source.find(file)), None)
    if pickled:
        return InputError(
            f"{source} holds its weights as a pickle ({pickled}), which is refused: reading one can run "
            "any program hidden in it. Convert it, which reads its tensors and runs nothing: "
            f"attnflow convert {source}/{pickled} {source}/model.safetensors"
        )
    other = next((file for file in FORMATS if source.find(file)), None)
    if other:
        return InputError(
            f"{source} holds its weights only in the format of {FORMATS[other]} ({other}), which is not read. "
            "Pass the checkpoint that it was made from, with model.safetensors."
        )
    return InputError(
        f"{source} holds no weights: there is neither model.safetensors nor model.safetensors.index.json."
    )


def missing_tensor(where: str, name: str, stored: Sequence[str], advice: Advice = OF_FILES) -> InputError:
    """The error of a tensor that the config requires and the model lacks."""
    if any(one.endswith(".qweight") for one in stored):
        return InputError(
            f"{where} holds quantised weights (tensors named qweight, as GPTQ and AWQ write them), which are not "
            f"supported. {advice.quantised}"
        )
    output = next((one for one in stored if one.endswith("lm_head.weight")), None)
    if output and name.endswith(("embed_tokens.weight", "wte.weight")):
        first = next((found for one in stored if (found := re.match(r"(.*?)(layers|h)\.\d+\.", one))), None)
        embedding = (first.group(1) if first else "") + name
        return InputError(
            f"{where} holds {output} and not the embedding {embedding}. If the model ties the two "
            f"(`tie_word_embeddings`), {advice.tied.format(embedding=embedding, output=output)}"
        )
    return InputError(f"{where} lacks the tensor {name}, which {advice.config} requires. {advice.incomplete}")


def require_plain_weights(source: Directory | Hub, raw: Mapping[str, Any]) -> None:
    """Raise if config.json, or a file beside it, says that the weights are quantised."""
    entry = raw.get("quantization_config")
    file = None if isinstance(source, Hub) else next((name for name in QUANTISED if source.find(name)), None)
    if not entry and file is None:
        return
    method = entry.get("quant_method") if isinstance(entry, dict) else None
    said = f"`quantization_config` in config.json: {method or 'method not named'}" if entry else f"it holds {file}"
    raise InputError(
        f"The weights of {source} are quantised ({said}), which is not supported. "
        "Use a checkpoint that is not quantised."
    )


def require_known_type(entries: Entries, known: Collection[str]) -> None:
    """Raise if the config names no type of model, or one that is not known."""
    model_type = entries.raw.get("model_type")
    if model_type is None:
        raise InputError(
            f"{entries.where} has no `model_type`, as in early files. If you know the architecture, "
            f'add it, such as "model_type": "bert". Known: {", ".join(sorted(known))}.'
        )
    if not isinstance(model_type, str) or model_type not in known:
        raise InputError(
            f"{entries.where} says the model is of type {model_type!r} (architectures "
            f"{entries.raw.get('architectures')}), which is not supported. Known: {', '.join(sorted(known))}."
        )


def _adapter(source: Directory | Hub) -> InputError:
    """The error of a folder with an adapter (LoRA) in place of a model."""
    path, base = source.find(ADAPTER), None
    with suppress(OSError, ValueError, AttributeError, RecursionError):  # the sentence does without the name
        base = path and json.loads(path.read_text(encoding="utf-8")).get("base_model_name_or_path")
    return InputError(
        f"{source} holds an adapter such as LoRA ({ADAPTER}), which changes the weights of another model"
        f"{f', {base}' if base else ''}, and no model. Merge the two with peft (merge_and_unload), "
        "save the result with save_pretrained(NEW), and pass NEW."
    )
