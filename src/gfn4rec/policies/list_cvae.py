"""ListCVAE: a conditional variational autoencoder of whole slates, conditioned on their reward."""

from typing import ClassVar

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.nn.mlp import mlp
from gfn4rec.policies.backbone import Backbone, BackboneConfig
from gfn4rec.policies.base import Context, Loss, Plan, Policy
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.draws import Generators, draw_normals
from gfn4rec.schema import Sampling, SlateBatch

_LOG_VARIANCE_RANGE = (-10.0, 10.0)


class ListCVAEConfig(BackboneConfig):
    """Settings of ListCVAE."""

    latent_dim: int = Field(default=16, ge=1)
    """Width of the latent vector."""
    beta: float = Field(default=0.1, ge=0)
    """Weight of the KL divergence between posterior and prior."""


class ListCVAE(Policy):
    """Decodes K queries at once from the latent z, the condition and the request; items are drawn without replacement.

    The latent vector of a proposal is (z - mean) / deviation under the prior. Log-probabilities are conditional on it;
    without it they are those at the prior's mean.
    """

    description: ClassVar = "conditional variational autoencoder of slates, conditioned on the maximum reward"
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
        self, num_requests: int, sampling: Sampling, generator: Generators | None, device: torch.device
    ) -> Tensor | None:
        """Draw noise in proportion to the temperature; greedy takes the prior's mean."""
        width, temperature, greedy = self.config.latent_dim, sampling.temperature, sampling.greedy
        if greedy is True:
            return torch.zeros(num_requests, width, device=device)
        is_greedy_B = greedy if isinstance(greedy, Tensor) else None
        noise_BZ = draw_normals(num_requests, width, generator, device, is_greedy_B)
        return noise_BZ * (temperature[:, None] if isinstance(temperature, Tensor) else temperature)

    @override
    def plan(self, context: Context) -> Plan:
        """Return the plan of slates conditioned on the maximum reward."""
        state_BS, table_ND = self.backbone.encode(context.request)
        known_BX = self._known(state_BS, torch.ones_like(state_BS[:, :1]))
        mean_BZ, log_variance_BZ = self._gaussian(self.prior(known_BX))
        noise_BZ = torch.zeros_like(mean_BZ) if context.latent_BZ is None else context.latent_BZ
        return self._decode(known_BX, mean_BZ + (log_variance_BZ / 2).exp() * noise_BZ, table_ND, context.candidates)

    def _known(self, state_BS: Tensor, condition_B1: Tensor) -> Tensor:
        return torch.cat([state_BS, self.condition(condition_B1)], dim=1)

    def _gaussian(self, parameters_BX: Tensor) -> tuple[Tensor, Tensor]:
        mean_BZ, log_variance_BZ = parameters_BX.chunk(2, dim=1)
        return mean_BZ, log_variance_BZ.clamp(*_LOG_VARIANCE_RANGE)

    def _decode(self, known_BX: Tensor, z_BZ: Tensor, table_ND: Tensor, candidates: Candidates) -> Plan:
        size = self.catalogue.slate_size
        query_BKD: Tensor = self.query_norm(self.decoder(torch.cat([known_BX, z_BZ], dim=1)).unflatten(1, (size, -1)))
        matrix = candidates.matrix(table_ND, self.backbone.scoring_dtype)
        return Plan(candidates, matrix, lambda _, steps: query_BKD[:, steps.start : steps.stop])

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        state_BS, table_ND = self.backbone.encode_to_learn(batch.request, generator)
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
    """Return KL(posterior || prior) of Gaussians with diagonal covariance, (B,)."""
    ratio_BZ = (log_variance_BZ - prior_log_variance_BZ).exp()
    distance_BZ = (mean_BZ - prior_mean_BZ).square() * (-prior_log_variance_BZ).exp()
    return 0.5 * (ratio_BZ + distance_BZ - 1 - log_variance_BZ + prior_log_variance_BZ).sum(dim=1)
