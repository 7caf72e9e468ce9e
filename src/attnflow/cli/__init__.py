"""The command line. Heavy libraries load inside the commands, so that `--help` is quick."""
