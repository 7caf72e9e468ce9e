"""The equations: velocity fields, attention rules, masks, heads, normalisation, noise, laws of first tokens."""
