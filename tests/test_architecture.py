"""Imports point upward on the page of rooms in docs/architecture.md, and nowhere else."""

import ast
import subprocess
import sys
from pathlib import Path

import gfn4rec

PACKAGE = Path(gfn4rec.__file__).parent
GROUND = {"errors", "config", "seeding", "schema", "storage"}
MAY_IMPORT = {
    "errors": set[str](),
    "config": {"errors"},
    "seeding": set[str](),
    "schema": set[str](),
    "storage": {"errors"},
    "data": GROUND,
    "nn": GROUND,
    "objectives": {"schema"},
    "simulator": GROUND | {"data", "nn"},
    "policies": GROUND | {"data", "nn", "objectives"},
    "evaluation": GROUND | {"data", "simulator", "policies"},
    "training": GROUND | {"data", "nn", "simulator", "policies", "evaluation"},
    "serving": GROUND | {"data", "nn", "simulator", "policies", "evaluation", "training"},
    "api": GROUND | {"data", "evaluation", "training", "serving"},
    "experiments": GROUND | {"data", "simulator", "policies", "evaluation", "training", "api"},
    "cli": GROUND | {"data", "simulator", "policies", "evaluation", "training", "serving", "api", "experiments"},
    "__init__": set[str](),
    "__main__": {"cli"},
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names = [node.module or ""]
            if node.module == "gfn4rec":
                names += [f"gfn4rec.{alias.name}" for alias in node.names if alias.name != "__version__"]
        rooms |= {name.split(".")[1] for name in names if name.startswith("gfn4rec.")}
    return rooms


def test_each_room_imports_only_rooms_above_it() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 20
    for path in files:
        room = room_of(path)
        unexpected = imported_rooms(path) - MAY_IMPORT[room] - {room}
        assert not unexpected, f"{path.relative_to(PACKAGE)} imports {unexpected}"


def test_readers_do_not_know_what_is_built_on_them() -> None:
    for path in (PACKAGE / "data" / "readers").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for later in ("prepare", "dataset", "storage", "slates"):
            assert f"gfn4rec.data.{later} " not in text, f"{path} imports {later}"


def test_serving_knows_no_training_loop() -> None:
    for path in (PACKAGE / "serving").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for loop in ("online", "offline", "learner", "replay"):
            assert f"gfn4rec.training.{loop}" not in text, f"{path} imports {loop}"


def test_tables_and_plots_need_no_torch() -> None:
    names = ["statistics", "tables", "table_formats", "picture", "plots", "report"]
    for name in names:
        path = PACKAGE / "experiments" / f"{name}.py"
        rooms = imported_rooms(path)
        assert rooms <= GROUND | {"experiments"}, f"{name} imports {rooms}"
        assert "torch" not in path.read_text(encoding="utf-8")
    code = f"import sys, {', '.join(f'gfn4rec.experiments.{name}' for name in names)}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
