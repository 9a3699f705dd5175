"""Six items, slates of three, two users: the prior-guided flow ends at pi0(O|u) exp(beta E[R(u, O)])."""

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from gfn4rec.policies.base import Context
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.gfn_anchored import AnchoredGFN
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.policies.guided import GuidedGFN
from gfn4rec.policies.reward_model import ResponsePredictor
from gfn4rec.schema import Request, Sampling, SlateBatch
from tests.small_catalogue import HISTORY, SMALL_ENCODER, all_slates, generator, make_catalogue, make_policy

SLATES = all_slates(range(1, 7), 3)  # 120 of them
SCALE = 0.7  # beta / K
HIDDEN = (128,)
ItemRewards = Callable[[int], Tensor]


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    """With single precision, rounding decides where the optimiser's line search gives up."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def new_catalogue() -> Catalogue:
    """Six items. Predicted rewards are below the sum of the weights."""
    return make_catalogue(weights=(1.0, 1.5))


def of_the_item(user: int) -> Tensor:
    """User 1 likes small items, user 2 large ones: (120, 3)."""
    return (7 - SLATES if user == 1 else SLATES) / 3


def of_the_whole_slate(user: int) -> Tensor:
    """The same, but half as much next to a neighbour among the ids, wherever that stands."""
    is_near_SKK = (SLATES[:, :, None] - SLATES[:, None]).abs() == 1
    return torch.where(is_near_SKK.any(dim=2), of_the_item(user) / 2, of_the_item(user))


def of_pairs(user: int) -> Tensor:
    """The reward of the item, less 0.3 for each neighbour among the ids, wherever that stands."""
    is_near_SKK = (SLATES[:, :, None] - SLATES[:, None]).abs() == 1
    return of_the_item(user) - 0.3 * is_near_SKK.sum(dim=2)


def shown(item_rewards: ItemRewards) -> SlateBatch:
    """Every slate of both users with its rewards, as if a policy had shown them."""
    user_B = torch.tensor([1, 2]).repeat_interleave(120)
    request = Request(user_B, torch.zeros(240, HISTORY, dtype=torch.int64), torch.zeros(240, HISTORY, 2))
    reward_BK = torch.cat([item_rewards(1), item_rewards(2)])
    return SlateBatch(request, SLATES.repeat(2, 1), torch.zeros(240, 3, 2), reward_BK, reward_BK.mean(dim=1))


def new_policy(objective: str) -> PriorGFN:
    """A policy whose prior has moved far from popularity."""
    policy = make_policy(
        "gfn-prior",
        new_catalogue(),
        objective=objective,
        reward_scale=SCALE,
        unknown_user_share=0.0,
        encoder={**SMALL_ENCODER, "dim": 16, "id_deviation": 0.1},
        hidden_dims=HIDDEN,
    )
    assert isinstance(policy, PriorGFN)
    with torch.no_grad():
        for weight in query_weights(policy):
            weight.add_(0.15 * torch.randn(weight.shape, generator=generator(1)))
    return policy


def query_weights(policy: PriorGFN) -> list[Tensor]:
    """The weights of the prior's queries; without them the prior is popularity."""
    return [weight for name, weight in policy.prior.named_parameters() if ".query." in name]


def train(objective: str, item_rewards: ItemRewards, num_steps: int = 400) -> PriorGFN:
    """Return a trained policy; its prior stays as it is."""
    policy, batch = new_policy(objective), shown(item_rewards)
    prior = {name: weight.clone() for name, weight in policy.prior.state_dict().items()}
    learn(policy, batch, num_steps)
    policy.zero_grad()
    policy.loss(batch, generator()).loss.backward()  # the sum of both, without the prior
    assert all(weight.grad is None for weight in policy.prior.parameters())
    assert all(torch.equal(weight, prior[name]) for name, weight in policy.prior.state_dict().items())
    return policy


def learn(policy: GuidedGFN, batch: SlateBatch, num_steps: int) -> None:
    """Train the reward model, the pair effects, and the correction, each to the bottom of its loss."""

    def reward_loss() -> Tensor:
        return (policy._guide(batch.request).rewards(batch.slate_BK) - batch.item_reward_BK).square().mean()

    def pair_loss() -> Tensor:
        return policy._pair_loss(policy._guide(batch.request), batch)

    def flow_loss() -> Tensor:
        candidates = policy._candidates(None, batch.request)
        return torch.stack(list(policy._flow_terms(policy._guide(batch.request), candidates, batch).values())).sum()

    _minimise(reward_loss, policy.reward, num_steps)
    _minimise(pair_loss, policy.pairs, num_steps)
    _minimise(flow_loss, policy.correction, num_steps)


def _minimise(loss: Callable[[], Tensor], module: torch.nn.Module, num_steps: int) -> None:
    # All slates are in the batch, so the loss has no noise, and a second-order method gets to its bottom soonest.
    optimizer = torch.optim.LBFGS(
        module.parameters(), max_iter=num_steps, history_size=30, line_search_fn="strong_wolfe", tolerance_change=0.0
    )

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        value = loss()
        value.backward()
        return value

    optimizer.step(evaluate)


@torch.no_grad()
def log_prior(policy: PriorGFN, user: int) -> Tensor:
    """log pi0 of every slate, one step after the other, as one would write it down."""
    batch = shown(of_the_item)
    scores = policy.prior.encode(batch.request[120 * (user - 1) : 120 * (user - 1) + 1])
    score_N = (scores.query_BD @ scores.vector_ND.T)[0]
    total_S = torch.zeros(120)
    for t in range(3):
        open_SN = torch.ones(120, 7, dtype=torch.bool).scatter(1, SLATES[:, :t], value=False)
        open_SN[:, 0] = False
        log_prob_SN = score_N.expand(120, -1).masked_fill(~open_SN, -torch.inf).log_softmax(dim=1)
        total_S += log_prob_SN.gather(1, SLATES[:, t : t + 1])[:, 0]
    return total_S


@torch.no_grad()
def distance(policy: PriorGFN, item_rewards: ItemRewards) -> float:
    """The larger of both users' total variations from pi0(O|u) exp(beta R)."""
    batch = shown(item_rewards)
    prob_B = policy.log_probs(batch.request, batch.slate_BK).sum(dim=1).exp()
    distances = []
    for user in (1, 2):
        target_S = (log_prior(policy, user) + SCALE * item_rewards(user).sum(dim=1)).softmax(dim=0)
        distances.append(float((prob_B[120 * (user - 1) : 120 * user] - target_S).abs().sum() / 2))
    return max(distances)


@pytest.mark.parametrize("objective", ["fl-db", "tb"])
def test_the_flow_ends_at_the_prior_times_the_exponential_of_the_reward(objective: str) -> None:
    policy = train(objective, of_the_item)
    assert distance(policy, of_the_item) < 0.02
    batch = shown(of_the_item)
    score_B = policy.score(batch.request, batch.slate_BK)
    assert float((score_B - batch.reward_B).abs().mean()) < 0.02


@pytest.mark.parametrize(("objective", "item_rewards"), [("fl-db", of_the_item), ("fl-db-exact", of_the_whole_slate)])
def test_without_a_prior_the_flow_ends_at_the_exponential_of_the_reward(
    objective: str, item_rewards: ItemRewards
) -> None:
    settings = {
        "encoder": {**SMALL_ENCODER, "dim": 16, "id_deviation": 0.1},
        "hidden_dims": HIDDEN,
        "unknown_user_share": 0.0,
    }
    policy = make_policy("gfn-anchored", new_catalogue(), settings, objective=objective, beta=3 * SCALE)
    assert isinstance(policy, AnchoredGFN)
    batch = shown(item_rewards)
    learn(policy, batch, 400)
    prob_B = policy.log_probs(batch.request, batch.slate_BK).detach().sum(dim=1).exp()
    for user in (1, 2):
        target_S = (3 * SCALE * item_rewards(user).mean(dim=1)).softmax(dim=0)
        assert float((prob_B[120 * (user - 1) : 120 * user] - target_S).abs().sum() / 2) < 0.02
    score_B = policy.score(batch.request, batch.slate_BK)
    assert float((score_B - batch.reward_B).abs().mean()) < 0.02


def test_the_default_objective_ends_there_if_items_influence_each_other_in_pairs() -> None:
    assert distance(train("fl-db", of_pairs), of_pairs) < 0.02


@pytest.mark.parametrize("objective", ["fl-db-exact", "db"])
def test_exact_objectives_end_there_under_item_influence_too(objective: str) -> None:
    assert distance(train(objective, of_the_whole_slate), of_the_whole_slate) < 0.02


def test_the_default_objective_is_biased_where_influence_is_not_that_of_pairs() -> None:
    """It credits a step with the mean over the items that follow, and is off by as much as the docs say."""
    policy = train("fl-db", of_the_whole_slate)
    assert distance(policy, of_the_whole_slate) == pytest.approx(0.06, abs=0.01)


def predict_everywhere(policy: PriorGFN, reward: float) -> None:
    """Let the reward model predict the same for all items."""
    share = torch.tensor(reward / 2.5)
    for member in policy.reward.members:
        assert isinstance(member, ResponsePredictor)
        for weight in (*member.norm.parameters(), *member.item_bias.parameters()):
            weight.zero_()
        member.item_bias.bias.fill_(share.logit())


@torch.no_grad()
def test_a_new_policy_starts_at_popularity_and_its_first_residuals_are_those_of_the_regression() -> None:
    policy, batch = new_policy("fl-db"), shown(of_the_item)
    for weight in query_weights(policy):
        weight.zero_()
    predict_everywhere(policy, 1.5)
    frequency = [(item**2 + 1) / sum(other**2 + 1 for other in range(1, 7)) for item in range(1, 7)]
    first = policy.plan(Context(batch.request[:1], policy._candidates(None, batch.request[:1])))
    proposal = [
        float(first.log_probs(torch.tensor([[item, 1 + item % 6, 1 + (item + 1) % 6]]))[0, 0].exp())
        for item in range(1, 7)
    ]
    assert proposal == pytest.approx(frequency, rel=1e-4)
    terms = policy.loss(batch, generator()).terms
    assert float(terms["step"]) == pytest.approx(float((batch.item_reward_BK - 1.5).square().mean()), rel=1e-4)


@torch.no_grad()
def test_flows_that_hold_rewards_start_balanced_and_only_the_leaf_has_the_error_of_the_regression() -> None:
    policy, batch = new_policy("db"), shown(of_the_item)
    predict_everywhere(policy, 1.5)
    terms = policy.loss(batch, generator()).terms
    assert float(terms["step"]) == pytest.approx(0.0, abs=1e-8)
    assert float(terms["leaf"]) == pytest.approx(
        float((batch.item_reward_BK - 1.5).sum(dim=1).square().mean()), rel=1e-4
    )


def test_the_reward_weight_moves_the_policy_from_the_prior_to_the_reward() -> None:
    policy, batch = train("fl-db", of_the_item), shown(of_the_item)
    request = batch.request[torch.tensor([0]).expand(4000)]
    means = []
    for weight in (0.0, 1.0, 3.0):
        proposal = policy.recommend(request, generator(), Sampling(reward_weight=weight))
        means.append(float((7 - proposal.slate_BK).double().mean() / 3))
        scale, drawn = weight * SCALE, proposal.slate_BK[:1]
        number = int((drawn[0] == SLATES).all(dim=1).nonzero())
        expected = (log_prior(policy, 1) + scale * of_the_item(1).sum(dim=1)).log_softmax(dim=0)
        assert float(proposal.log_prob_BK[0].sum()) == pytest.approx(float(expected[number]), abs=0.1 + 0.2 * weight)
    assert means == sorted(means)
    assert means[2] - means[0] > 0.2
    own_B = torch.tensor([0.0, 3.0]).repeat(2000)
    mixed = policy.recommend(request, generator(), Sampling(reward_weight=own_B)).slate_BK
    for weight, rows in ((0.0, slice(0, None, 2)), (3.0, slice(1, None, 2))):
        alone = policy.recommend(request, generator(), Sampling(reward_weight=weight)).slate_BK
        assert torch.equal(mixed[rows], alone[rows])
