"""How the networks of GFN4Rec learn: the loss of answered slates."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from gfn4rec.nn.scoring import step_log_probs
from gfn4rec.objectives import OBJECTIVES, PENALTIES
from gfn4rec.objectives.flow import FlowBatch, log_reward, relative_to_uniform, shift_probability
from gfn4rec.policies.base import Loss
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.flow_config import FlowConfig
from gfn4rec.policies.slate_network import SlateNetwork
from gfn4rec.schema import SlateBatch


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
    vector_BKD = F.embedding(batch.slate_BK, table_ND)
    prefix_BTX = network.prefixes(state_BS, vector_BKD, range(size + 1))
    shelf = candidates.shelf(table_ND, dtype)
    log_prob_BK = step_log_probs(network.queries(prefix_BTX[:, :size]), shelf, column_BK)
    log_flow_BT = network.log_flows(prefix_BTX if objective.needs_node_flows else prefix_BTX[:, :1])
    terms: dict[str, Tensor] = {}
    gain_BK = None
    if objective.gains == "observed":
        gain_BK = config.beta / size * batch.item_reward_BK
    elif objective.gains == "predicted":
        predicted_BK = network.item_rewards(prefix_BTX[:, :size], vector_BKD)
        gain_BK = config.beta / size * predicted_BK.detach()
        terms["item_reward"] = (predicted_BK - batch.item_reward_BK).square().mean()
    if config.relative:
        log_pf_BK = relative_to_uniform(log_prob_BK, candidates.count())
    else:
        log_pf_BK = shift_probability(log_prob_BK, config.b_f)
    residuals = objective.residuals(
        FlowBatch(
            log_flow_BT=log_flow_BT,
            log_pf_BK=log_pf_BK,
            log_reward_B=(
                log_reward(batch.reward_B, config.b_r) if config.reward == "log" else config.beta * batch.reward_B
            ),
            log_b_z=math.log(config.b_z),
            gain_BK=gain_BK,
            decay=config.decay,
        )
    )
    terms |= {name: PENALTIES[config.penalty](residual).mean() for name, residual in residuals.items()}
    watched = {"log_root_flow": log_flow_BT[:, 0].mean(), "log_prob": log_prob_BK.sum(dim=1).mean()}
    return Loss(torch.stack(list(terms.values())).sum(), {**terms, **watched})
