"""The two networks of GFN4Rec on top of the encoder: the item selection model and the flow estimator."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gfn4rec.nn.mlp import mlp
from gfn4rec.objectives import OBJECTIVES
from gfn4rec.policies.base import Plan
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.flow_config import FlowConfig


def prefixes(state_BS: Tensor, vector_BKD: Tensor, steps: range) -> Tensor:
    """Return [state; vectors of the first t items; zeros] for each step t, (B, T, X)."""
    place_K = torch.arange(vector_BKD.shape[1], device=state_BS.device)
    step_T = torch.arange(steps.start, steps.stop, device=state_BS.device)
    is_chosen_TK = place_K < step_T[:, None]
    chosen_BTX = torch.where(is_chosen_TK[:, :, None], vector_BKD[:, None], 0.0).flatten(2)
    return torch.cat([state_BS[:, None].expand(-1, len(steps), -1), chosen_BTX], dim=2)


class SlateNetwork(nn.Module):
    """Computes queries, flows and item rewards from a request's state and the items chosen so far."""

    def __init__(self, config: FlowConfig, slate_size: int) -> None:
        super().__init__()
        encoder, hidden_dims = config.encoder, config.hidden_dims
        width = encoder.state_dim + slate_size * encoder.dim
        self.dim = encoder.dim
        norm = nn.LayerNorm(encoder.dim) if config.normalise_query else nn.Identity()
        self.selection = nn.Sequential(mlp(width, hidden_dims, encoder.dim), norm)
        self.flow = mlp(width, hidden_dims, 1)
        self.log_scale = nn.Parameter(torch.tensor(config.scale).log(), requires_grad=config.learn_scale)
        predicts_rewards = OBJECTIVES[config.objective].gains == "predicted"
        self.item_reward = mlp(width, hidden_dims, 1 + encoder.dim) if predicts_rewards else None

    def queries(self, prefix_BTX: Tensor) -> Tensor:
        """Return the queries, whose dot products with item vectors score the next item, (B, T, D)."""
        query_BTD: Tensor = self.log_scale.exp() * self.selection(prefix_BTX)
        return query_BTD

    def item_rewards(self, prefix_BKX: Tensor, vector_BKD: Tensor) -> Tensor:
        """Return the predicted reward of each item given the items before it, (B, K)."""
        assert self.item_reward is not None
        offset_BK1, query_BKD = self.item_reward(prefix_BKX).split([1, self.dim], dim=2)
        reward_BK: Tensor = (query_BKD * vector_BKD).sum(dim=2) * self.dim**-0.5 + offset_BK1[:, :, 0]
        return reward_BK

    def log_flows(self, prefix_BTX: Tensor) -> Tensor:
        """Return log F(u, O^t), (B, T); t = 0, the empty prefix, gives the root flow."""
        log_flow_BT: Tensor = self.flow(prefix_BTX)[:, :, 0]
        return log_flow_BT

    def plan(self, state_BS: Tensor, table_ND: Tensor, candidates: Candidates, dtype: torch.dtype | None) -> Plan:
        """Return the plan that builds slates of the candidates item by item."""

        def queries(slate_BK: Tensor, steps: range) -> Tensor:
            return self.queries(prefixes(state_BS, F.embedding(slate_BK, table_ND), steps))

        return Plan(candidates, candidates.matrix(table_ND, dtype), queries)
