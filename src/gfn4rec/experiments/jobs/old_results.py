"""Results of earlier versions: a JSON file per result, named by the job's old key, and one per oracle."""

import json
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from gfn4rec.errors import UserError
from gfn4rec.experiments.jobs.result import JobResult, OracleResult
from gfn4rec.experiments.jobs.tasks import OracleTask

OLD_ORACLE: Final = "ruler-"  # before the key, in the name of an oracle's file


def read_old_result(path: Path, key: str) -> JobResult | None:
    """Read the result that has a certain old key; None if it is absent, damaged or another one."""
    values = _read(path)
    if not isinstance(values, dict) or values.get("key") != key:
        return None
    values["metrics"] = values.pop("figures", None)
    try:
        return JobResult.model_validate(values)
    except (ValidationError, UserError):  # settings that this version does not have
        return None


def read_old_oracle(path: Path, task: OracleTask) -> OracleResult | None:
    """Read the points of an oracle; None if they are absent or damaged."""
    points = _read(path)
    try:
        return None if points is None else task.result(points)
    except (ValidationError, UserError):  # settings that this version does not have
        return None


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
