"""A run with all that it is made of: data set, simulated users, policy. Each is opened once."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from gfn4rec.data.dataset import HISTORY_LENGTH, SlateData
from gfn4rec.data.identity import content_of, identity_of, refuse_other_data
from gfn4rec.errors import UserError
from gfn4rec.nn.weights import load_weights
from gfn4rec.policies import build_policy
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.simulator.cautious_model import CautiousModel
from gfn4rec.simulator.checkpoint import WEIGHTS, SimulatorFiles
from gfn4rec.simulator.effects import NO_EFFECTS
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.protocol import UserModel
from gfn4rec.storage import MANIFEST
from gfn4rec.training.config import Mode, RunSettings, UsersConfig
from gfn4rec.training.run import POLICY, Run, RunManifest, git_hash

DataSource: TypeAlias = SlateData | Path | str
"""A prepared data set: opened, or its directory."""
UsersSource: TypeAlias = UserModel | Path | str
"""A simulator: a user model in memory, or its directory."""
Notify: TypeAlias = Callable[[str], None]


@dataclass(frozen=True)
class Users:
    """Simulated users of a data set, and how they come and go."""

    data: SlateData
    model: UserModel
    config: EnvironmentConfig

    @classmethod
    def of(cls, data: SlateData, model: UserModel, config: UsersConfig) -> "Users":
        """Return the users of a model, with histories as long as it reads.

        Item influence is that of the settings, else of the model if it has one, else of the data set. Pessimism and
        the other list effects are those of the settings, else of the model.
        """
        choices = (config.rho, getattr(model, "rho", None), data.manifest.rho)
        environment = EnvironmentConfig(
            num_users=config.num_users,
            episode_length=config.episode_length,
            rho=next(rho for rho in choices if rho is not None),
            slate_size=data.slate_size,
            **config.effects(getattr(model, "effects", NO_EFFECTS)).model_dump(),
        )
        length = max(data.history_length, getattr(model, "history_length", 0))
        users = cls(data.with_history(length), model, environment)
        return users if config.pessimism is None else users.with_pessimism(config.pessimism)

    @classmethod
    def load(cls, files: SimulatorFiles, data: SlateData, config: UsersConfig) -> "Users":
        """Return the users of a simulator on disk."""
        return cls.of(data, files.load(data), config)

    def with_pessimism(self, pessimism: float) -> "Users":
        """Return the same users, with another pessimism about items that they hardly ever choose."""
        if not pessimism < math.inf:
            raise UserError(f"pessimism {pessimism}: write a finite number")
        if isinstance(self.model, CautiousModel):
            return replace(self, model=self.model.with_pessimism(pessimism))
        if pessimism == 0:
            return self
        raise UserError(
            f"pessimism {pessimism:g}: this simulator has none; only simulators that `gfn4rec simulator train` makes "
            "without --paper have a pessimism"
        )

    def environment(self, seed: int, num_users: int | None = None, start_rows: Tensor | None = None) -> UserEnvironment:
        """Return a new environment of these users."""
        config = self.config if num_users is None else self.config.model_copy(update={"num_users": num_users})
        return UserEnvironment(self.data, self.model, config, seed, start_rows)

    def evaluation_environment(self, mode: Mode, seed: int) -> UserEnvironment:
        """Return the environment that policies are evaluated in.

        A policy that learned from the log has not seen its test slates, so users start before those; for others they
        start anywhere.
        """
        test = self.data.split("test")
        return self.environment(
            seed, start_rows=self.data.first_rows(test) if mode == "offline" and len(test) else None
        )


class OpenedRun:
    """A run and its data set; simulated users and the trained policy are opened when they are asked for.

    `simulator` is the run's own, or another in its place. With `must_match`, another data set or simulator than those
    the run was begun with is an error; `notify` receives what is odd but no error.

    >>> opened = OpenedRun.open("runs/tiny")
    >>> opened.settings.policy, opened.data.num_items, opened.users.config.num_users
    ('gfn', 60, 16)
    """

    def __init__(
        self,
        run: Run,
        data: SlateData,
        simulator: UsersSource | SimulatorFiles | None = None,
        must_match: bool = False,
        notify: Notify = lambda _: None,
    ) -> None:
        self.run, self.data, self.settings = run, data, run.manifest.settings
        self._simulator, self._must_match, self._notify = simulator, must_match, notify

    @classmethod
    def begin(
        cls,
        settings: RunSettings,
        data: DataSource,
        simulator: UsersSource | None,
        out: Path,
        device: torch.device | str = "cpu",
        num_processes: int = 1,
        is_first: bool = True,
        start: Path | str | None = None,
    ) -> "OpenedRun":
        """Create the directory of a new run; only the first of several processes writes it.

        `start` is a finished run whose weights it begins with.
        """
        opened = _open_data(data, settings, device)
        files = SimulatorFiles.open(Path(simulator)) if isinstance(simulator, Path | str) else None
        settings.users.effects().categories(opened)  # an error, if there are none, comes before anything is written
        if files is not None:
            files.refuse_unusable(opened.manifest)
        if start is not None:
            _refuse_other_start(Path(start), settings)
        manifest = _new_manifest(settings, opened, files, num_processes, start)
        run = Run.create(out, manifest) if is_first else Run(out, manifest)
        return cls(run, opened, files or simulator)

    @classmethod
    def open(
        cls,
        directory: Path | str,
        data: DataSource | None = None,
        simulator: UsersSource | None = None,
        device: torch.device | str = "cpu",
        must_match: bool = False,
        notify: Notify = lambda _: None,
    ) -> "OpenedRun":
        """Open a run, with its own data set and simulator or with those at another place."""
        run = Run.open(Path(directory))
        place = run.manifest.data_path if data is None else data
        if isinstance(place, Path | str) and not Path(place).exists():
            raise UserError(f"{place}: the data set of this run is not there; name its place with --data")
        opened = _open_data(place, run.manifest.settings, device)
        refuse_other_data(run.manifest.data, opened.manifest, run.directory)
        _refuse_other_slates(run, opened)
        opened_run = cls(run, opened, simulator, must_match, notify)
        if change := opened_run.data_change():
            if must_match:
                raise UserError(f"{change}; name the one it was begun with by --data, or train again")
            notify(change)
        return opened_run

    def data_change(self) -> str | None:
        """Return what of the data set has changed since the run was begun, though its users and items are the same."""
        before, now = self.run.manifest.data_content, content_of(self.data.manifest)
        if before is None or before == now:
            return None
        files = [name for name, checksum in now.files.items() if checksum != before.files.get(name)]
        parts = [name for name in ("weights", "settings") if getattr(now, name) != getattr(before, name)]
        return f"{self.run.directory}: its data set has changed since it was begun ({', '.join([*files, *parts])})"

    @property
    def has_users(self) -> bool:
        """Whether a simulator is named, by the caller or by the run."""
        return self._simulator is not None or self.run.manifest.simulator_path is not None

    @cached_property
    def users(self) -> Users:
        """The simulated users."""
        files = self._simulator_files()
        if files is None:
            assert isinstance(self._simulator, UserModel)
            return Users.of(self.data, self._simulator, self.settings.users)
        return Users.load(files, self.data, self.settings.users)

    @property
    def simulator_name(self) -> str:
        """What tells the simulator from others: its directory, or the object in memory."""
        place = self._simulator or self.run.manifest.simulator_path
        if isinstance(place, SimulatorFiles):
            return str(place.path.resolve())
        return str(Path(place).resolve()) if isinstance(place, Path | str) else f"in memory ({id(place)})"

    def _simulator_files(self) -> SimulatorFiles | None:
        if isinstance(self._simulator, SimulatorFiles):
            return self._simulator
        if self._simulator is not None and not isinstance(self._simulator, Path | str):
            return None
        place = self._simulator or self.run.manifest.simulator_path
        if place is None:
            raise UserError(f"{self.run.directory}: was trained without a simulator; name one with --simulator")
        is_own, path = self._simulator is None, Path(place)
        if is_own and not path.exists():
            raise UserError(f"{path}: the simulator of this run is not there; name its place with --simulator")
        files = SimulatorFiles.open(path)
        if (is_own or self._must_match) and not _is_same_simulator(self.run.manifest, files):
            raise UserError(f"{path}: not the simulator of this run, or changed since; name another with --simulator")
        return files

    @cached_property
    def policy(self) -> Policy:
        """The policy of the newest checkpoint, in evaluation mode."""
        directory, checkpoint = self.run.directory, self.run.load_checkpoint(only=POLICY)
        if checkpoint is None:
            raise UserError(f"{directory}: has no checkpoint yet; resume it with `gfn4rec train resume {directory}`")
        for note in checkpoint.notes:
            self._notify(note)
        if self.run.results is None:
            self._notify(f"{directory}: not finished; its weights after step {checkpoint.step} are used")
        policy = self.new_policy()
        load_weights(policy, checkpoint.tensors[POLICY], directory)
        return policy.eval()

    def new_policy(self) -> Policy:
        """Return the untrained policy."""
        settings = self.settings
        return build_policy(settings.policy, Catalogue.of(self.data), settings.policy_settings, settings.seed)

    def starting_policy(self) -> Policy:
        """Return the policy as training begins: untrained, or with the weights of the run that it starts from."""
        policy, start = self.new_policy(), self.run.manifest.started_from
        if start is not None and not self.run.has_checkpoints():
            weights = OpenedRun.open(start, self.data).policy.state_dict()
            if any(weights[name].shape != weight.shape for name, weight in policy.state_dict().items()):
                raise UserError(f"{start}: has networks of other sizes; give the sizes in its {MANIFEST} with --set")
            policy.load_state_dict(weights)
        return policy


def _open_data(source: DataSource, settings: RunSettings, device: torch.device | str) -> SlateData:
    """Open a data set, with histories long enough for the policy."""
    length = max(HISTORY_LENGTH, settings.policy_settings.history_length)
    if isinstance(source, SlateData):
        return source.with_history(max(length, source.history_length))
    return SlateData.open(source, length, device)


def _refuse_other_start(start: Path, settings: RunSettings) -> None:
    run = Run.open(start)
    if run.settings.policy != settings.policy:
        raise UserError(f"{start}: is a run of {run.settings.policy}, not of {settings.policy}; start from another")
    if run.results is None:
        raise UserError(f"{start}: is not finished; resume it with `gfn4rec train resume {start}` first")


def _new_manifest(
    settings: RunSettings,
    data: SlateData,
    files: SimulatorFiles | None,
    num_processes: int,
    start: Path | str | None,
) -> RunManifest:
    return RunManifest(
        settings=settings,
        data_path=str(data.directory.resolve()),
        data=identity_of(data.manifest),
        data_content=content_of(data.manifest),
        simulator_path=None if files is None else str(files.path.resolve()),
        simulator_files=None if files is None else files.manifest.files,
        simulator_rho=None if files is None else files.manifest.rho,
        simulator_pessimism=0.0 if files is None else files.manifest.pessimism,
        simulator_effects=NO_EFFECTS if files is None else files.manifest.effects,
        started_from=None if start is None else str(Path(start).resolve()),
        num_processes=num_processes,
        num_threads=torch.get_num_threads(),
        git_hash=git_hash(),
    )


def _refuse_other_slates(run: Run, data: SlateData) -> None:
    content = run.manifest.data_content
    if content is not None and content.settings.slate_size != data.slate_size:
        size = content.settings.slate_size
        raise UserError(
            f"{run.directory}: shows slates of {size}, and {data.directory} has slates of {data.slate_size}; "
            f"prepare it with --slate-size {size}"
        )


def _is_same_simulator(manifest: RunManifest, files: SimulatorFiles) -> bool:
    """Return whether the simulated users are those of the run; plots beside the weights may have changed."""
    weights, now = (manifest.simulator_files or {}).get(WEIGHTS), files.manifest
    is_same_rho = manifest.simulator_rho in (None, now.rho)
    are_same = manifest.simulator_pessimism == now.pessimism and manifest.simulator_effects == now.effects
    return now.files[WEIGHTS] == weights and is_same_rho and are_same
