"""Sweeps: many runs over axes of settings, in one labelled store that can be resumed and extended.

A `SweepSpec` says what is varied and measured. Its cells are the combinations of the values of the axes; every run of a
cell has a seed of its own. Batches of runs are computed in this process, in others or on a cluster (`scheduling`), kept
in a journal of files inside the store as they come (`journal`), and reduced to labelled arrays (`assembly`).
"""
