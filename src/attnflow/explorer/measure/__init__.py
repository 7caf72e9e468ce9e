"""Measurements of the frame on display: panels, cluster colours, verdicts."""
