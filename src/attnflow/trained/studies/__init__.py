"""Studies of trained transformers: many prompts, every measure by layer, controls beside it, intervals over prompts.

A study sends every prompt through a model and through variants of it, and measures the tokens of every layer:

    study = attnflow.trained.study("minilm", prompts="prompts.txt", out="study.nc")
    rows = attnflow.trained.study_rows(study)       # mean, spread and interval of every measure in every layer
    attnflow.show.study(study, "study.png")

Variants (`variants.py`). "trained" is the model as it is. The controls replace what training has made: "untrained" has
random initial weights, "equal attention" has Q = K = 0, "swapped heads" gives every head the Q and K of the
next head, "shuffled tokens" has the words of the prompt in another order. The rungs of `trained.ladder` leave out parts
of the block. All variants see the same prompts, so that differences are paired.

Computation (`layer_states.py`). Prompts of one length form batches that share a compiled program. All prompts go
through layer l before layer l + 1 is read, so that weights are read once a variant, and two layers of states are kept.

Statistics (`bootstrap.py`). A prompt is the unit of resampling: its tokens and layers depend on each other. Means over
prompts have 95 % intervals of the bootstrap; so has the paired difference of the trained model and a control.

A study is written part by part (`parts.py`): after Ctrl-C or a kill the same call goes on where it was.
"""
