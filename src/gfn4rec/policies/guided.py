"""What the prior-guided and the anchored GFN share: a flow on top of a prior and of a reward model.

The logits of a step are log pi0(i|u) + s (r(u, i) + e(prefix, i) + correction(u, prefix, i)), where s = beta / K is the
scale of the reward against the prior pi0. At inference `Sampling.reward_weight` multiplies s. The reward model r and
the effects e of items on each other learn to predict responses; the correction learns by the flow objective.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from gfn4rec.config import ADDED_LATER
from gfn4rec.nn.scoring import all_scores, pointwise_log_probs, step_log_probs
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.objectives.flow import FlowBatch
from gfn4rec.policies.backbone import PolicyEncoderConfig
from gfn4rec.policies.base import Context, Loss, Part, Plan, Policy
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.correction import Correction
from gfn4rec.policies.flow_config import ObjectiveConfig
from gfn4rec.policies.log_prior import PriorScores
from gfn4rec.policies.pair_effects import PairEffects, added
from gfn4rec.policies.reward_model import ResponseScores, RewardModel, response_loss
from gfn4rec.schema import Request, SlateBatch


class LightEncoderConfig(PolicyEncoderConfig):
    """Sizes of a request encoder that learns faster than the paper's: one layer, and short id embeddings to start."""

    num_layers: int = Field(default=1, ge=1)
    id_deviation: float = Field(default=0.001, gt=0, json_schema_extra=ADDED_LATER)


class GuidedConfig(ObjectiveConfig):
    """Settings of a flow on top of a prior and a reward model."""

    objective: str = "fl-db"
    encoder: LightEncoderConfig = LightEncoderConfig()
    """Sizes of the reward model's request encoders."""
    num_members: int = Field(default=2, ge=1)
    """Number of networks whose mean is the reward model, and of those whose mean is a learned prior."""
    correction_dim: int = Field(default=32, ge=1)
    """Width of the correction's item vectors."""
    pair_dim: int = Field(default=16, ge=1)
    """Width of the item vectors whose products are the effects of items on each other."""
    history_share: float = Field(default=0.375, ge=0, le=1)
    """Share of logged requests whose histories the reward model learns from; it overfits if it reads them too often."""
    correct_logged: bool = True
    """Whether the correction learns from logged slates, too."""


@dataclass(frozen=True)
class Guide:
    """What is known before the first item is chosen: queries per request and a vector per item, of each part."""

    prior_query_BD: Tensor
    prior_ND: Tensor
    responses: tuple[ResponseScores, ...]  # of each member of the reward model
    weight_R: Tensor  # of the responses in an item's reward
    state_BS: Tensor  # for the correction
    correction_ND: Tensor
    pair_ND: Tensor

    def rewards(self, item_BK: Tensor) -> Tensor:
        """Return the predicted rewards of items, (B, K)."""
        prob_BKR = torch.stack([member.logits(item_BK).sigmoid() for member in self.responses]).mean(dim=0)
        return prob_BKR @ self.weight_R

    def list_vectors(self) -> Tensor:
        """Return the item vectors of correction and pair effects; only the correction has gradients."""
        return torch.cat([self.correction_ND, self.pair_ND.detach()], dim=1)

    @torch.no_grad()
    def scores(self, candidates: Candidates, dtype: torch.dtype | None) -> tuple[Tensor, Tensor]:
        """Return log pi0, up to a constant, and the predicted rewards of all candidates, (B, C).

        What may not be chosen has -inf and 0.
        """
        prior_BC = all_scores(self.prior_query_BD, candidates.matrix(self.prior_ND, dtype))
        reward_BC, weight_R = torch.zeros_like(prior_BC), self.weight_R / len(self.responses)
        for member in self.responses:
            matrix = candidates.matrix(member.vector_ND, dtype)
            for query_BD, weight in zip(member.query_BRD.unbind(dim=1), weight_R, strict=True):
                reward_BC.addcmul_(all_scores(query_BD, matrix).sigmoid_(), weight)
        return prior_BC, reward_BC


@dataclass(frozen=True)
class GuidedSlates:
    """Given slates with what the policy computes for them."""

    log_flow_BT: Tensor  # after 0 .. K items
    log_pf_BK: Tensor  # relative to the prior
    reward_BK: Tensor  # predicted, without the effects of other items
    received_BK: Tensor  # predicted effects of all other items on each item
    added_BK: Tensor  # what each item adds to the sum of these effects, given the items before it


class GuidedGFN(Policy):
    """A flow whose probabilities are relative to a prior, and which starts at the predictions of a reward model."""

    config: GuidedConfig
    scale: Tensor
    parts: ClassVar[Mapping[str, Part]] = {"reward": Part("response", learning_share=0.4)}  # it overfits soonest

    def __init__(self, catalogue: Catalogue, config: GuidedConfig, prior_state_dim: int, scale: float) -> None:
        super().__init__(catalogue, config)
        self.reward = RewardModel(catalogue, config, config.num_members)
        self.correction = Correction(
            catalogue.num_items,
            catalogue.slate_size,
            config.encoder.state_dim + prior_state_dim,
            config.encoder.dim,
            config.correction_dim,
            config.hidden_dims,
        )
        self.pairs = PairEffects(catalogue.num_items, catalogue.slate_size, config.encoder.dim, config.pair_dim)
        self.register_buffer("scale", torch.tensor(scale))

    @abstractmethod
    def _prior(self, request: Request, is_hidden_N: Tensor | None) -> PriorScores:
        """Return the prior's scores, without gradients."""

    def _prior_terms(
        self,
        request: Request,  # noqa: ARG002
        candidates: Candidates,  # noqa: ARG002
        slate_BK: Tensor,  # noqa: ARG002
        is_hidden_N: Tensor | None,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """Return the losses by which the prior learns from logged slates; none if it does not learn."""
        return {}

    @override
    def plan(self, context: Context) -> Plan:
        """Return a plan whose queries are those of the list effects, on top of the scores of prior and reward model."""
        guide, candidates = self._guide(context.request), context.candidates
        scale_B = (self.scale * context.reward_weight).to(self.scale.dtype).expand(len(guide.state_BS))

        def queries(slate_BK: Tensor, steps: range) -> Tensor:
            prefix_BTX = self.correction.prefixes(guide.state_BS, slate_BK, guide.correction_ND, steps)
            return scale_B[:, None, None] * self._queries(prefix_BTX, slate_BK, guide, steps)

        dtype = self.reward.backbone.scoring_dtype
        prior_BC, reward_BC = guide.scores(candidates, dtype)
        base_BC = prior_BC.addcmul_(reward_BC, scale_B[:, None])
        return Plan(candidates, candidates.matrix(guide.list_vectors(), dtype, base_BC), queries)

    def _queries(self, prefix_BTX: Tensor, slate_BK: Tensor, guide: Guide, steps: range) -> Tensor:
        """Return the queries of steps, which belong to `Guide.list_vectors`; only the correction has gradients."""
        pair_BTD = self.pairs.queries(slate_BK, guide.pair_ND.detach(), steps)
        return torch.cat([self.correction.queries(prefix_BTX), pair_BTD], dim=2)

    @override
    def _trained_relevance(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the predicted rewards."""
        return self._guide(request).rewards(slate_BK)

    @override
    def _loss(self, batch: SlateBatch, generator: torch.Generator, step: int | None) -> Loss:
        backbone = self.reward.backbone
        request, is_hidden_N = backbone.hide_users(batch.request, generator), backbone.hide_items(generator)
        candidates, terms = self._candidates(None, request), dict[str, Tensor]()
        guide = self._guide(request, is_hidden_N)
        if "reward" not in self.frozen:
            losses = [response_loss(member.logits(batch.slate_BK), batch.response_BKR) for member in guide.responses]
            terms["response"] = torch.stack(losses).mean()
            # The histories of held-out slates were learned from. Histories of responses alone say nothing of how
            # likely a response is.
            if batch.is_logged and self.training and self.catalogue.has_whole_histories:
                num_read = math.ceil(self.config.history_share * len(request.user_B))
                terms["history"] = self.reward.history_loss(request, num_read, is_hidden_N)
        if batch.is_logged and "prior" not in self.frozen:
            terms |= self._prior_terms(request, candidates, batch.without_sampled(batch.slate_BK), is_hidden_N)
        if not batch.is_logged:  # the items of a logged slate were chosen one by one, not shown as a list
            terms["pairs"] = self._pair_loss(guide, batch)
        if not batch.is_logged or self.config.correct_logged:
            terms |= self._flow_terms(guide, candidates, batch)
        return Loss(torch.stack(list(terms.values())).sum(), terms)

    @override
    def _score(self, request: Request, slate_BK: Tensor) -> Tensor:
        """Return the rewards for which the residual of trajectory balance is 0."""
        slates = self._slates(self._guide(request), self._candidates(None, request), slate_BK)
        return (slates.log_flow_BT[:, 0] + slates.log_pf_BK.sum(dim=1)) / (self.scale * slate_BK.shape[1])

    def _guide(self, request: Request, is_hidden_N: Tensor | None = None) -> Guide:
        """Return the guide of requests. Only the reward model's predictions and the correction have gradients."""
        state_BS, table_ND, responses = self.reward.encode(request, is_hidden_N)
        prior = self._prior(request, is_hidden_N)
        return Guide(
            prior.query_BD,
            prior.vector_ND,
            responses,
            self.catalogue.weight_R.to(table_ND.dtype),
            torch.cat([state_BS.detach(), prior.state_BS], dim=1),
            self.correction.table(table_ND.detach(), is_hidden_N),
            self.pairs.table(table_ND.detach(), is_hidden_N),
        )

    def _pair_loss(self, guide: Guide, batch: SlateBatch) -> Tensor:
        """Return the squared error of item rewards predicted with pair effects, by which only those learn."""
        effect_BKK = self.pairs.effects(batch.slate_BK, guide.pair_ND)
        predicted_BK = guide.rewards(batch.slate_BK).detach() + effect_BKK.sum(dim=2)
        return (batch.item_reward_BK - predicted_BK).square().mean()

    def _flow_terms(self, guide: Guide, candidates: Candidates, batch: SlateBatch) -> dict[str, Tensor]:
        """Return the penalties of the objective's residuals, in units of the reward."""
        objective, slates = OBJECTIVES[self.config.objective], self._slates(guide, candidates, batch.slate_BK)
        # An item is credited with its effects on the items before it, not with those of later items on it.
        moved_BK = slates.added_BK - slates.received_BK
        credited_BK = {
            "none": None,
            "observed": batch.item_reward_BK + moved_BK,
            "predicted": slates.reward_BK + slates.added_BK,
        }[objective.gains]
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
        column_BK, dtype = candidates.columns(slate_BK), self.reward.backbone.scoring_dtype
        size, vector_ND = slate_BK.shape[1], guide.list_vectors()
        prior_BC, reward_BC = guide.scores(candidates, dtype)
        prior, both = (
            candidates.matrix(vector_ND, dtype, base_BC) for base_BC in (prior_BC, prior_BC + self.scale * reward_BC)
        )
        prefix_BTX = self.correction.prefixes(guide.state_BS, slate_BK, guide.correction_ND, range(size + 1))
        query_BKD = self.scale * self._queries(prefix_BTX[:, :-1], slate_BK, guide, range(size))
        log_prob_BK, reward_BK = step_log_probs(query_BKD, both, column_BK), reward_BC.gather(1, column_BK)
        with torch.no_grad():
            uncorrected_BD = torch.zeros_like(query_BKD[:, 0])
            prior_BK, start_BK = (pointwise_log_probs(uncorrected_BD, matrix, column_BK) for matrix in (prior, both))
            effect_BKK = self.pairs.effects(slate_BK, guide.pair_ND)
            added_BK = added(effect_BKK)
            start_BT = self._uncorrected_flows(reward_BK, added_BK, start_BK[:, 0] - prior_BK[:, 0])
        log_flow_BT = start_BT + self.scale * self.correction.flows(prefix_BTX)
        return GuidedSlates(log_flow_BT, log_prob_BK - prior_BK, reward_BK, effect_BKK.sum(dim=2), added_BK)

    def _uncorrected_flows(self, reward_BK: Tensor, added_BK: Tensor, log_ratio_B: Tensor) -> Tensor:
        """Return the log flows, (B, T), of prior and reward model alone.

        They are given by the predicted rewards, and by the first item's log-probability relative to the prior. A step
        to come multiplies a flow by the sum of pi0 exp(s r) over all items. Flows start here, so the residuals of a new
        policy are those of the reward model, and feedback noise.
        """
        step_B, size = self.scale * reward_BK[:, 0] - log_ratio_B, reward_BK.shape[1]
        flow_BT = step_B[:, None] * torch.arange(size, -1, -1, device=reward_BK.device)
        if OBJECTIVES[self.config.objective].gains == "none":  # flows hold the rewards of the items so far
            flow_BT[:, 1:] += self.scale * (reward_BK + added_BK).cumsum(dim=1)
        return flow_BT
