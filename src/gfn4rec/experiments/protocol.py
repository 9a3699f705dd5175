"""How an experiment is run: the models, how long, how often, with which settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic import Field

from gfn4rec.config import StrictConfig, describe_settings, nearest
from gfn4rec.errors import UserError
from gfn4rec.experiments.job import Job
from gfn4rec.experiments.models import MODELS, Model, base_of
from gfn4rec.experiments.tuned import read_tuned
from gfn4rec.training.config import KINDS, Kind, merge_changes, parse_change, resolve_settings, table_configs


class Budget(StrictConfig):
    """How much is spent on an experiment."""

    name: str
    online_steps: int = Field(ge=1)
    warmup_steps: int = Field(default=100, ge=0)
    """Online steps before the first learning step."""
    offline_steps: int = Field(ge=1)
    study_steps: int = Field(ge=1)
    """Online steps of this project's own studies."""
    num_seeds: int = Field(ge=1)
    """Of each model of the tables that compare models."""
    num_sensitivity_seeds: int = Field(ge=1)
    """Of each value of b_f, b_r and b_z, and of each model of a study."""
    trial_steps: int = Field(ge=1)
    """Of each trial of a search that comes first."""
    study_trial_steps: int = Field(ge=1)
    """The same before a study."""
    num_batches: int = Field(ge=1)
    """Of each measurement in the simulator."""
    look_every: int = Field(ge=1)
    """Steps between the points of a learning curve."""
    look_batches: int = Field(ge=1)
    """Batches of each point, greedy and sampled."""
    ranker_steps: int = Field(default=100, ge=0)
    """Learning steps in which the ranker before a re-ranker learns alone."""
    notice: str | None = None
    """Said on every table."""


BUDGETS: Final = {
    "quick": Budget(
        name="quick",
        online_steps=200,
        warmup_steps=20,
        offline_steps=400,
        study_steps=200,
        trial_steps=100,
        study_trial_steps=100,
        num_seeds=1,
        num_sensitivity_seeds=1,
        num_batches=10,
        look_every=50,
        look_batches=2,
        ranker_steps=40,
        notice="Quick budget: far shorter runs than the paper's, by default with one seed. A first look, not a result.",
    ),
    "short": Budget(
        name="short",
        online_steps=1000,
        offline_steps=2000,
        study_steps=500,
        trial_steps=300,
        study_trial_steps=300,
        num_seeds=3,
        num_sensitivity_seeds=1,
        num_batches=50,
        look_every=100,
        look_batches=5,
        notice="Short budget: far fewer steps than the paper's. Models that learn slowly may not have learned yet.",
    ),
    "paper": Budget(
        name="paper",
        online_steps=5000,
        offline_steps=10_000,
        study_steps=1000,
        trial_steps=1000,
        study_trial_steps=300,
        num_seeds=5,
        num_sensitivity_seeds=3,
        num_batches=100,
        look_every=300,
        look_batches=10,
    ),
}


Need: TypeAlias = tuple[Kind, str]  # how a model learns, and its name in MODELS


@dataclass(frozen=True)
class Protocol:
    """A budget, and the settings that all runs of an experiment have."""

    budget: Budget
    num_seeds: int | None = None
    """In place of the budget's."""
    num_sensitivity_seeds: int | None = None
    """In place of those, for what `Budget.num_sensitivity_seeds` is for."""
    tuned: Mapping[Kind, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Settings by how a model learns and by its name or its policy's, as a search has found them."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Settings of all runs; a policy takes those it has."""
    temperatures: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35, 0.25)

    def jobs(self, need: Need) -> tuple[Job, ...]:
        """A job for each seed."""
        kind, name = need
        budget, model = self.budget, MODELS[name]
        # What is fixed comes last: else a row would not be what it says.
        wanted = merge_changes(self.start(need), self._training(kind, model), self.changes, model.fixed)
        changes = {key: value for key, value in wanted.items() if has_setting(kind, model.policy, key)}
        return tuple(
            Job(
                settings=resolve_settings(kind, model.policy, changes=changes, seed=seed),
                temperatures=(*self.temperatures, *model.low_temperatures) if kind == "online" else (1.0,),
                num_batches=budget.num_batches,
            )
            for seed in range(self._num_seeds(model))
        )

    def check(self, needs: Sequence[Need]) -> None:
        """UserError if a setting is wrong, or if models could not be compared, because they would meet other users."""
        met = [(name, self.jobs((kind, name))[0].settings.users) for kind, name in needs]
        for (one, users), (other, others) in pairwise(met):
            if users != others:
                raise UserError(
                    f"{one} and {other} would meet different users ({users}; {others}): "
                    "set num_users, episode_length and rho for all, by --set"
                )

    def _num_seeds(self, model: Model) -> int:
        if model.role == "compared":
            return self.num_seeds or self.budget.num_seeds
        return self.num_sensitivity_seeds or self.num_seeds or self.budget.num_sensitivity_seeds

    def start(self, need: Need) -> dict[str, Any]:
        """Settings of a model that a search may change, or has found."""
        kind, name = need
        tuned, base, model = self.tuned.get(kind, {}), base_of(name), MODELS[name]
        of_policy, defaults = tuned.get(model.policy, {}), merge_changes(MODELS[base].defaults, model.defaults)
        # What suits a policy by itself does not change the terms that all models of a study share.
        first = (of_policy, defaults) if model.is_study else (defaults, of_policy)
        return merge_changes(*first, *(tuned.get(each, {}) for each in (base, name)))

    def _training(self, kind: Kind, model: Model) -> dict[str, Any]:
        """The job measures in the end, so the run itself need not."""
        budget = self.budget
        online_steps = budget.study_steps if model.is_study else budget.online_steps
        return {
            "num_steps": online_steps if kind == "online" else budget.offline_steps,
            "warmup_steps": budget.warmup_steps,
            "ranker.first_steps": budget.ranker_steps,
            "evaluate_every": budget.look_every,
            "evaluation_batches": budget.look_batches,
            "final_batches": 1,
        }


def has_setting(kind: Kind, policy: str, key: str) -> bool:
    """Whether a policy, its loop or its users have a setting."""
    return key in _settings_of(kind, policy)


def _settings_of(kind: Kind, policy: str) -> list[str]:
    return [each.key for config in table_configs(kind, policy).values() for each in describe_settings(config())]


def read_protocol(
    budget: str,
    num_seeds: int | None = None,
    num_sensitivity_seeds: int | None = None,
    tuned: Path | None = None,
    changes: Sequence[str] = (),
) -> Protocol:
    """From what a user writes; a change that no model has is a mistake."""
    if budget not in BUDGETS:
        raise UserError(f"no budget {budget!r}; {nearest(budget, list(BUDGETS))}")
    named = merge_changes(dict(parse_change(text) for text in changes))
    policies = dict.fromkeys(model.policy for model in MODELS.values())
    known = list(dict.fromkeys(key for kind in KINDS for policy in policies for key in _settings_of(kind, policy)))
    for key in named:
        if key not in known:
            raise UserError(f"no model has a setting {key!r}; {nearest(key, known)}")
    return Protocol(BUDGETS[budget], num_seeds, num_sensitivity_seeds, read_tuned(tuned) if tuned else {}, named)
