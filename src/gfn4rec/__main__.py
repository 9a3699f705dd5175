"""The command `gfn4rec`, also as `python -m gfn4rec`."""

import os
import sys


def run() -> None:
    """Run the command. Ctrl-C ends it with exit code 130 and without a traceback, even while modules are imported."""
    # A thread that waits for others sleeps; by default it spins for milliseconds, on a core that others may need.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read when PyTorch is imported
    try:
        from gfn4rec.cli import run as run_command

        run_command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run()
