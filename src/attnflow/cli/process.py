"""The command line as a process of its own: Ctrl-C ends it with exit code 130 at any moment."""

import io
import signal
import sys


def run() -> None:
    """Import the command line and run it.

    Ctrl-C after the command has ended, while the interpreter stops, is ignored: it would change the exit code of a
    result that is written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # "β" on a console of Windows without it is printed as "?"
            stream.reconfigure(errors="replace")
    try:
        from attnflow.cli.app import main

        main()
    except KeyboardInterrupt:  # during the imports
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    run()
