"""A policy that learns: the only place where its weights change."""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gfn4rec.config import StrictConfig
from gfn4rec.policies.base import Loss, Policy
from gfn4rec.schema import SlateBatch
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.training.group import Group


class LearnerConfig(StrictConfig):
    """How weights change."""

    learning_rate: float = Field(default=1e-3, gt=0)
    """Of Adam."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Whether the learning rate stays, or falls along a cosine."""
    final_share: float = Field(default=0.05, gt=0, le=1)
    """Share of the learning rate that is left at the end of the cosine."""
    weight_decay: float = Field(default=0.0, ge=0)
    """L2 penalty of the weights."""
    clip_norm: float = Field(default=10.0, gt=0)
    """Longest gradient; longer ones are shortened to it."""
    tensorboard: bool = False
    """Whether metrics are written as TensorBoard events, too (extra `tensorboard`)."""


class NotFinite(Exception):  # noqa: N818
    """The loss of a batch, or the length of its gradient, is not a finite number."""

    def __init__(self, what: str, value: float, batch: SlateBatch) -> None:
        super().__init__(f"the {what} is {value}")
        self.batch = batch


class Learner:
    """Adam with clipped gradients and a schedule. In a group, gradients are averaged over its processes."""

    def __init__(self, policy: Policy, config: LearnerConfig, num_steps: int, seed: int, group: Group) -> None:
        self.policy, self.config, self.num_steps, self.seed = policy, config, num_steps, seed
        self.step = 0
        self.group = group
        self._generator = torch_generator(seed, group.stream("learner"), policy.catalogue.weight_R.device)
        # An optimiser wants something to hold, even for a policy that has nothing to learn.
        weights = [weight for weight in policy.parameters() if weight.requires_grad] or [nn.Parameter(torch.zeros(1))]
        self._optimizer = torch.optim.Adam(
            weights, lr=config.learning_rate, weight_decay=config.weight_decay, fused=True
        )
        self._weights = weights
        loss: Callable[..., Tensor] = _LossModule(policy)
        if group.size > 1:
            # What a stage or an objective leaves out has no gradient in it.
            loss = DistributedDataParallel(_LossModule(policy), find_unused_parameters=True)
        self._loss = loss

    def learn(self, batch: SlateBatch) -> dict[str, Any]:
        """One step down the gradient of a batch; the loss and, as `terms`, its parts."""
        self.policy.train()
        with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator
            torch.manual_seed(stream_seed(self.seed, self.group.stream(f"dropout/{self.step}")))
            terms: dict[str, Tensor] = {}
            loss = self._loss(batch, self._generator, self.step, terms)
            value = float(loss.detach())
            if not math.isfinite(value):
                raise NotFinite("loss", value, batch)
            for group in self._optimizer.param_groups:
                group["lr"] = self.learning_rate()
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = float(nn.utils.clip_grad_norm_(self._weights, self.config.clip_norm))
            if not math.isfinite(norm):  # before it gets into the weights
                raise NotFinite("length of the gradient", norm, batch)
            self._optimizer.step()
        self.step += 1
        # The parts have names of their own, which must not meet those of other metrics.
        return {"loss": value, "gradient_norm": norm, "terms": {name: float(term) for name, term in terms.items()}}

    def learning_rate(self) -> float:
        """Of the next step."""
        if self.config.schedule == "constant":
            return self.config.learning_rate
        share, progress = self.config.final_share, min(1.0, self.step / max(1, self.num_steps))
        return self.config.learning_rate * (share + (1 - share) * (1 + math.cos(math.pi * progress)) / 2)

    def state_dict(self) -> dict[str, Tensor]:
        """All that changes from step to step, the policy's weights apart."""
        state = {"step": torch.tensor(self.step), "generator": self._generator.get_state()}
        return state | optimizer_tensors(self._optimizer)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        self.step = int(state["step"])
        self._generator.set_state(state["generator"])
        load_optimizer_tensors(self._optimizer, state)


class _LossModule(nn.Module):
    """The loss as a module's forward pass, as data-parallel training wants it."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: SlateBatch, generator: torch.Generator, step: int, terms: dict[str, Tensor]) -> Tensor:
        made: Loss = self.policy.loss(batch, generator, step)
        terms.update(made.terms)
        return made.loss


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser as named tensors."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{number}.{name}": value for number, values in state.items() for name, value in values.items()}


def load_optimizer_tensors(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """Put them back; other names are left alone."""
    state = optimizer.state_dict()
    for key, value in tensors.items():
        if key.startswith("optimizer."):
            _, number, name = key.split(".")
            state["state"].setdefault(int(number), {})[name] = value
    optimizer.load_state_dict(state)
