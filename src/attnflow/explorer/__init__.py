"""The explorer: a web page that shows tokens under attention while their model is changed.

Data flows one way. `stepper` integrates a run with the library, or `measure.layer_measurements` has the states after
each layer of a trained model; `recording` keeps the frames; `viewer` plays them as `page_requests` ask;
`measure` computes the numbers of the panels; `run_messages` and `protocol` write the messages; `server` sends them to
`page/`. `export` writes files of a run. PROTOCOL.md describes every message.
"""

from pathlib import Path

PAGE = Path(__file__).parent / "page"
"""Folder of the files that a browser loads."""
