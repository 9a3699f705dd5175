"""The protocol of an experiment: how long models train, with how many seeds and with which settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import Field

from gfn4rec.config import StrictConfig, describe_settings, nearest
from gfn4rec.errors import UserError
from gfn4rec.experiments.jobs.job import Job
from gfn4rec.experiments.paper.models import MODELS, POLICY_OF, Model, Settings, base_of
from gfn4rec.experiments.search.tuned import read_tuned
from gfn4rec.training.config import MODES, Mode, merge_changes, parse_change, resolve_settings, table_configs


class Budget(StrictConfig):
    """How much computation an experiment gets."""

    name: str
    online_steps: int = Field(ge=1)
    warmup_steps: int = Field(default=100, ge=0)
    """Online steps before the first learning step."""
    offline_steps: int = Field(ge=1)
    study_steps: int = Field(ge=1)
    """Online steps in this project's own studies."""
    num_seeds: int = Field(ge=1)
    """Seeds of each model in the tables that compare models."""
    num_sensitivity_seeds: int = Field(ge=1)
    """Seeds of each value of b_f, b_r and b_z, and of each model in a study."""
    trial_steps: int = Field(ge=1)
    """Steps of each trial when settings are searched first."""
    study_trial_steps: int = Field(ge=1)
    """Steps of each trial before a study."""
    num_batches: int = Field(ge=1)
    """Batches of each final evaluation in the simulator."""
    evaluate_every: int = Field(ge=1)
    """Steps between the evaluations of a learning curve."""
    evaluation_batches: int = Field(ge=1)
    """Batches of each of these evaluations, greedy and sampled."""
    ranker_steps: int = Field(default=100, ge=0)
    """Learning steps in which a re-ranker trains only its initial ranker."""
    notice: str | None = None
    """A warning that every table carries."""


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
        evaluate_every=50,
        evaluation_batches=2,
        ranker_steps=40,
        notice="Quick budget: runs are much shorter than the paper's, by default with one seed. Not a result.",
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
        evaluate_every=100,
        evaluation_batches=5,
        notice="Short budget: far fewer steps than the paper's. Models that learn slowly may not have converged.",
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
        evaluate_every=300,
        evaluation_batches=10,
    ),
}


Need: TypeAlias = tuple[Mode, str]
"""A model that a table needs: how it is trained, and its name in MODELS."""


@dataclass(frozen=True)
class Protocol:
    """A budget, and the settings of all runs of an experiment."""

    budget: Budget
    num_seeds: int | None = None
    """Replaces the budget's numbers of seeds."""
    num_sensitivity_seeds: int | None = None
    """Replaces both for the models that `Budget.num_sensitivity_seeds` is for."""
    tuned: Mapping[Mode, Mapping[str, Settings]] = field(default_factory=dict)
    """The best settings of a search, by mode and by the name of a model or policy."""
    changes: Settings = field(default_factory=dict)
    """Settings of all runs; each policy takes those that it has."""
    temperatures: tuple[float, ...] = (1.0, 0.7, 0.5, 0.35, 0.25)

    def jobs(self, need: Need) -> tuple[Job, ...]:
        """Return a job for each seed."""
        mode, name = need
        budget, model = self.budget, MODELS[name]
        # Fixed settings come last: they define what a row of a table stands for.
        merged = merge_changes(self.tunable(need), self._training(mode, model), self.changes, model.fixed)
        changes = {key: value for key, value in merged.items() if has_setting(mode, model.policy, key)}
        return tuple(
            Job(
                settings=resolve_settings(mode, model.policy, changes=changes, seed=seed),
                temperatures=(*self.temperatures, *model.low_temperatures) if mode == "online" else (1.0,),
                num_batches=budget.num_batches,
                decoder=model.decoder,
            )
            for seed in range(self._num_seeds(model))
        )

    def check(self, needs: Sequence[Need]) -> None:
        """Raise UserError if a setting is wrong, or if models would meet different users and could not be compared."""
        users_by_model = [(name, self.jobs((mode, name))[0].settings.users) for mode, name in needs]
        for (one, users), (other, other_users) in pairwise(users_by_model):
            if users != other_users:
                raise UserError(
                    f"{one} and {other} would meet different users ({users}; {other_users}): "
                    "set num_users, episode_length and rho for all models with --set"
                )

    def _num_seeds(self, model: Model) -> int:
        if model.role == "compared":
            return self.num_seeds or self.budget.num_seeds
        return self.num_sensitivity_seeds or self.num_seeds or self.budget.num_sensitivity_seeds

    def tunable(self, need: Need) -> Settings:
        """Return a model's defaults and tuned settings, which a search starts from and may change."""
        mode, name = need
        tuned, base, model = self.tuned.get(mode, {}), base_of(name), MODELS[name]
        of_policy, defaults = tuned.get(model.policy, {}), merge_changes(MODELS[base].defaults, model.defaults)
        # In a study the shared terms win over settings that were tuned for the policy alone.
        first = (of_policy, defaults) if model.is_study else (defaults, of_policy)
        return merge_changes(*first, *(tuned.get(key, {}) for key in (base, name)))

    def _training(self, mode: Mode, model: Model) -> dict[str, int]:
        """Return the budget's settings of the training loop; the final evaluation is the job's."""
        budget = self.budget
        online_steps = budget.study_steps if model.is_study else budget.online_steps
        return {
            "num_steps": online_steps if mode == "online" else budget.offline_steps,
            "warmup_steps": budget.warmup_steps,
            "ranker.first_steps": budget.ranker_steps,
            "evaluate_every": budget.evaluate_every,
            "evaluation_batches": budget.evaluation_batches,
            "final_batches": 1,
        }


def has_setting(mode: Mode, policy: str, key: str) -> bool:
    """Whether a policy, its training loop or its users have a setting."""
    return key in _settings_of(mode, policy)


def _settings_of(mode: Mode, policy: str) -> list[str]:
    return [setting.key for config in table_configs(mode, policy).values() for setting in describe_settings(config())]


def read_protocol(
    budget: str,
    num_seeds: int | None = None,
    num_sensitivity_seeds: int | None = None,
    tuned: Path | None = None,
    changes: Sequence[str] = (),
) -> Protocol:
    """Build a protocol from command-line options; UserError for a setting that no model has."""
    if budget not in BUDGETS:
        raise UserError(f"no budget {budget!r}; {nearest(budget, list(BUDGETS))}")
    named = merge_changes(dict(parse_change(text) for text in changes))
    policies = dict.fromkeys(model.policy for model in MODELS.values())
    known = list(dict.fromkeys(key for mode in MODES for policy in policies for key in _settings_of(mode, policy)))
    for key in named:
        if key not in known:
            raise UserError(f"no model has a setting {key!r}; {nearest(key, known)}")
    return Protocol(
        BUDGETS[budget], num_seeds, num_sensitivity_seeds, read_tuned(tuned, POLICY_OF) if tuned else {}, named
    )
