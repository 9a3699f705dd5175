"""The offline loop: learn from the logged training slates until the validation slates say that it is enough."""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.evaluation.protocol import Showing, evaluate_in_simulator, evaluate_on_log
from gfn4rec.policies.base import Policy
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.training.config import OfflineConfig
from gfn4rec.training.group import Group
from gfn4rec.training.interruption import asked_to_end
from gfn4rec.training.learner import Learner
from gfn4rec.training.parts import Users, start_rows
from gfn4rec.training.run import POLICY, Checkpoint, Run
from gfn4rec.training.saving import part_name, save_state
from gfn4rec.training.stopping import keeping_bad_batch

_VALIDATION_BATCH = 512


class OfflineState:
    """All that changes from step to step. The policy of a checkpoint is the best one so far, or as it stands before the
    first look.
    """

    def __init__(self, policy: Policy, config: OfflineConfig, seed: int, group: Group) -> None:
        self.step, self.seconds = 0, 0.0
        self.policy = policy
        self.learner = Learner(policy, config, config.num_steps, seed, group)
        self.looks: list[dict[str, float]] = []  # validation losses
        self.best = _copy(policy)

    def look(self, loss: float) -> None:
        """Remember a validation loss, and the weights if it is the lowest."""
        if loss < min((each["loss"] for each in self.looks), default=float("inf")):
            self.best = _copy(self.policy)
        self.looks.append({"step": self.step, "loss": loss})

    def has_converged(self, patience: int) -> bool:
        """The lowest validation loss is too many looks ago."""
        losses = [each["loss"] for each in self.looks]
        return bool(losses) and len(losses) - 1 - losses.index(min(losses)) >= patience

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """For a checkpoint."""
        best = self.best if self.looks else self.policy.state_dict()
        return {POLICY: best, "current": self.policy.state_dict(), "learner": self.learner.state_dict()}

    def load(self, checkpoint: Checkpoint, group: Group) -> None:
        """Go on from a checkpoint."""
        self.step, self.seconds = checkpoint.step, checkpoint.state["seconds"]
        self.looks = checkpoint.state["looks"]
        self.best = checkpoint.tensors[POLICY]
        self.policy.load_state_dict(checkpoint.tensors["current"])
        self.learner.load_state_dict(checkpoint.tensors[part_name("learner", group)])


def train_offline(
    run: Run,
    policy: Policy,
    data: SlateData,
    users: Users | None,
    group: Group,
    report: Callable[[int, dict[str, Any]], None] = lambda *_: None,
) -> dict[str, Any] | None:
    """Train until it has converged, from the last checkpoint if there is one. None if asked to end before."""
    settings = run.manifest.settings
    config = OfflineConfig.parse(settings.training, "training")
    if not policy.is_learned:
        raise UserError(f"policy {settings.policy} has nothing to learn")
    state = OfflineState(policy, config, settings.seed, group)
    checkpoint = run.load_checkpoint()
    if checkpoint is not None:
        state.load(checkpoint, group)
    if group.is_first:
        run.forget_after(state.step)
    slates, lines = data.split("train"), list[dict[str, Any]]()
    if len(slates) < config.learning_batch:
        told = f"there are {len(slates)} training slates, fewer than learning_batch {config.learning_batch}"
        raise UserError(f"{told}; lower it, or prepare the data set with a lower --core")
    with asked_to_end() as is_asked:
        while state.step < config.num_steps and not state.has_converged(config.patience):
            start = time.perf_counter()
            batch = data.slates(_batch(slates, state.step, config.learning_batch, settings.seed, group))
            with keeping_bad_batch(run, state.step + 1):
                learned = state.learner.learn(batch)
            state.step += 1
            state.seconds += time.perf_counter() - start
            report(state.step, learned)
            lines.append({"step": state.step, **learned, "seconds": state.seconds})
            is_ending, is_last = any(group.gather(is_asked())), state.step == config.num_steps
            if is_last or state.step % config.evaluate_every == 0:
                state.look(_validation_loss(policy, data, config))
                lines.append({"step": state.step, "validation_loss": state.looks[-1]["loss"]})
            is_over = is_last or state.has_converged(config.patience)
            if is_over or is_ending or state.step % config.checkpoint_every == 0:
                summary = {"seconds": state.seconds, "looks": state.looks}
                save_state(run, state.step, state.tensors(), summary, lines, group)
                lines = []
            if is_ending and not is_over:
                return None
    results = _finish(run, state, data, users, config, group)
    group.barrier()  # the results are there when anybody looks
    return results


def _batch(slates: Tensor, step: int, size: int, seed: int, group: Group) -> Tensor:
    """This process's part of the batch of a step: passes over all slates, each in an order of its own."""
    epoch, place = divmod(step, len(slates) // size)
    order = _order(len(slates), epoch, seed)
    share = group.share(size, "learning_batch")
    first = place * size + group.rank * share
    return slates[order[first : first + share].to(slates.device)]


@lru_cache(maxsize=1)
def _order(num_slates: int, epoch: int, seed: int) -> Tensor:
    return torch.randperm(num_slates, generator=torch_generator(seed, f"slates/{epoch}"))


@torch.no_grad()
def _validation_loss(policy: Policy, data: SlateData, config: OfflineConfig) -> float:
    """The mean loss of the validation slates, or of the training ones where none are held out for validation.

    It is the loss of the last stage, also while a policy is in an earlier one: losses of one kind can be compared.
    """
    slates = data.split("val")
    slates = (slates if len(slates) else data.split("train"))[: config.validation_slates]
    generator = torch_generator(0, "validation", data.device)
    policy.eval()
    total = 0.0
    for batch in slates.split(_VALIDATION_BATCH):
        total += len(batch) * float(policy.loss(data.slates(batch), generator).loss)
    return total / len(slates)


def _finish(
    run: Run, state: OfflineState, data: SlateData, users: Users | None, config: OfflineConfig, group: Group
) -> dict[str, Any] | None:
    """The final figures of the best weights: on the test slates, and in the simulator from the requests before them."""
    if not group.is_first:
        return None
    policy = state.policy
    policy.load_state_dict(state.best)
    best = min(state.looks, key=lambda each: each["loss"])
    results: dict[str, Any] = {"step": state.step, "seconds": state.seconds, "best_step": best["step"]}
    results["validation_loss"] = best["loss"]
    test = data.split("test")
    if len(test):
        results["test"] = evaluate_on_log(policy, data, batch_size=min(128, len(test)))
    if users is not None:
        seed = stream_seed(run.manifest.settings.seed, "evaluation users")
        environment = users.environment(seed, start_rows=start_rows("offline", data))
        for name, showing in (("greedy", Showing(greedy=True)), ("sampled", Showing())):
            results[name] = evaluate_in_simulator(policy, environment, showing, config.final_batches, seed)
    run.finish(results)
    return results


def _copy(policy: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.state_dict().items()}
