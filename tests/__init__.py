"""Tests of attnflow; a regular package, since other distributions install a package of this name beside it."""
