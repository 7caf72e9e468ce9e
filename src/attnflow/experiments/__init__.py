"""Named runs: scenarios and their settings, settings as text, the summary of a run, and `rerun`."""
