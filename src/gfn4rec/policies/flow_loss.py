"""The loss of slates with responses under GFN4Rec's networks, and the estimated reward of any slates."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.nn.scoring import step_log_probs
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.objectives.flow import FlowBatch, log_reward, relative_to_uniform, shift_probability
from gfn4rec.policies.base import Loss
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.flow_config import FlowConfig
from gfn4rec.policies.slate_network import SlateNetwork, prefixes
from gfn4rec.schema import SlateBatch


@dataclass(frozen=True)
class SlateFlow:
    """Given slates with what the networks compute for them."""

    prefix_BTX: Tensor  # after 0 .. K items
    vector_BKD: Tensor
    log_prob_BK: Tensor
    log_pf_BK: Tensor  # as the objective uses it: shifted, or relative to uniform


def slate_flow(
    network: SlateNetwork,
    config: FlowConfig,
    state_BS: Tensor,
    table_ND: Tensor,
    candidates: Candidates,
    slate_BK: Tensor,
    dtype: torch.dtype | None,
) -> SlateFlow:
    """Return the prefixes of slates and the probabilities of their steps, computed in parallel."""
    size, vector_BKD = slate_BK.shape[1], F.embedding(slate_BK, table_ND)
    prefix_BTX = prefixes(state_BS, vector_BKD, range(size + 1))
    query_BKD, matrix = network.queries(prefix_BTX[:, :size]), candidates.matrix(table_ND, dtype)
    log_prob_BK = step_log_probs(query_BKD, matrix, candidates.columns(slate_BK))
    if config.relative:
        log_pf_BK = relative_to_uniform(log_prob_BK, candidates.count())
    else:
        log_pf_BK = shift_probability(log_prob_BK, config.b_f)
    return SlateFlow(prefix_BTX, vector_BKD, log_prob_BK, log_pf_BK)


def flow_loss(network: SlateNetwork, config: FlowConfig, slates: SlateFlow, batch: SlateBatch) -> Loss:
    """Return the sum of the objective's residual penalties, each averaged over the batch and its steps."""
    objective, prefix_BTX, size = OBJECTIVES[config.objective], slates.prefix_BTX, batch.slate_BK.shape[1]
    log_flow_BT = network.log_flows(prefix_BTX if objective.needs_node_flows else prefix_BTX[:, :1])
    terms: dict[str, Tensor] = {}
    gain_BK = None
    if objective.gains == "observed":
        gain_BK = config.beta / size * batch.item_reward_BK
    elif objective.gains == "predicted":
        predicted_BK = network.item_rewards(prefix_BTX[:, :size], slates.vector_BKD)
        gain_BK = config.beta / size * predicted_BK.detach()
        terms["item_reward"] = (predicted_BK - batch.item_reward_BK).square().mean()
    is_energy = config.reward == "energy"
    residuals = objective.residuals(
        FlowBatch(
            log_flow_BT=log_flow_BT,
            log_pf_BK=slates.log_pf_BK,
            log_reward_B=config.beta * batch.reward_B if is_energy else log_reward(batch.reward_B, config.b_r),
            log_b_z=math.log(config.b_z),
            gain_BK=gain_BK,
            decay=config.decay,
        )
    )
    terms |= {name: PENALTIES[config.penalty](residual).mean() for name, residual in residuals.items()}
    watched = {"log_root_flow": log_flow_BT[:, 0].mean(), "log_prob": slates.log_prob_BK.sum(dim=1).mean()}
    return Loss(torch.stack(list(terms.values())).sum(), {**terms, **watched})


def flow_score(network: SlateNetwork, config: FlowConfig, slates: SlateFlow) -> Tensor:
    """Return the estimated rewards of slates, (B,): those for which the residual of trajectory balance is 0."""
    log_root_B = network.log_flows(slates.prefix_BTX[:, :1])[:, 0]
    log_reward_B = math.log(config.b_z) + log_root_B + slates.log_pf_BK.sum(dim=1)
    return log_reward_B / config.beta if config.reward == "energy" else log_reward_B.exp() - config.b_r
