"""ListCVAE: a conditional variational autoencoder over whole slates; the condition is the slate's reward."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.nn.mlp import mlp
from gfn4rec.nn.sampling import Choosing
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Loss, Plan, Policy
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Request, SlateBatch

_LOG_VARIANCE_RANGE = (-10.0, 10.0)


class ListCVAEConfig(BackboneConfig):
    """Settings of ListCVAE."""

    latent_dim: int = Field(default=16, ge=1)
    """Width of z."""
    beta: float = Field(default=0.1, ge=0)
    """Weight of the divergence between posterior and prior."""


class ListCVAE(Policy):
    """Decodes K queries at once from (z, condition, user); the items are then drawn one by one, all different.

    The latent that comes with a proposal is z in units of the prior's deviation from its mean. Log-probabilities are
    conditional on it, and on its being 0, the mean, if it is not given.
    """

    description: ClassVar = "a conditional VAE over the whole slate, asked for the maximum reward"
    Config: ClassVar = ListCVAEConfig
    config: ListCVAEConfig

    def __init__(self, catalogue: Catalogue, config: ListCVAEConfig) -> None:
        super().__init__(catalogue, config)
        dim, state_dim, size = config.encoder.dim, config.encoder.state_dim, catalogue.slate_size
        self.backbone = Backbone(catalogue, config)
        self.condition = nn.Linear(1, dim)
        self.prior = mlp(state_dim + dim, config.hidden_dims, 2 * config.latent_dim)
        self.posterior = mlp(state_dim + dim + size * dim, config.hidden_dims, 2 * config.latent_dim)
        self.decoder = mlp(state_dim + dim + config.latent_dim, config.hidden_dims, size * dim)
        self.query_norm = nn.LayerNorm(dim)

    @override
    def draw_latent(
        self, num_requests: int, how: Choosing, generator: torch.Generator | None, device: torch.device
    ) -> Tensor | None:
        """Noise in proportion to the temperature; greedy takes the prior's mean."""
        shape = (num_requests, self.config.latent_dim)
        if how.greedy:
            return torch.zeros(shape, device=device)
        noise_BZ = torch.randn(shape, generator=generator, device=device) * how.temperature
        return noise_BZ if how.greedy_B is None else noise_BZ.masked_fill_(how.greedy_B[:, None], 0.0)

    @override
    def plan(
        self, request: Request, candidates: Candidates, slate_BK: Tensor | None = None, latent_BZ: Tensor | None = None
    ) -> Plan:
        """The slates that go with the maximum reward."""
        state_BS, table_ND = self.backbone.encode(request)
        known_BX = self._known(state_BS, torch.ones_like(state_BS[:, :1]))
        mean_BZ, log_variance_BZ = self._gaussian(self.prior(known_BX))
        noise_BZ = torch.zeros_like(mean_BZ) if latent_BZ is None else latent_BZ
        return self._decode(known_BX, mean_BZ + (log_variance_BZ / 2).exp() * noise_BZ, table_ND, candidates)

    def _known(self, state_BS: Tensor, condition_B1: Tensor) -> Tensor:
        return torch.cat([state_BS, self.condition(condition_B1)], dim=1)

    def _gaussian(self, parameters_BX: Tensor) -> tuple[Tensor, Tensor]:
        mean_BZ, log_variance_BZ = parameters_BX.chunk(2, dim=1)
        return mean_BZ, log_variance_BZ.clamp(*_LOG_VARIANCE_RANGE)

    def _decode(self, known_BX: Tensor, z_BZ: Tensor, table_ND: Tensor, candidates: Candidates) -> Plan:
        size = self.catalogue.slate_size
        query_BKD: Tensor = self.query_norm(self.decoder(torch.cat([known_BX, z_BZ], dim=1)).unflatten(1, (size, -1)))
        shelf = candidates.shelf(table_ND, self.backbone.scoring_dtype)
        return Plan(candidates, shelf, lambda _, steps: query_BKD[:, steps.start : steps.stop])

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode(self.backbone.hide_users(batch.request, generator))
        known_BX = self._known(state_BS, self.catalogue.scale_reward(batch.reward_B)[:, None])
        slate_BX = F.embedding(batch.slate_BK, table_ND).flatten(1)
        mean_BZ, log_variance_BZ = self._gaussian(self.posterior(torch.cat([known_BX, slate_BX], dim=1)))
        prior_mean_BZ, prior_log_variance_BZ = self._gaussian(self.prior(known_BX))
        noise_BZ = torch.randn(mean_BZ.shape, generator=generator, device=mean_BZ.device)
        z_BZ = mean_BZ + (log_variance_BZ / 2).exp() * noise_BZ
        plan = self._decode(known_BX, z_BZ, table_ND, self._candidates(None, batch.request))
        reconstruction = -plan.log_probs(batch.slate_BK).sum(dim=1).mean()
        divergence = gaussian_divergence(mean_BZ, log_variance_BZ, prior_mean_BZ, prior_log_variance_BZ).mean()
        loss = reconstruction + self.config.beta * divergence
        return Loss(loss, {"reconstruction": reconstruction, "divergence": divergence})


def gaussian_divergence(
    mean_BZ: Tensor, log_variance_BZ: Tensor, prior_mean_BZ: Tensor, prior_log_variance_BZ: Tensor
) -> Tensor:
    """KL(posterior || prior) of Gaussians with diagonal covariance, per row."""
    ratio_BZ = (log_variance_BZ - prior_log_variance_BZ).exp()
    distance_BZ = (mean_BZ - prior_mean_BZ).square() * (-prior_log_variance_BZ).exp()
    return 0.5 * (ratio_BZ + distance_BZ - 1 - log_variance_BZ + prior_log_variance_BZ).sum(dim=1)
