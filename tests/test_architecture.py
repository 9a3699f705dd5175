"""Imports point upward on the page of rooms in docs/architecture.md, and nowhere else."""

import ast
import subprocess
import sys
from pathlib import Path

import gfn4rec

PACKAGE = Path(gfn4rec.__file__).parent
GROUND = {"errors", "config", "seeding", "schema", "storage", "metrics"}
MAY_IMPORT = {
    "errors": set[str](),
    "config": {"errors"},
    "seeding": set[str](),
    "schema": {"errors"},
    "metrics": set[str](),
    "storage": {"errors"},
    "progress": set[str](),
    "data": GROUND,
    "nn": GROUND,
    "objectives": {"schema"},
    "simulator": GROUND | {"data", "nn"},
    "policies": GROUND | {"data", "nn", "objectives"},
    "decoders": GROUND | {"nn", "policies"},
    "evaluation": GROUND | {"data", "simulator", "policies", "decoders"},
    "training": GROUND | {"data", "nn", "simulator", "policies", "evaluation"},
    "serving": GROUND | {"data", "nn", "simulator", "policies", "decoders", "evaluation", "training"},
    "api": GROUND | {"progress", "data", "simulator", "policies", "decoders", "evaluation", "training", "serving"},
    "experiments": GROUND | {"data", "simulator", "policies", "decoders", "evaluation", "training", "api"},
    "client": {"errors"},
    "live": GROUND
    | {"progress", "data", "nn", "simulator", "policies", "evaluation", "training", "serving", "api", "client"},
    "cli": GROUND
    | {"progress", "data", "simulator", "policies", "decoders", "evaluation", "training", "serving", "api"}
    | {"experiments", "live", "client"},
    "__init__": {
        "errors",
        "schema",
        "data",
        "simulator",
        "policies",
        "decoders",
        "training",
        "serving",
        "api",
    },  # lazily
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


def test_experiments_import_in_one_direction() -> None:
    """jobs <- search <- paper; tables and plots in report know none of them."""
    may_import = {"jobs": set[str](), "search": {"jobs"}, "paper": {"jobs", "search", "report"}, "report": set[str]()}
    others = set(may_import)
    for path in sorted((PACKAGE / "experiments").rglob("*.py")):
        part = path.relative_to(PACKAGE / "experiments").parts[0]
        text = path.read_text(encoding="utf-8")
        imported = {other for other in others if f"gfn4rec.experiments.{other}" in text}
        unexpected = imported - may_import.get(part, set()) - {part}
        assert not unexpected, f"{path.relative_to(PACKAGE)} imports {unexpected}"


def test_serving_knows_no_training_loop() -> None:
    for path in (PACKAGE / "serving").glob("*.py"):
        text = path.read_text(encoding="utf-8")
        for loop in ("online", "offline", "learner", "replay"):
            assert f"gfn4rec.training.{loop}" not in text, f"{path} imports {loop}"


def test_tables_and_plots_need_no_torch() -> None:
    names = ["statistics", "tables", "table_formats", "picture", "plots", "report"]
    for name in names:
        path = PACKAGE / "experiments" / "report" / f"{name}.py"
        rooms = imported_rooms(path)
        assert rooms <= GROUND | {"experiments"}, f"{name} imports {rooms}"
        assert "torch" not in path.read_text(encoding="utf-8")
    modules = ", ".join(f"gfn4rec.experiments.report.{name}" for name in names)
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
