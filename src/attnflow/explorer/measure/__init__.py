"""Measurements of the frame on display: numbers of the panels, cluster colours, comparison with the prediction."""
