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

    A checkpoint's policy has the best weights so far, or the current ones before the first evaluation. Parts of a
    policy (`Policy.parts`) have their own best weights. A part that no longer improves, or has learned for its share of
    the steps, gets them back and is frozen, and the rest goes on learning beside it.
    """

    def __init__(self, policy: Policy, config: OfflineConfig, num_steps: int, seed: int, group: Group) -> None:
        self.step, self.seconds = 0, 0.0
        self.policy, self._patience = policy, config.patience
        policy.frozen = set()
        shares = {name: part.learning_share for name, part in policy.parts.items()}
        self.learner = Learner(policy, config, seed, num_steps, group, shares)
        self._last_steps = {name: share * num_steps if share < 1 else float("inf") for name, share in shares.items()}
        self.validations: list[Validation] = []
        self.best = _copy(policy.state_dict())

    def validate(self, losses: dict[str, float]) -> None:
        """Remember the validation losses of the parts, and their weights where the loss is the lowest so far."""
        losses = {part: self._lowest(part) for part in self.policy.frozen} | losses
        for part, loss in losses.items():
            if loss < self._lowest(part):
                self.best |= _copy(_of_parts(self.policy, self.policy.state_dict(), {part}))
        validation = Validation(step=self.step, loss=sum(losses.values()), parts=losses)
        self.validations.append(validation)
        learning = (losses.keys() & self._last_steps.keys()) - self.policy.frozen
        if frozen := {part for part in learning if self.step >= self._last_steps[part] or self._has_stopped(part)}:
            self.policy.load_state_dict({**self.policy.state_dict(), **_of_parts(self.policy, self.best, frozen)})
            self.policy.frozen |= frozen
            self.validations[-1] = validation.model_copy(update={"frozen": tuple(sorted(frozen))})
            # Earlier losses of the rest were those beside other weights, so its best begins here.
            self.best |= _copy(_of_parts(self.policy, self.policy.state_dict(), {""}))

    def has_converged(self) -> bool:
        """Return whether the lowest validation loss of every part is too many evaluations ago."""
        parts = self.validations[-1].parts if self.validations else {}
        return bool(parts) and all(part in self.policy.frozen or self._has_stopped(part) for part in parts)

    def kept(self) -> Validation:
        """Return the loss of the kept weights, and the step after which the newest of them were kept."""
        # If a part was frozen by the last evaluation, the rest has the weights of that evaluation.
        losses = {part: self._losses(part) or [loss] for part, loss in self.validations[-1].parts.items()}
        lowest = {part: min(values) for part, values in losses.items()}
        ages = (len(values) - 1 - values.index(min(values)) for values in losses.values())
        return Validation(step=self.validations[-1 - min(ages)].step, loss=sum(lowest.values()), parts=lowest)

    def _lowest(self, part: str) -> float:
        return min(self._losses(part), default=float("inf"))

    def _has_stopped(self, part: str) -> bool:
        return has_stopped_improving(self._losses(part), self._patience, min)

    def _losses(self, part: str) -> list[float]:
        """Return the validation losses of a part; those of the rest begin after a part was last frozen."""
        start = 0
        if not part:
            start = max((number for number, one in enumerate(self.validations, 1) if one.frozen), default=0)
        return [validation.parts[part] for validation in self.validations[start:] if part in validation.parts]

    def finish(self, data: SlateData) -> None:
        """Choose for the best weights what is chosen on validation slates."""
        current = _copy(self.policy.state_dict())
        self.policy.load_state_dict(self.best)
        choose_reward_scale(self.policy, data)
        self.best = _copy(self.policy.state_dict())
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
        self.validations = [
            # Runs of earlier versions have one loss for all parts.
            validation if validation.parts else validation.model_copy(update={"parts": {"": validation.loss}})
            for validation in checkpoint.progress.validations
        ]
        self.best = checkpoint.tensors[POLICY]
        self.policy.load_state_dict(checkpoint.tensors["current"])
        self.policy.frozen = {part for validation in self.validations for part in validation.frozen}
        self.learner.load_state_dict(checkpoint.tensors[part_name("learner", group)])


def train_offline(
    run: Run,
    policy: Policy,
    data: SlateData,
    users: Users | None = None,
    group: Group = Group(),  # noqa: B008
    report: Callable[[int, MetricsLine], None] = lambda *_: None,
) -> RunResults | None:
    """Train until the validation loss of every part stops improving, from the last checkpoint if there is one.

    Return None if asked to stop before, and in all processes of a group but the first.
    """
    config, seed = run.settings.training, run.settings.seed
    assert isinstance(config, OfflineConfig)
    slates = _training_slates(data, policy, run.settings.policy, config)
    config.refuse_idle(policy.config.idle_steps, "settings", len(slates))
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
                    losses = _validation_losses(policy, data, config)
                    require_finite("validation loss", sum(losses.values()))
                state.validate(losses)
                if writer:
                    writer.write(state.step, {"validation_loss": state.validations[-1].loss})
            is_over = is_last or state.has_converged()
            if is_over:
                state.finish(data)
            if is_over or is_ending or state.step % config.checkpoint_every == 0:
                save_state(run, state.step, state.tensors(), state.progress(), writer, group)
            if is_ending and not is_over:
                policy.frozen = set()
                return None
    policy.frozen = set()  # the policy may go on learning elsewhere
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
def _validation_losses(policy: Policy, data: SlateData, config: OfflineConfig) -> dict[str, float]:
    """Return the mean loss of each learning part and of the rest, '', on validation slates.

    Where none are held out, they are training slates. It is the loss of the policy's last stage even while it is in an
    earlier one, so that losses can be compared.
    """
    slates = data.split("val")
    slates = (slates if len(slates) else data.split("train"))[: config.validation_slates]
    generator = torch_generator(0, "validation", data.device)
    policy.eval()
    totals, of_parts = dict[str, float](), {part.term for part in policy.parts.values()}
    for batch in slates.split(_VALIDATION_BATCH):
        loss = policy.loss(data.slates(batch), generator)
        losses = {name: float(loss.terms[part.term]) for name, part in policy.parts.items() if part.term in loss.terms}
        rest = [float(term) for name, term in loss.terms.items() if name not in of_parts]
        if rest or not losses:
            losses[""] = sum(rest) if losses else float(loss.loss)
        for part, value in losses.items():
            totals[part] = totals.get(part, 0.0) + len(batch) * value
    return {part: total / len(slates) for part, total in totals.items()}


def _finish(run: Run, state: OfflineState, data: SlateData, users: Users | None, config: OfflineConfig) -> RunResults:
    """Evaluate the best weights: on the test slates, and in the simulator from the requests before them."""
    policy, test = state.policy, data.split("test")
    policy.load_state_dict(state.best)
    best = state.kept()
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


def _copy(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: weight.clone() for name, weight in weights.items()}


def _of_parts(policy: Policy, weights: dict[str, Tensor], parts: set[str]) -> dict[str, Tensor]:
    """Return the weights of some parts; the rest, '', has those of no other part."""
    names = {name: name.partition(".")[0] for name in weights}
    return {name: weights[name] for name, part in names.items() if (part if part in policy.parts else "") in parts}
