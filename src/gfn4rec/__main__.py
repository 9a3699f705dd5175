"""`python -m gfn4rec` is the command `gfn4rec`."""

from gfn4rec.cli import run

if __name__ == "__main__":
    run()
