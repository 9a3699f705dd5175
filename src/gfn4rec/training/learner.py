"""Gradient steps on a policy's loss: the only place where its weights change."""

from collections.abc import Callable, Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from gfn4rec.config import StrictConfig
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.growth import grown
from gfn4rec.schema import SlateBatch
from gfn4rec.seeding import stream_seed, torch_generator
from gfn4rec.training.group import Group
from gfn4rec.training.optimisation import (
    cosine_share,
    load_optimizer_tensors,
    optimizer_tensors,
    require_finite,
    with_rows_of,
)
from gfn4rec.training.recording import MetricsLine


class LearnerConfig(StrictConfig):
    """How the weights of a policy are learned."""

    learning_rate: float = Field(default=1e-3, gt=0)
    """Adam's learning rate."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Whether the learning rate stays constant or decreases along a cosine."""
    final_share: float = Field(default=0.05, gt=0, le=1)
    """Share of the learning rate that is left at the end of the cosine."""
    weight_decay: float = Field(default=0.0, ge=0)
    """Weight of the L2 penalty on the weights."""
    clip_norm: float = Field(default=10.0, gt=0)
    """Gradients with a larger norm are scaled down to this norm."""
    tensorboard: bool = False
    """Whether metrics are also written as TensorBoard events (extra `tensorboard`)."""


class Learner:
    """Adam with gradient clipping and a schedule. In a group, gradients are averaged over its processes.

    The cosine schedule needs the number of learning steps; without it the learning rate is constant. `shares` has, by
    the name of a module of the policy, the share of the steps at which its schedule ends, if not at the last.
    """

    def __init__(
        self,
        policy: Policy,
        config: LearnerConfig,
        seed: int = 0,
        num_steps: int | None = None,
        group: Group = Group(),  # noqa: B008
        shares: Mapping[str, float] | None = None,
    ) -> None:
        self.config, self.num_steps, self.seed = config, num_steps, seed
        self.step = 0
        self.group, self._shares = group, shares or {}
        self._generator = torch_generator(seed, group.stream("learner"), policy.catalogue.weight_R.device)
        self._take(policy)

    def _take(self, policy: Policy) -> None:
        """Learn this policy from now on, with a new optimiser."""
        self.policy = policy
        # Adam refuses an empty list of parameters, which a policy without weights would give it.
        learned = {name: weight for name, weight in policy.named_parameters() if weight.requires_grad}
        named = learned or {"": nn.Parameter(torch.zeros(1))}
        self._weights = list(named.values())
        by_share: dict[float, list[nn.Parameter]] = {}
        for name, weight in named.items():
            by_share.setdefault(self._shares.get(name.partition(".")[0], 1.0), []).append(weight)
        groups = [{"params": weights, "share": share} for share, weights in by_share.items()]
        self._optimizer = torch.optim.Adam(
            groups, lr=self.config.learning_rate, weight_decay=self.config.weight_decay, fused=True
        )
        loss: Callable[..., Tensor] = _LossModule(policy)
        if self.group.size > 1:
            # Stages and objectives leave some weights without a gradient.
            loss = DistributedDataParallel(_LossModule(policy), find_unused_parameters=True)
        self._loss = loss

    def learn(self, batch: SlateBatch) -> MetricsLine:
        """Make one gradient step on a batch; return the loss, the gradient's norm and, as `terms`, the loss's parts."""
        self.policy.train()
        with torch.random.fork_rng(devices=[]):  # dropout draws from the global generator
            torch.manual_seed(stream_seed(self.seed, self.group.stream(f"dropout/{self.step}")))
            terms: dict[str, Tensor] = {}
            loss = self._loss(batch, self._generator, self.step, terms)
            value = float(loss.detach())
            require_finite("loss", value, batch)
            for group in self._optimizer.param_groups:
                group["lr"] = self.learning_rate(group["share"])
            self._optimizer.zero_grad(set_to_none=True)
            loss.backward()
            norm = float(nn.utils.clip_grad_norm_(self._weights, self.config.clip_norm))
            require_finite("norm of the gradient", norm, batch)
            self._optimizer.step()
        self.step += 1
        # The parts have names of their own, which must not collide with those of other metrics.
        return {"loss": value, "gradient_norm": norm, "terms": {name: float(term) for name, term in terms.items()}}

    def grow(self, catalogue: Catalogue) -> None:
        """Go on with a policy for more items; Adam's moments of their weights begin at 0."""
        state = optimizer_tensors(self._optimizer)
        self._take(grown(self.policy, catalogue))
        load_optimizer_tensors(self._optimizer, with_rows_of(self._optimizer, state))

    def learning_rate(self, share: float = 1.0) -> float:
        """Return the learning rate of the next step, for modules whose schedule ends after a share of the steps."""
        if self.config.schedule == "constant" or self.num_steps is None:
            return self.config.learning_rate
        return self.config.learning_rate * cosine_share(
            min(1.0, self.step / max(1, share * self.num_steps)), self.config.final_share
        )

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that changes from step to step, except the policy's weights."""
        state = {"step": torch.tensor(self.step), "generator": self._generator.get_state()}
        return state | optimizer_tensors(self._optimizer)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue where `state_dict` was taken."""
        self.step = int(state["step"])
        self._generator.set_state(state["generator"])
        load_optimizer_tensors(self._optimizer, state)


class _LossModule(nn.Module):
    """The loss as the forward pass of a module, which data-parallel training needs."""

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, batch: SlateBatch, generator: torch.Generator, step: int, terms: dict[str, Tensor]) -> Tensor:
        loss = self.policy.loss(batch, generator, step)
        terms.update(loss.terms)
        return loss.loss
