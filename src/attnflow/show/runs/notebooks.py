"""Results as the last line of a notebook cell: the picture above the table of xarray.

IPython asks its formatters how an object is shown. `register` adds one for datasets, which leaves all datasets that are
no results of attnflow as they are. It is called when attnflow is imported inside IPython, and loads no library.
"""

import logging
import sys
from typing import Any

MAX_TOKENS = 2000  # a picture of more takes longer than a second; `af.display` draws it

LOG = logging.getLogger("attnflow")


def register() -> None:
    """Show results in the running IPython shell with their picture; outside IPython nothing is done."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and shell.display_formatter is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        formatter.for_type_by_name("xarray.core.dataset", "Dataset", html_of)


def html_of(dataset: Any) -> str:
    """The table of xarray; of a result, its picture and outcome above it."""
    from attnflow.results.provenance import kind_of

    table = dataset._repr_html_()
    if kind_of(dataset) is None or dataset.sizes.get("token", 0) > MAX_TOKENS:
        return table
    from attnflow.show.runs.display import display

    try:
        return display(dataset).picture_html() + table
    except Exception as problem:  # a part of a result, such as one time of a run, may have no picture
        LOG.info("No picture of the dataset is shown: %s", problem)
        return table
