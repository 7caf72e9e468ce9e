"""Results as the last line of a notebook cell: the picture above the table of xarray.

IPython asks its formatters how an object is shown. `html_of` becomes the one of datasets when attnflow is imported
inside IPython; all datasets that are no results of attnflow are shown as before.
"""

import logging

import xarray as xr

from attnflow.results.provenance import kind_of
from attnflow.show.runs.display import display

MAX_TOKENS = 2000  # a picture of more takes longer than a second; `af.display` draws it

LOG = logging.getLogger("attnflow")


def html_of(dataset: xr.Dataset) -> str:
    """The table of xarray; of a result, its picture and outcome above it."""
    table = dataset._repr_html_()
    if kind_of(dataset) is None or dataset.sizes.get("token", 0) > MAX_TOKENS:
        return table
    try:
        return display(dataset).picture_html() + table
    except Exception as problem:  # a part of a result, such as one time of a run, may have no picture
        LOG.info("No picture of the dataset is shown: %s", problem)
        return table
