"""`stream` and `append`: causal attention one token after the other, to times such as 1e60."""
