"""Self-attention dynamics: tokens as particles that attract each other and gather into clusters.

>>> import numpy as np, attnflow as af
>>> flow = af.SphereAttention(af.Head.identity(3), af.Softmax(beta=1.0), af.masks.causal)
>>> run = af.simulate(flow, af.initial.sphere(8, 3, rng=0), np.linspace(0, 40, 9))
>>> int(af.clusters.count(run, 0.05)[-1])
1

The package writes to the logger "attnflow", which is silent by default: ``logging.basicConfig(level="INFO")`` shows
how a run is divided among threads, whether native kernels are used, how long a program took to compile, and why a run
ended early.
"""

import logging
import sys
from importlib.metadata import version

from attnflow._common.lazy_names import lazy_names

logging.getLogger(__name__).addHandler(logging.NullHandler())
__version__ = version("attnflow")
__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)

if "IPython" in sys.modules:  # results are shown with their pictures
    from attnflow._common.notebooks import register_html

    register_html(("xarray.core.dataset", "Dataset"), ("attnflow.show.runs.notebooks", "html_of"))
    del register_html
