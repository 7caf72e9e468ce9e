"""Pictures of runs. Matplotlib is loaded when a picture is drawn."""

from attnflow._common.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
