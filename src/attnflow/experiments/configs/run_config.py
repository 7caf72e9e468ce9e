"""`RunConfig`: a run as the values of a file of settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray as xr

from attnflow._common.progress import Progress


@dataclass(frozen=True)
class RunConfig:
    """A run in words, numbers and arrays, as a file of settings has it.

    Examples
    --------
    >>> config = RunConfig({"scenario": "polytope", "n": 12, "end": 5.0})
    >>> run = config.change(seed=4).run()
    >>> run.sizes["token"], float(run.final_time)
    (12, 5.0)
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    """Values by the names of the file; what is left out has the value of the scenario, or of `scenarios.Settings`."""
    source: str = ""
    """Path of the file, for messages; empty where there is none."""

    def change(self, **changes: Any) -> "RunConfig":
        """The same run with some values replaced; None removes a value."""
        kept = {name: value for name, value in self.values.items() if name not in changes}
        return replace(self, values=kept | {name: value for name, value in changes.items() if value is not None})

    def override(self, **changes: Any) -> "RunConfig":
        """The same run with some values replaced; `end`, `saves` or `spacing` replace those of a list of times.

        Examples
        --------
        >>> import numpy as np
        >>> RunConfig({"times": np.array([0.0, 0.1, 1.0, 10.0])}).override(end=5.0).values
        {'end': 5.0, 'saves': 4}
        """
        from attnflow.experiments.configs.model_parts import numbers_of

        times = numbers_of(self.values, "times")
        if times is None or "times" in changes or not {"end", "saves", "spacing"} & changes.keys():
            return self.change(**changes)
        as_words = {"end": float(np.ravel(times)[-1]), "saves": int(np.size(times))}
        return self.change(**{"times": None} | as_words | changes)

    def run(self, progress: Progress = None) -> xr.Dataset:
        """The dataset of the run, computed by `simulate`, `coalesce` or `stream`."""
        from attnflow.experiments.configs.prepared_run import prepare

        return prepare(self).run(progress)
