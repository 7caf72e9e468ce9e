"""Families of checkpoints, one module each (see `models.family` for the functions that a module defines)."""

from typing import Any

from attnflow.models.families import (
    albert,
    bert,
    clip,
    distilbert,
    gemma,
    gpt2,
    gpt_j,
    gpt_neo,
    gpt_neox,
    hooked_transformer,
    llama,
    modernbert,
    mpnet,
    olmo,
    opt,
    phi,
    phi3,
    qwen,
    t5,
    vit,
)

MODULES = (
    albert, bert, clip, distilbert, gemma, gpt2, gpt_j, gpt_neo, gpt_neox, hooked_transformer, llama, modernbert,
    mpnet, olmo, opt, phi, phi3, qwen, t5, vit,
)  # fmt: skip
FAMILIES: dict[str, Any] = {model_type: module for module in MODULES for model_type in module.MODEL_TYPES}
"""Modules that follow the protocol `Family`, by the `model_type` of config.json."""
