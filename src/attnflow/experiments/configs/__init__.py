"""Runs as files of settings.

`config_files` reads and writes them, `prepared_run` is the run behind one, `config_of` gives the settings of a result.
"""
