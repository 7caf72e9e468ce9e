"""Measurements on arrays and datasets of tokens, and predictions in closed form."""
