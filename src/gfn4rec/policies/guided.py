"""What the prior-guided and the anchored GFN share: a flow on top of a prior and of a reward model.

The logits of a step are log pi0(i|u) + s (r(u, i) + correction(u, prefix, i)), where s = beta / K is the scale of the
reward against the prior pi0. At inference `Sampling.reward_weight` multiplies s.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from gfn4rec.nn.scoring import SharedScores, pointwise_log_probs, step_log_probs
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.objectives.flow import FlowBatch
from gfn4rec.policies.backbone import Backbone, BackboneConfig, PolicyEncoderConfig
from gfn4rec.policies.base import Context, Loss, Plan, Policy
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.correction import Correction
from gfn4rec.policies.flow_config import ObjectiveConfig
from gfn4rec.policies.pointwise import PointwiseHead
from gfn4rec.schema import Request, SlateBatch


class LightEncoderConfig(PolicyEncoderConfig):
    """Sizes of a request encoder with one transformer layer, which learns faster than the paper's two."""

    num_layers: int = Field(default=1, ge=1)


class GuidedConfig(ObjectiveConfig):
    """Settings of a flow on top of a prior and a reward model."""

    objective: str = "fl-db"
    encoder: LightEncoderConfig = LightEncoderConfig()
    """Sizes of the reward model's request encoder."""
    correction_dim: int = Field(default=32, ge=1)
    """Width of the correction's item vectors."""
    correct_logged: bool = True
    """Whether the correction learns from logged slates, too."""


class RewardModel(nn.Module):
    """Predicts the reward of an item from the request alone."""

    def __init__(self, catalogue: Catalogue, config: BackboneConfig) -> None:
        super().__init__()
        self.backbone = Backbone(catalogue, config)
        self.head = PointwiseHead(config)

    def read(self, request: Request, weight_R: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what the backbone's `encode` does, and the mean squared error of the rewards in the histories.

        The reward of an event is predicted from the events before it.
        """
        request, table_ND = self.backbone.encoder.latest(request), self.backbone.item_table()
        state_BTS = self.backbone.encoder.prefixes(request, table_ND)
        is_event_BH = request.history_BH > 0
        item_X, reward_X = request.history_BH[is_event_BH], request.response_BHR[is_event_BH] @ weight_R
        predicted_X1 = self.head.scores(state_BTS[:, :-1][is_event_BH], table_ND, item_X[:, None])
        error = (predicted_X1[:, 0] - reward_X).square().sum() / max(1, len(item_X))
        return state_BTS[:, -1], table_ND, error


@dataclass(frozen=True)
class Guide:
    """What is known before the first item is chosen: a query per request and a vector per item, of each part."""

    prior_query_BD: Tensor
    prior_ND: Tensor
    reward_query_BD: Tensor
    reward_ND: Tensor
    offset_B: Tensor  # r(u, i) is the product of query and vector plus this
    state_BS: Tensor  # for the correction
    correction_ND: Tensor

    def rewards(self, item_BK: Tensor) -> Tensor:
        """Return the predicted rewards of items, (B, K)."""
        product_BK = (F.embedding(item_BK, self.reward_ND) @ self.reward_query_BD[:, :, None])[:, :, 0]
        return product_BK + self.offset_B[:, None]

    def uncorrected(self, scale_B: Tensor) -> SharedScores:
        """Return the scores of prior and reward model, which are the same at every step."""
        query_BD = torch.cat([self.prior_query_BD, scale_B[:, None] * self.reward_query_BD], dim=1)
        return SharedScores(query_BD, torch.cat([self.prior_ND, self.reward_ND], dim=1))

    def detached(self) -> "Guide":
        """Return the same without gradients, except those of the correction's item vectors."""
        parts = (self.reward_query_BD, self.reward_ND, self.offset_B)
        query_BD, table_ND, offset_B = (part.detach() for part in parts)
        return replace(self, reward_query_BD=query_BD, reward_ND=table_ND, offset_B=offset_B)


@dataclass(frozen=True)
class GuidedSlates:
    """Given slates with what the policy computes for them."""

    log_flow_BT: Tensor  # after 0 .. K items
    log_pf_BK: Tensor  # relative to the prior
    reward_BK: Tensor  # predicted


@dataclass(frozen=True)
class PriorScores:
    """What a prior makes of requests: log pi0(i|u) is the product of query and vector, up to a constant."""

    query_BD: Tensor
    vector_ND: Tensor
    state_BS: Tensor  # for the correction


class GuidedGFN(Policy):
    """A flow whose probabilities are relative to a prior, and which starts at the predictions of a reward model."""

    config: GuidedConfig
    scale: Tensor

    def __init__(self, catalogue: Catalogue, config: GuidedConfig, prior_state_dim: int, scale: float) -> None:
        super().__init__(catalogue, config)
        self.reward = RewardModel(catalogue, config)
        self.correction = Correction(
            catalogue.num_items,
            catalogue.slate_size,
            config.encoder.state_dim + prior_state_dim,
            config.encoder.dim,
            config.correction_dim,
            config.hidden_dims,
        )
        self.register_buffer("scale", torch.tensor(scale))

    @abstractmethod
    def _prior(self, request: Request) -> PriorScores:
        """Return the prior's scores, without gradients."""

    def _prior_terms(
        self,
        request: Request,  # noqa: ARG002
        candidates: Candidates,  # noqa: ARG002
        slate_BK: Tensor,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """Return the losses by which the prior learns from logged slates; none if it does not learn."""
        return {}

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan whose queries are those of the correction, on top of the scores of prior and reward model."""
        guide, candidates = self._guide(context.request), context.candidates
        scale_B = (self.scale * context.reward_weight).to(self.scale.dtype).expand(len(guide.state_BS))

        def queries(slate_BK: Tensor, steps: range) -> Tensor:
            prefix_BTX = self.correction.prefixes(guide.state_BS, slate_BK, guide.correction_ND, steps)
            return scale_B[:, None, None] * self.correction.queries(prefix_BTX)

        dtype = self.reward.backbone.scoring_dtype
        return Plan(candidates, candidates.matrix(guide.correction_ND, dtype, guide.uncorrected(scale_B)), queries)

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the predicted rewards."""
        return self._guide(request).rewards(slate_BK)

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        request = self.reward.backbone.hide_users(batch.request, generator)
        candidates, terms = self._candidates(None, request), dict[str, Tensor]()
        if batch.is_logged and self.training:  # the histories of held-out slates were learned from
            state_BS, table_ND, terms["history"] = self.reward.read(request, self.catalogue.weight_R)
        else:
            state_BS, table_ND = self.reward.backbone.encode(request)
        guide = self._guide(request, (state_BS, table_ND))
        terms["reward"] = (guide.rewards(batch.slate_BK) - batch.item_reward_BK).square().mean()
        if batch.is_logged:
            terms |= self._prior_terms(request, candidates, batch.slate_BK)
        if not batch.is_logged or self.config.correct_logged:
            terms |= self._flow_terms(guide, candidates, batch)
        return Loss(torch.stack(list(terms.values())).sum(), terms)

    @override
    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the rewards for which the residual of trajectory balance is 0."""
        slates = self._slates(self._guide(request), self._candidates(None, request), slate_BK)
        return (slates.log_flow_BT[:, 0] + slates.log_pf_BK.sum(dim=1)) / (self.scale * slate_BK.shape[1])

    def _guide(self, request: Request, encoded: tuple[Tensor, Tensor] | None = None) -> Guide:
        """Return the guide of requests; `encoded` is what the reward model's backbone makes of them, if it is known.

        Only the reward model's predictions and the correction have gradients.
        """
        state_BS, table_ND = encoded or self.reward.backbone.encode(request)
        prior = self._prior(request)
        return Guide(
            prior.query_BD,
            prior.vector_ND,
            self.reward.head.queries(state_BS),
            table_ND,
            self.reward.head.offset(state_BS)[:, 0],
            torch.cat([state_BS.detach(), prior.state_BS], dim=1),
            self.correction.table(table_ND.detach()),
        )

    def _flow_terms(self, guide: Guide, candidates: Candidates, batch: SlateBatch) -> dict[str, Tensor]:
        """Return the penalties of the objective's residuals, in units of the reward."""
        objective, slates = OBJECTIVES[self.config.objective], self._slates(guide, candidates, batch.slate_BK)
        credited_BK = {"none": None, "observed": batch.item_reward_BK, "predicted": slates.reward_BK}[objective.gains]
        flow = FlowBatch(
            log_flow_BT=slates.log_flow_BT if objective.needs_node_flows else slates.log_flow_BT[:, :1],
            log_pf_BK=slates.log_pf_BK,
            log_reward_B=self.scale * batch.item_reward_BK.sum(dim=1),
            gain_BK=None if credited_BK is None else self.scale * credited_BK,
            decay=self.config.decay,
        )
        penalty = PENALTIES[self.config.penalty]
        residuals = objective.residuals(flow)
        return {name: penalty(residual / self.scale).mean() for name, residual in residuals.items()}

    def _slates(self, guide: Guide, candidates: Candidates, slate_BK: Tensor) -> GuidedSlates:
        """Return the flows and probabilities of given slates. Only the correction has gradients."""
        guide = guide.detached()
        column_BK, dtype = candidates.columns(slate_BK), self.reward.backbone.scoring_dtype
        steps = range(slate_BK.shape[1] + 1)
        prefix_BTX = self.correction.prefixes(guide.state_BS, slate_BK, guide.correction_ND, steps)
        query_BKD = self.scale * self.correction.queries(prefix_BTX[:, :-1])
        shared = guide.uncorrected(self.scale.expand(len(slate_BK)))
        log_prob_BK = step_log_probs(query_BKD, candidates.matrix(guide.correction_ND, dtype, shared), column_BK)
        with torch.no_grad():
            prior_BK = pointwise_log_probs(guide.prior_query_BD, candidates.matrix(guide.prior_ND, dtype), column_BK)
            log_prob_B = pointwise_log_probs(shared.query_BD, candidates.matrix(shared.vector_ND, dtype), column_BK)[
                :, 0
            ]
            start_BT = self._uncorrected_flows(guide.rewards(slate_BK), log_prob_B - prior_BK[:, 0])
        log_flow_BT = start_BT + self.scale * self.correction.flows(prefix_BTX)
        return GuidedSlates(log_flow_BT, log_prob_BK - prior_BK, guide.rewards(slate_BK))

    def _uncorrected_flows(self, reward_BK: Tensor, log_ratio_B: Tensor) -> Tensor:
        """Return the log flows, (B, T), of prior and reward model alone.

        They are given by the predicted rewards, and by the first item's log-probability relative to the prior. A step
        to come multiplies a flow by the sum of pi0 exp(s r) over all items. Flows start here, so the residuals of a new
        policy are those of the reward model, and feedback noise.
        """
        step_B, size = self.scale * reward_BK[:, 0] - log_ratio_B, reward_BK.shape[1]
        flow_BT = step_B[:, None] * torch.arange(size, -1, -1, device=reward_BK.device)
        if OBJECTIVES[self.config.objective].gains == "none":  # flows hold the rewards of the items so far
            flow_BT[:, 1:] += self.scale * reward_BK.cumsum(dim=1)
        return flow_BT
