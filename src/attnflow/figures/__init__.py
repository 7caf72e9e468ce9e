"""The catalogue of published figures: one entry each, made by `attnflow reproduce` or by its function here.

>>> from attnflow import figures
>>> figure, data = figures.force(beta=3.0)
>>> data.attrs["figure_parameters"]
'{"beta": 3.0, "points": 721}'
"""

from attnflow._common.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
