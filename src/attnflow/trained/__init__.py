"""Trained transformers compared with the idealised flow: heads, flows, prompts, and blocks part by part.

model = attnflow.models.load("minilm")
table = attnflow.trained.head_table(model)                   # one row a head: spectra, prediction, simulation
run = attnflow.trained.head_flow(model, layer=3, heads=[1])  # the idealised flow with trained weights
report = attnflow.trained.prompt_report(model, "a sentence")  # cosines, clusters and their words, ranks, energy
rungs = attnflow.trained.ladder(model, "a sentence")         # from attention alone to the true block, part by part
"""

from attnflow._common.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
