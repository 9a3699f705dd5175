"""Probabilities of stored decisions, computed again from the version, the catalogue and the request of each.

The code that draws slates is not used: the scores of all items are computed in one piece and normalised in double
precision. What is logged must agree with it, or off-policy estimates from the store would be wrong.
"""

from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.desk import draws_of, open_items
from gfn4rec.live.encoding import Encoding
from gfn4rec.live.growth import grown_policy
from gfn4rec.live.items import LiveItems
from gfn4rec.live.records import Decision
from gfn4rec.live.store.state import item_changes_after
from gfn4rec.live.store.store import Store
from gfn4rec.nn.scoring import all_scores
from gfn4rec.policies.base import Context, Policy, evaluating
from gfn4rec.policies.candidates import Candidates
from gfn4rec.schema import MIN_TEMPERATURE, Sampling

TOLERANCE: Final = 1e-5
_LOW: Final = 0.5  # temperatures below it magnify the rounding of scores if these have a large weight
_LOWEST: Final = 0.25  # and below this one in any case
_TIE: Final = 1e-5  # scores this close may come in either order after other rounding, so that either is a greedy choice
_ROWS: Final = 64
_KEPT_POLICIES: Final = 4


def tolerance(decision: Decision) -> float:
    """Return by how much log-probabilities of a decision may differ because of rounding.

    Low temperatures magnify the rounding of scores; a little higher ones do with a reward weight above 1.

    >>> from types import SimpleNamespace
    >>> [
    ...     tolerance(SimpleNamespace(sampling={"greediness": greediness, "reward_weight": weight}))
    ...     for greediness, weight in ((0.0, 4.0), (0.625, 0.5), (0.625, 2.0), (0.75, 9.0), (0.875, 1.0), (1.0, 1.0))
    ... ]
    [1e-05, 1e-05, 2e-05, 4e-05, 8e-05, 1e-05]
    """
    temperature = 1 - decision.sampling["greediness"]
    if not 0 < temperature < _LOW:
        return TOLERANCE
    if temperature < _LOWEST:
        return TOLERANCE / temperature
    return TOLERANCE * min(1 / temperature, max(1.0, decision.sampling["reward_weight"]))


class Recomputation:
    """Computes the log-probabilities of the steps of decisions, under the sampling that drew them.

    `load` returns the policy of a version, and `seed` is that of the service: it drew the latent vectors of those
    policies that have them.
    """

    def __init__(self, data: SlateData, store: Store, load: Callable[[int], Policy], seed: int) -> None:
        self._data, self._store, self._load, self._seed = data, store, load, seed
        self._encoding = Encoding(data)
        self._known: dict[tuple[int, int], tuple[Policy, LiveItems]] = {}

    def log_probs(self, decisions: Sequence[Decision]) -> list[tuple[float, ...]]:
        """Return the log-probabilities of the steps of each decision."""
        results: list[tuple[float, ...]] = [()] * len(decisions)
        groups: dict[tuple[int, int], list[int]] = {}
        for number, decision in enumerate(decisions):
            groups.setdefault((decision.version, decision.revision), []).append(number)
        for key, members in groups.items():
            policy, items = self._policy_and_items(*key)
            for first in range(0, len(members), _ROWS):
                part = members[first : first + _ROWS]
                log_prob_BK = self._compute([decisions[number] for number in part], policy, items)
                for number, row in zip(part, log_prob_BK.tolist(), strict=True):
                    results[number] = tuple(row)
        return results

    def _policy_and_items(self, version: int, revision: int) -> tuple[Policy, LiveItems]:
        if (version, revision) not in self._known:
            with self._store.read() as connection:
                changes = item_changes_after(connection, 0)
            items = LiveItems.of(self._data).after(change for change in changes if change.revision <= revision)
            while len(self._known) >= _KEPT_POLICIES:
                del self._known[next(iter(self._known))]
            self._known[version, revision] = grown_policy(self._load(version), self._data, items), items
        return self._known[version, revision]

    def _compute(self, decisions: Sequence[Decision], policy: Policy, items: LiveItems) -> Tensor:
        users, histories = [decision.user for decision in decisions], [decision.history for decision in decisions]
        request = self._encoding.request(users, histories, items, policy.config.history_length)
        slate_BK = torch.tensor([[items.get(name).number for name in decision.slate] for decision in decisions])
        is_open_BN = torch.stack([open_items(items, decision.rule) for decision in decisions])
        item_BN = torch.where(is_open_BN, torch.arange(len(items) + 1), 0)
        candidates = Candidates.of(item_BN, len(decisions), len(items), policy.catalogue.slate_size)
        greediness_B, weight_B, epsilon_B = (
            torch.tensor([decision.sampling[name] for decision in decisions])
            for name in ("greediness", "reward_weight", "epsilon")
        )
        sampling = Sampling(greediness=greediness_B).resolved()
        draws = [draws_of(self._seed, decision.request_id, decision.place) for decision in decisions]
        with evaluating(policy), torch.inference_mode():
            latent_BZ = policy.draw_latent(len(decisions), sampling, draws, request.user_B.device)
            plan = policy.plan(Context(request, candidates, latent_BZ=latent_BZ, reward_weight=weight_B))
            column_BK = plan.candidates.columns(slate_BK)
            matrix, log_probs = plan.matrix, []
            for step in range(slate_BK.shape[1]):
                query_BD = plan.queries(slate_BK, range(step, step + 1))[:, 0]
                score_BC = all_scores(query_BD, matrix).double().scatter_(1, column_BK[:, :step], -torch.inf)
                log_probs.append(_step_log_prob(score_BC, column_BK[:, step], greediness_B, epsilon_B))
        return torch.stack(log_probs, dim=1)


def _step_log_prob(score_BC: Tensor, column_B: Tensor, greediness_B: Tensor, epsilon_B: Tensor) -> Tensor:
    """Return the log-probability of a column: of the greedy choice or of the softmax, mixed with the uniform one."""
    chosen_B = score_BC.gather(1, column_B[:, None])[:, 0]
    is_greedy_B = greediness_B == 1
    greedy_B = torch.where(_is_greedy_choice(score_BC, column_B, chosen_B, epsilon_B), 0.0, -torch.inf)
    temperature_B = torch.where(is_greedy_B, 1.0, (1 - greediness_B).clamp(min=MIN_TEMPERATURE)).double()
    softmax_B = chosen_B / temperature_B - (score_BC / temperature_B[:, None]).logsumexp(dim=1)
    own_B = torch.where(is_greedy_B, greedy_B, softmax_B)
    num_open_B = (score_BC > -torch.inf).sum(dim=1)
    epsilon_B = epsilon_B.double()
    return torch.logaddexp(own_B + (1 - epsilon_B).log(), (epsilon_B / num_open_B).log())


def _is_greedy_choice(score_BC: Tensor, column_B: Tensor, chosen_B: Tensor, epsilon_B: Tensor) -> Tensor:
    """Return whether a column is the greedy choice: the first one with the largest score, but for rounding.

    Of equal scores the first is taken, and epsilon alone draws the others; without epsilon nothing but the greedy
    choice can have been drawn.
    """
    best_B, first_B = score_BC.max(dim=1)
    is_near_B = chosen_B >= best_B - _TIE * best_B.abs().clamp(min=1)
    is_drawn_B = (chosen_B == best_B) & (epsilon_B > 0)
    return (column_B == first_B) | (is_near_B & ~is_drawn_B)
