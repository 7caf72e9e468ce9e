"""`simulate`: many runs of any flow to given times; evaluation and linearisation of a flow at a configuration."""
