"""The offline loop: learn from the logged training slates until the validation loss stops improving."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import lru_cache

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.evaluation.protocol import evaluate_on_log
from gfn4rec.policies.base import Policy
from gfn4rec.seeding import torch_generator
from gfn4rec.training.config import OfflineConfig
from gfn4rec.training.evaluator import Evaluator, final_held_out
from gfn4rec.training.group import Group
from gfn4rec.training.interruption import asked_to_end
from gfn4rec.training.learner import Learner
from gfn4rec.training.opened_run import Users
from gfn4rec.training.optimisation import has_stopped_improving, require_finite
from gfn4rec.training.recording import MetricsLine
from gfn4rec.training.reward_scale import choose_reward_scale
from gfn4rec.training.run import POLICY, Checkpoint, Progress, Run, RunResults, Validation
from gfn4rec.training.saving import part_name, save_state

_VALIDATION_BATCH = 512


class OfflineState:
    """All that changes from step to step.

    A checkpoint's policy has the best weights so far, or the current ones before the first evaluation.
    """

    def __init__(self, policy: Policy, config: OfflineConfig, num_steps: int, seed: int, group: Group) -> None:
        self.step, self.seconds = 0, 0.0
        self.policy, self._patience = policy, config.patience
        self.learner = Learner(policy, config, seed, num_steps, group)
        self.validations: list[Validation] = []
        self.best = _copy(policy)

    def validate(self, loss: float) -> None:
        """Remember a validation loss, and the weights if it is the lowest."""
        if loss < min((validation.loss for validation in self.validations), default=float("inf")):
            self.best = _copy(self.policy)
        self.validations.append(Validation(step=self.step, loss=loss))

    def has_converged(self) -> bool:
        """Return whether the lowest validation loss is too many evaluations ago."""
        return has_stopped_improving([validation.loss for validation in self.validations], self._patience, min)

    def finish(self, data: SlateData) -> None:
        """Choose for the best weights what is chosen on validation slates."""
        current = _copy(self.policy)
        self.policy.load_state_dict(self.best)
        choose_reward_scale(self.policy, data)
        self.best = _copy(self.policy)
        self.policy.load_state_dict(current)

    def tensors(self) -> dict[str, dict[str, Tensor]]:
        """Return the parts of a checkpoint."""
        best = self.best if self.validations else self.policy.state_dict()
        return {POLICY: best, "current": self.policy.state_dict(), "learner": self.learner.state_dict()}

    def progress(self) -> Progress:
        """Return what a checkpoint knows besides tensors."""
        return Progress(seconds=self.seconds, validations=tuple(self.validations))

    def load(self, checkpoint: Checkpoint, group: Group) -> None:
        """Continue from a checkpoint."""
        self.step, self.seconds = checkpoint.step, checkpoint.progress.seconds
        self.validations = list(checkpoint.progress.validations)
        self.best = checkpoint.tensors[POLICY]
        self.policy.load_state_dict(checkpoint.tensors["current"])
        self.learner.load_state_dict(checkpoint.tensors[part_name("learner", group)])


def train_offline(
    run: Run,
    policy: Policy,
    data: SlateData,
    users: Users | None = None,
    group: Group = Group(),  # noqa: B008
    report: Callable[[int, MetricsLine], None] = lambda *_: None,
) -> RunResults | None:
    """Train until the validation loss stops improving, from the last checkpoint if there is one.

    Return None if asked to stop before, and in all processes of a group but the first.
    """
    config, seed = run.settings.training, run.settings.seed
    assert isinstance(config, OfflineConfig)
    slates = _training_slates(data, policy, run.settings.policy, config)
    num_steps = config.steps_on(len(slates))
    state = OfflineState(policy, config, num_steps, seed, group)
    checkpoint = run.load_checkpoint()
    if checkpoint is not None:
        state.load(checkpoint, group)
    if group.is_first:
        run.forget_after(state.step)
    # The first process writes the metrics of all.
    writer = run.metrics_writer(state.step + 1) if group.is_first else None
    with writer or nullcontext(), asked_to_end() as is_asked:
        while state.step < num_steps and not state.has_converged():
            start = time.perf_counter()
            batch = data.slates(_batch(slates, state.step, config.learning_batch, seed, group))
            with run.keeping_bad_batch(state.step + 1):
                metrics = state.learner.learn(batch)
            state.step += 1
            state.seconds += time.perf_counter() - start
            report(state.step, {**metrics, "num_steps": num_steps})
            is_ending, is_last = any(group.gather(is_asked())), state.step == num_steps
            if writer:
                writer.write(state.step, {**metrics, "seconds": state.seconds})
            if is_last or state.step % config.evaluate_every == 0:
                with run.keeping_bad_batch(state.step):
                    loss = _validation_loss(policy, data, config)
                    require_finite("validation loss", loss)
                state.validate(loss)
                if writer:
                    writer.write(state.step, {"validation_loss": state.validations[-1].loss})
            is_over = is_last or state.has_converged()
            if is_over:
                state.finish(data)
            if is_over or is_ending or state.step % config.checkpoint_every == 0:
                save_state(run, state.step, state.tensors(), state.progress(), writer, group)
            if is_ending and not is_over:
                return None
    results = _finish(run, state, data, users, config) if group.is_first else None
    group.barrier()  # the results exist when any process returns
    return results


def _training_slates(data: SlateData, policy: Policy, name: str, config: OfflineConfig) -> Tensor:
    """Return the slates to learn from; there must be a batch of them, and something to learn."""
    if not policy.is_learned:
        raise UserError(f"policy {name} has nothing to learn")
    slates = data.split("train")
    if len(slates) < config.learning_batch:
        problem = f"there are {len(slates)} training slates, fewer than learning_batch {config.learning_batch}"
        raise UserError(f"{problem}; lower it, or prepare the data set with a lower --core")
    return slates


def _batch(slates: Tensor, step: int, size: int, seed: int, group: Group) -> Tensor:
    """Return this process's part of the batch of a step; each pass over the slates has its own random order."""
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
    """Return the mean loss of the validation slates, or of the training slates where none are held out.

    It is the loss of the policy's last stage even while it is in an earlier one, so that losses can be compared.
    """
    slates = data.split("val")
    slates = (slates if len(slates) else data.split("train"))[: config.validation_slates]
    generator = torch_generator(0, "validation", data.device)
    policy.eval()
    total = 0.0
    for batch in slates.split(_VALIDATION_BATCH):
        total += len(batch) * float(policy.loss(data.slates(batch), generator).loss)
    return total / len(slates)


def _finish(run: Run, state: OfflineState, data: SlateData, users: Users | None, config: OfflineConfig) -> RunResults:
    """Evaluate the best weights: on the test slates, and in the simulator from the requests before them."""
    policy, test = state.policy, data.split("test")
    policy.load_state_dict(state.best)
    best = min(state.validations, key=lambda validation: validation.loss)
    metrics: dict[str, dict[str, float]] = {}
    if users is not None:
        evaluator = Evaluator(policy, users, "offline", run.settings.seed)
        metrics = evaluator.evaluate(config.final_batches, state.learner.step)
    results = RunResults(
        step=state.step,
        seconds=state.seconds,
        greedy=metrics.get("greedy"),
        sampled=metrics.get("sampled"),
        test=evaluate_on_log(policy, data, batch_size=min(128, len(test))) if len(test) else None,
        held_out=final_held_out(policy, data),
        best_step=best.step,
        validation_loss=best.loss,
    )
    run.finish(results)
    return results


def _copy(policy: Policy) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in policy.state_dict().items()}
