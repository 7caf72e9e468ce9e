"""Tools that every package uses: array types, checks, files, seeds, precision, progress.

This package imports nothing else of attnflow.
"""
