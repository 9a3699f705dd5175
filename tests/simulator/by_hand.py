"""The list effects of a slate, written out number by number."""

import math
from collections.abc import Sequence

from gfn4rec.simulator.categories import ItemCategories
from gfn4rec.simulator.environment import UserEnvironment
from tests.simulator.conftest import CautiousUsers, FixedUsers


def by_hand(env: UserEnvironment, slate: Sequence[int]) -> list[list[float]]:
    """Return the probabilities of responses to a slate, written out number by number."""
    config, users = env.config, env.model
    categories = ItemCategories.of(env.data, config.category)
    assert isinstance(users, FixedUsers)
    unit = users.item_embedding_ND
    rows, looked = [], 1.0
    for place, item in enumerate(slate):
        others = [other for position, other in enumerate(slate) if position != place]
        similarity = sum(float(unit[item] @ unit[other]) for other in others) / max(1, len(others))
        mine = {value for value in categories.value_NM[item].tolist() if value}
        partners = {value + 1 if value % 2 else value - 1 for value in mine}
        shares = sum(bool(mine & set(categories.value_NM[earlier].tolist())) for earlier in slate[:place])
        joined = any(partners & set(categories.value_NM[other].tolist()) for other in others)
        factor = (1 + config.complements * joined) * (1 - config.saturation) ** shares
        p = [min(1.0, max(0.0, (float(base) - config.rho * similarity) * factor)) for base in users.base_NR[item]]
        worth = [value * (float(users.trust_N[item]) if isinstance(users, CautiousUsers) else 1.0) for value in p]
        rows.append([value * looked for value in worth])
        responds = 1 - math.prod(1 - value for value in worth)
        looked *= (1 - config.position_decay) * (1 - config.cascade * responds)
    return rows


def reward_by_hand(env: UserEnvironment, slate: Sequence[int]) -> float:
    """Return the expected reward of a slate, from these numbers."""
    weights: list[float] = env.data.weight_R.tolist()
    rows = by_hand(env, slate)
    return sum(weight * value for row in rows for weight, value in zip(weights, row, strict=True)) / len(slate)
