"""The entry point, which imports the commands."""

import subprocess
import sys

INTERRUPTED_IMPORT = """
import importlib.abc, sys
from gfn4rec.__main__ import run

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "gfn4rec.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
run()
"""


def test_ctrl_c_while_modules_are_imported_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "gfn4rec", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gfn4rec ")
