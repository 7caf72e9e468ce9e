"""`predict`: the limit that a theorem, a conjecture or an observation promises for a flow."""
