"""The catalogue of published figures: one entry each, made from scratch by `attnflow reproduce`."""
