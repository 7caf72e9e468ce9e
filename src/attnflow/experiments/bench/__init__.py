"""The speed of attnflow beside other ways to compute the same numbers; the command is `attnflow bench`."""
