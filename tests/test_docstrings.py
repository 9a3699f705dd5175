"""Every public name has a docstring with an example, and the examples do what they show."""

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gfn4rec
from gfn4rec import PrepareConfig, prepare, read_data, resolve_settings, train, train_simulator

PUBLIC = [name for name in gfn4rec.__all__ if name != "__version__"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make what the examples find: a data set, a simulator and a run, each called tiny."""
    made = tmp_path_factory.mktemp("examples")
    prepare(read_data("synthetic-tiny"), PrepareConfig(), made / "data" / "tiny")
    train_simulator(made / "data" / "tiny", made / "simulators" / "tiny", num_epochs=1)
    changes = {"num_steps": 6, "warmup_steps": 2, "num_users": 16, "evaluation_batches": 1, "final_batches": 1}
    settings = resolve_settings("online", "gfn", changes=changes)
    train(settings, made / "data" / "tiny", made / "simulators" / "tiny", made / "runs" / "tiny")
    return made


@pytest.mark.parametrize("name", PUBLIC)
def test_examples_of_docstrings(name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the examples of a function, or of a class and its methods."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    public = getattr(gfn4rec, name)
    module = sys.modules[public.__module__]
    examples = [test for test in doctest.DocTestFinder().find(public, name, module) if test.examples]
    assert public.__doc__
    assert examples, f"the docstring of {name} has no example"
    report: list[str] = []
    for example in examples:
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=report.append)
    assert not report, "".join(report)


def test_public_names_are_imported_lazily() -> None:
    """`import gfn4rec` loads neither torch nor polars; a name that is not there is an error that names it."""
    loaded = "bool({'torch', 'polars'} & {*sys.modules})"
    code = f"import sys, gfn4rec; sys.exit('SlateData' not in dir(gfn4rec) or {loaded})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="module 'gfn4rec' has no attribute 'SlateDatta'"):
        _ = gfn4rec.SlateDatta
    assert all(getattr(gfn4rec, name) is not None for name in gfn4rec.__all__)
