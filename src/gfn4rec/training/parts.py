"""What a run is made of, put together from its manifest: data set, policy, simulated users."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gfn4rec.data.dataset import HISTORY_LENGTH, SlateData
from gfn4rec.data.identity import content_of, identity_of, refuse_other_data
from gfn4rec.errors import UserError
from gfn4rec.policies import build_policy
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.simulator.checkpoint import WEIGHTS, load_simulator, read_simulator_manifest
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.protocol import UserModel
from gfn4rec.training.config import Kind, RunSettings
from gfn4rec.training.run import Run, RunManifest, git_hash


@dataclass(frozen=True)
class Users:
    """A simulator, and how its users come and go."""

    data: SlateData
    model: UserModel
    config: EnvironmentConfig

    def environment(self, seed: int, num_users: int | None = None, start_rows: Tensor | None = None) -> UserEnvironment:
        """An environment of its own."""
        config = self.config if num_users is None else self.config.model_copy(update={"num_users": num_users})
        return UserEnvironment(self.data, self.model, config, seed, start_rows)


def start_rows(kind: Kind, data: SlateData) -> Tensor | None:
    """Where simulated users begin while a policy is measured: one that learned from the log has not seen its test
    slates, so they begin before those; others begin anywhere.
    """
    test = data.split("test")
    return data.first_rows(test) if kind == "offline" and len(test) else None


def open_data(
    path: Path, settings: RunSettings, device: torch.device | str, simulator: Path | None = None
) -> SlateData:
    """The data set, with histories long enough for the policy and for the simulator."""
    lengths = [HISTORY_LENGTH, settings.policy_settings.get("encoder", {}).get("history_length", 0)]
    if simulator is not None:
        with contextlib.suppress(UserError):  # what is wrong with a simulator is told when it is opened
            lengths.append(read_simulator_manifest(simulator).model.get("history_length", 0))
    return SlateData.open(path, max(lengths), device)


def open_users(path: Path, data: SlateData, settings: RunSettings) -> Users:
    """The simulated users of a run."""
    model, manifest = load_simulator(path, data)
    users = settings.users
    config = EnvironmentConfig(
        num_users=users.num_users,
        episode_length=users.episode_length,
        rho=manifest.rho if users.rho is None else users.rho,
        slate_size=data.slate_size,
    )
    return Users(data, model, config)


def new_policy(data: SlateData, settings: RunSettings) -> Policy:
    """The untrained policy of a run."""
    return build_policy(settings.policy, Catalogue.of(data), settings.policy_settings, settings.seed)


def new_manifest(
    settings: RunSettings, data: SlateData, data_path: Path, simulator_path: Path | None, num_processes: int
) -> RunManifest:
    """What a new run says of itself."""
    simulator = None if simulator_path is None else read_simulator_manifest(simulator_path)
    return RunManifest(
        settings=settings,
        data_path=str(data_path.resolve()),
        data=identity_of(data.manifest),
        data_content=content_of(data.manifest),
        simulator_path=None if simulator_path is None else str(simulator_path.resolve()),
        simulator_files=None if simulator is None else simulator.files,
        simulator_rho=None if simulator is None else simulator.rho,
        num_processes=num_processes,
        git_hash=git_hash(),
    )


def data_of(
    run: Run, device: torch.device | str, path: Path | str | None = None, simulator: Path | str | None = None
) -> SlateData:
    """The data set a run was made with, or the same one at another place."""
    path = Path(run.manifest.data_path if path is None else path)
    if not path.exists():
        raise UserError(f"{path}: the data set of this run is not there; say with --data where it is")
    simulator = run.manifest.simulator_path if simulator is None else simulator
    data = open_data(path, run.manifest.settings, device, None if simulator is None else Path(simulator))
    refuse_other_data(run.manifest.data, data.manifest, run.directory)
    size = (run.manifest.data_content or {"settings": {"slate_size": data.slate_size}})["settings"]["slate_size"]
    if size != data.slate_size:
        raise UserError(
            f"{run.directory}: shows slates of {size}, and {path} has slates of {data.slate_size}; "
            f"prepare it with --slate-size {size}"
        )
    return data


def changed_data(run: Run, data: SlateData) -> str | None:
    """What of a data set is not as it was when a run began, though its users and items be the same."""
    its_content, content = run.manifest.data_content, content_of(data.manifest)
    if its_content is None or its_content == content:
        return None
    files = [name for name, checksum in content["files"].items() if checksum != its_content["files"].get(name)]
    what = [*files, *(name for name in ("weights", "settings") if content[name] != its_content[name])]
    return f"{run.directory}: its data set has changed since it began ({', '.join(what)})"


def users_of(run: Run, data: SlateData, path: Path | str | None = None, may_differ: bool = True) -> Users:
    """The simulated users a run was made with, or those at a path: others, or the same at another place."""
    place = run.manifest.simulator_path if path is None else path
    if place is None:
        raise UserError(f"{run.directory}: was trained without a simulator; name one with --simulator")
    is_its_own, path = path is None, Path(place)
    if is_its_own and not path.exists():
        raise UserError(f"{path}: the simulator of this run is not there; say with --simulator where it is")
    # Plots that lie beside the weights may be drawn anew.
    its_files, its_rho = run.manifest.simulator_files or {}, run.manifest.simulator_rho
    manifest = read_simulator_manifest(path)
    is_same = manifest.files[WEIGHTS] == its_files.get(WEIGHTS) and its_rho in (None, manifest.rho)
    if (is_its_own or not may_differ) and not is_same:
        raise UserError(f"{path}: not the simulator of this run, or changed since; name another with --simulator")
    return open_users(path, data, run.manifest.settings)
