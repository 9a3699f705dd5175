"""The database that trials are kept in."""

from pathlib import Path

import pytest

from gfn4rec.errors import UserError
from gfn4rec.experiments.search.trials import StudyLocation, open_trials


def test_a_trial_that_another_process_has_ended_stays_as_it_is(tmp_path: Path) -> None:
    place = StudyLocation(f"sqlite:///{tmp_path / 'trials.db'}", "one")
    grid = {"b_f": (0.1, 0.5)}
    with open_trials(place, grid, False, 2) as ours, open_trials(place, grid, False, 2) as theirs:
        (trial,) = ours.pending([{"b_f": 0.1}])
        theirs.finish(trial.number, 2.0)
        ours.finish(trial.number, 3.0)
        assert [each.value for each in ours.all()] == [2.0]


def test_a_database_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "trials.db"
    with open_trials(StudyLocation(f"sqlite:///{path}", "one"), {"b_f": (0.1,)}, False, 1):
        pass
    place = StudyLocation(f"sqlite:///file:{path}?mode=ro&uri=true", "other")
    with pytest.raises(UserError, match="trials: the database cannot be opened"), open_trials(place, {}, False, 1):
        pass
