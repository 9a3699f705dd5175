"""The command `gfn4rec`, also as `python -m gfn4rec`."""

import os
import sys


def run() -> None:
    """Run the command. Ctrl-C ends it with exit code 130 and without a traceback, even while modules are imported."""
    # A thread that waits for others spins a moment, then sleeps; by default it spins for milliseconds, on a core that
    # others may need. The number is read when PyTorch is imported; docs/performance.md has what it does.
    os.environ.setdefault("GOMP_SPINCOUNT", "600")
    try:
        from gfn4rec.cli import run as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
