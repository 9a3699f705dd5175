"""How the networks of GFN4Rec learn: the settings of the flow objectives, and the loss of answered slates."""

import math

import torch
import torch.nn.functional as F
from pydantic import Field, field_validator
from torch import Tensor

from gfn4rec.config import nearest
from gfn4rec.nn.scoring import step_log_probs
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.objectives.flow import FlowBatch, log_reward, shift_probability
from gfn4rec.policies.backbone import BackboneConfig
from gfn4rec.policies.base import Loss
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.slate_network import SlateNetwork
from gfn4rec.schema import SlateBatch


class FlowConfig(BackboneConfig):
    """Settings of a policy that learns by a flow objective; the paper's."""

    objective: str = "tb"
    """The flow objective: tb (trajectory balance) or db (detailed balance)."""
    penalty: str = "square"
    """How a residual is punished: square or huber."""
    b_z: float = Field(default=1.0, gt=0)
    """Normalising bias: b_z F(u, empty) stands for the sum of all slates' rewards."""
    b_r: float = Field(default=0.3, gt=0)
    """Added to the reward inside the logarithm."""
    b_f: float = Field(default=0.5, ge=0)
    """Added to each step's probability inside the logarithm; 0 makes the flow property exact."""
    scale: float = Field(default=1.0, gt=0)
    """Factor of the scores; 1 is the paper's, and starts with a sharp policy."""
    learn_scale: bool = False
    """Whether the factor is learned."""

    @field_validator("objective")
    @classmethod
    def _known_objective(cls, name: str) -> str:
        if name not in OBJECTIVES:
            raise ValueError(f"no such objective, {nearest(name, list(OBJECTIVES))}")
        return name

    @field_validator("penalty")
    @classmethod
    def _known_penalty(cls, name: str) -> str:
        if name not in PENALTIES:
            raise ValueError(f"no such penalty, {nearest(name, list(PENALTIES))}")
        return name


def flow_loss(
    network: SlateNetwork,
    config: FlowConfig,
    state_BS: Tensor,
    table_ND: Tensor,
    candidates: Candidates,
    batch: SlateBatch,
    dtype: torch.dtype | None,
) -> Loss:
    """The penalty of the objective's residuals, each kind averaged over the batch and its steps, and summed."""
    objective, size = OBJECTIVES[config.objective], batch.slate_BK.shape[1]
    column_BK = candidates.columns(batch.slate_BK)
    prefix_BTX = network.prefixes(state_BS, F.embedding(batch.slate_BK, table_ND), range(size + 1))
    log_prob_BK = step_log_probs(network.queries(prefix_BTX[:, :size]), candidates.shelf(table_ND, dtype), column_BK)
    log_flow_BT = network.log_flows(prefix_BTX if objective.needs_node_flows else prefix_BTX[:, :1])
    residuals = objective.residuals(
        FlowBatch(
            log_flow_BT=log_flow_BT,
            log_pf_BK=shift_probability(log_prob_BK, config.b_f),
            log_reward_B=log_reward(batch.reward_B, config.b_r),
            log_b_z=math.log(config.b_z),
        )
    )
    terms = {name: PENALTIES[config.penalty](residual).mean() for name, residual in residuals.items()}
    watched = {"log_root_flow": log_flow_BT[:, 0].mean(), "log_prob": log_prob_BK.sum(dim=1).mean()}
    return Loss(torch.stack(list(terms.values())).sum(), {**terms, **watched})
