"""Marks of tests that need what some systems do not have."""

import os
import sys

import pytest

needs_posix = pytest.mark.skipif(os.name != "posix", reason="signals, limits and pipes are those of POSIX")
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="a process with threads is copied, as Linux allows")
