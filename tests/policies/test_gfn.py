"""GFN4Rec beyond what every policy promises."""

import dataclasses
import math

import pytest
import torch

from gfn4rec.errors import UserError
from gfn4rec.policies.base import Context
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.gfn import GFN4Rec
from gfn4rec.policies.gfn_rerank import GFNRerank
from gfn4rec.policies.slate_network import prefixes
from gfn4rec.schema import Sampling
from tests.small_catalogue import SMALL_ENCODER, make_batch, make_catalogue, make_policy, make_requests


def first_step_entropy(scale: float) -> float:
    """Mean over requests, as a share of the uniform policy's, with the paper's sizes."""
    catalogue = make_catalogue(num_users=50, num_items=1000, slate_size=6)
    policy = make_policy("gfn", catalogue, scale=scale, encoder={}, hidden_dims=(128,))
    with torch.no_grad():
        plan = policy.plan(Context(make_requests(catalogue, 64), Candidates.all_items(1000, torch.device("cpu"))))
        query_B1D = plan.queries(torch.zeros(64, 6, dtype=torch.int64), range(1))
        log_prob_BN = plan.matrix.scores(query_B1D, 1, 1001, torch.empty(64 * 1000))[:, 0].log_softmax(dim=1)
    return float(-(log_prob_BN.exp() * log_prob_BN).sum(dim=1).mean()) / math.log(1000)


def test_entropy_of_the_untrained_policy() -> None:
    """The paper's scale of 1 begins with a sharp policy; 1 / sqrt(D) begins near the uniform one."""
    assert first_step_entropy(1.0) == pytest.approx(0.36, abs=0.03)
    assert first_step_entropy(32**-0.5) == pytest.approx(0.94, abs=0.03)


def test_a_step_sees_earlier_items_only() -> None:
    policy = make_policy("gfn", make_catalogue())
    request = make_requests(policy.catalogue, 4)
    one, other = torch.tensor([[1, 2, 3]] * 4), torch.tensor([[1, 2, 4]] * 4)
    with torch.no_grad():
        assert torch.equal(policy.log_probs(request, one)[:, :2], policy.log_probs(request, other)[:, :2])
        order = policy.log_probs(request, torch.tensor([[2, 1, 3]] * 4))
        assert not torch.allclose(policy.log_probs(request, one)[:, 2], order[:, 2])


def test_the_flow_of_a_prefix_sees_the_prefix_alone() -> None:
    policy = make_policy("gfn", make_catalogue())
    assert isinstance(policy, GFN4Rec)
    with torch.no_grad():
        state_BS, table_ND = policy.backbone.encode(make_requests(policy.catalogue, 1))
        flows = [
            policy.network.log_flows(prefixes(state_BS, table_ND[torch.tensor([slate])], range(4)))[0]
            for slate in ([1, 2, 3], [1, 2, 4], [2, 5, 6])
        ]
    assert flows[0][:3].tolist() == flows[1][:3].tolist()
    assert flows[0][3] != flows[1][3]
    assert flows[0][0] == flows[2][0]
    assert flows[0][1] != flows[2][1]


@pytest.mark.parametrize("penalty", ["square", "huber"])
@pytest.mark.parametrize("objective", ["tb", "db"])
def test_the_loss_by_hand(objective: str, penalty: str) -> None:
    policy = make_policy(
        "gfn", make_catalogue(), objective=objective, penalty=penalty, b_z=3.0, b_r=0.1, b_f=0.7, unknown_user_share=0.0
    )
    assert isinstance(policy, GFN4Rec)
    batch = make_batch(policy.catalogue, 10)
    loss = policy.loss(batch, torch.Generator().manual_seed(0))
    with torch.no_grad():
        shifted_BK = (policy.log_probs(batch.request, batch.slate_BK).exp() + 0.7).log()
        state_BS, table_ND = policy.backbone.encode(batch.request)
        prefix_BTX = prefixes(state_BS, table_ND[batch.slate_BK], range(4))
        log_flow_BT = policy.network.log_flows(prefix_BTX)
    log_reward_B = (batch.reward_B + 0.1).log()
    if objective == "tb":
        residuals = [math.log(3) + log_flow_BT[:, 0] + shifted_BK.sum(dim=1) - log_reward_B]
    else:
        steps = math.log(3) / 3 + log_flow_BT[:, :3] + shifted_BK - log_flow_BT[:, 1:]
        residuals = [steps, log_flow_BT[:, 3] - log_reward_B]
    size = [residual.abs() for residual in residuals]
    punished = [x**2 if penalty == "square" else torch.where(x < 1, x**2, 2 * x - 1) for x in size]
    assert float(loss.loss.detach()) == pytest.approx(float(sum(x.mean() for x in punished)), rel=1e-4)


def punished(residual: torch.Tensor, penalty: str) -> float:
    size = residual.abs()
    return float((size**2 if penalty == "square" else torch.where(size < 1, size**2, 2 * size - 1)).mean())


@pytest.mark.parametrize(
    ("objective", "penalty"),
    [
        *((name, penalty) for name in ("tb", "db", "fl-db", "fl-db-exact") for penalty in ("square", "huber")),
        ("fl-subtb", "square"),
        ("subtb", "square"),
    ],
)
def test_the_loss_of_an_energy_by_hand(objective: str, penalty: str) -> None:
    """Beta 5, slates of 3 of 6 items, probabilities relative to 1/6, 1/5, 1/4; decay 0.5."""
    settings = {"reward": "energy", "beta": 5.0, "relative": True, "decay": 0.5, "b_z": 3.0, "penalty": penalty}
    policy = make_policy("gfn", make_catalogue(), settings, objective=objective, unknown_user_share=0.0)
    assert isinstance(policy, GFN4Rec)
    batch = make_batch(policy.catalogue, 10)
    loss = policy.loss(batch, torch.Generator().manual_seed(0))
    with torch.no_grad():
        log_pf_BK = policy.log_probs(batch.request, batch.slate_BK) + torch.tensor([6.0, 5.0, 4.0]).log()
        state_BS, table_ND = policy.backbone.encode(batch.request)
        vector_BKD = table_ND[batch.slate_BK]
        prefix_BTX = prefixes(state_BS, vector_BKD, range(4))
        f_BT = policy.network.log_flows(prefix_BTX).clone()
        expected, gain_BK = 0.0, torch.zeros(10, 3)
        if objective in ("fl-db", "fl-subtb"):
            gain_BK = 5 / 3 * batch.item_reward_BK
        if objective == "fl-db-exact":
            predicted_BK = policy.network.item_rewards(prefix_BTX[:, :3], vector_BKD)
            gain_BK = 5 / 3 * predicted_BK
            expected += float((predicted_BK - batch.item_reward_BK).square().mean())
        left_B = 5 * batch.reward_B - gain_BK.sum(dim=1)
        if objective in ("db", "fl-db-exact"):
            expected += punished(f_BT[:, 3] - left_B, penalty)
        else:
            f_BT[:, 3] = left_B
        step_BK = math.log(3) / 3 + f_BT[:, :3] + log_pf_BK - f_BT[:, 1:] - gain_BK
        if objective == "tb":
            expected = punished(math.log(3) + f_BT[:, 0] + log_pf_BK.sum(dim=1) - 5 * batch.reward_B, penalty)
        elif objective in ("subtb", "fl-subtb"):
            spans = [(i, j) for i in range(3) for j in range(i + 1, 4)]
            weights = [0.5 ** (j - i) for i, j in spans]
            squares = [float(step_BK[:, i:j].sum(dim=1).square().mean()) for i, j in spans]
            expected = sum(w * x for w, x in zip(weights, squares, strict=True)) / sum(weights)
        else:
            expected += punished(step_BK, penalty)
    assert float(loss.loss.detach()) == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def test_scores_by_hand() -> None:
    """What the root's flow and the steps leave for the reward; relative to 1/n, 1/(n - 1), 1/(n - 2) of a list of n."""
    logarithm = {"b_z": 3.0, "b_r": 0.1, "b_f": 0.7}
    energy = {"reward": "energy", "beta": 5.0, "relative": True, "b_z": 3.0}
    short = {"ranker": {"list_length": 4, "first_steps": 10}}
    for name, settings, size in (("gfn", logarithm, 0), ("gfn", energy, 70), ("gfn-rerank", {**energy, **short}, 4)):
        policy = make_policy(name, make_catalogue(num_items=70), settings)
        assert isinstance(policy, GFN4Rec | GFNRerank)
        request = make_requests(policy.catalogue, 10)
        slate_BK = policy.recommend(request, torch.Generator().manual_seed(0)).slate_BK
        log_prob_BK = policy.log_probs(request, slate_BK)
        state_BS, table_ND = policy.backbone.encode(request)
        prefix_BTX = prefixes(state_BS, table_ND[slate_BK], range(1))
        root_B = math.log(3) + policy.network.log_flows(prefix_BTX)[:, 0]
        if size:
            expected_B = (root_B + (log_prob_BK + torch.arange(size, size - 3, -1).log()).sum(dim=1)) / 5
        else:
            expected_B = (root_B + (log_prob_BK.exp() + 0.7).log().sum(dim=1)).exp() - 0.1
        torch.testing.assert_close(policy.score(request, slate_BK), expected_B, atol=1e-4, rtol=1e-4)


def test_what_the_energy_flow_starts_from() -> None:
    policy = make_policy("gfn-energy", make_catalogue())
    assert isinstance(policy, GFN4Rec)
    config = policy.config
    assert (config.objective, config.reward, config.relative, config.normalise_query) == (
        "fl-db",
        "energy",
        True,
        False,
    )


def test_predicted_rewards_learn_from_the_rewards_alone() -> None:
    settings = {"reward": "energy", "relative": True, "objective": "fl-db-exact", "unknown_user_share": 0.0}
    policy = make_policy("gfn", make_catalogue(), settings)
    assert isinstance(policy, GFN4Rec)
    assert policy.network.item_reward is not None
    batch, weights = make_batch(policy.catalogue, 10), list(policy.network.item_reward.parameters())
    whole = torch.autograd.grad(policy.loss(batch, torch.Generator().manual_seed(0)).loss, weights)
    state_BS, table_ND = policy.backbone.encode(batch.request)
    vector_BKD = table_ND[batch.slate_BK]
    prefix_BTX = prefixes(state_BS, vector_BKD, range(3))
    error_BK = policy.network.item_rewards(prefix_BTX, vector_BKD) - batch.item_reward_BK
    alone = torch.autograd.grad(error_BK.square().mean(), weights)
    for one, other in zip(whole, alone, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["gfn", "gfn-energy", "gfn-rerank"])
def test_an_item_that_is_not_there_is_told(name: str) -> None:
    policy = make_policy(name, make_catalogue())
    batch = make_batch(policy.catalogue, 2)
    batch.slate_BK[1, 2] = 99
    with pytest.raises(UserError, match="slate 1 shows item 99, which is not in the catalogue; ids run from 1 to 6"):
        policy.score(batch.request, batch.slate_BK)
    with pytest.raises(UserError, match="slate 1 shows item 99, which is not in the catalogue; ids run from 1 to 6"):
        policy.loss(batch, torch.Generator().manual_seed(0))


@pytest.mark.parametrize("scale", [20.0, 1000.0])
def test_the_smallest_temperature_is_greedy_however_large_scores_are(scale: float) -> None:
    catalogue = make_catalogue(num_items=3000, slate_size=6)
    policy, request = make_policy("gfn", catalogue, scale=scale), make_requests(catalogue, 20)
    cold = policy.recommend(request, torch.Generator().manual_seed(0), Sampling(temperature=1e-6))
    assert torch.equal(cold.slate_BK, policy.recommend(request, sampling=Sampling(greedy=True)).slate_BK)


@pytest.mark.parametrize("fused", [False, True])
def test_an_optimiser_of_any_kind_renews_the_item_table(fused: bool) -> None:
    policy = make_policy("gfn", make_catalogue())
    request, generator = make_requests(policy.catalogue, 6), torch.Generator().manual_seed(0)
    policy.recommend(request, generator)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.5, fused=fused)
    policy.loss(make_batch(policy.catalogue, 6), generator).loss.backward()
    optimizer.step()
    proposal = policy.recommend(request, generator)
    fresh = policy.log_probs(request, proposal.slate_BK).detach()
    torch.testing.assert_close(proposal.log_prob_BK, fresh, atol=1e-5, rtol=1e-5)


def test_assigned_weights_renew_the_item_table() -> None:
    first, second = (make_policy("gfn", make_catalogue()) for _ in range(2))
    request = make_requests(first.catalogue, 6)
    before = first.recommend(request, sampling=Sampling(greedy=True)).log_prob_BK
    moved = {name: weight + 0.1 for name, weight in second.state_dict().items()}
    first.load_state_dict(moved, assign=True)
    assert not torch.allclose(first.recommend(request, sampling=Sampling(greedy=True)).log_prob_BK, before)


def test_what_is_encoded_without_gradients_can_be_built_upon() -> None:
    policy = make_policy("gfn", make_catalogue())
    assert isinstance(policy, GFN4Rec)
    request = make_requests(policy.catalogue, 6)
    policy.recommend(request, sampling=Sampling(greedy=True))
    with torch.no_grad():
        _, table_ND = policy.backbone.encode(request)
    head = torch.nn.Linear(table_ND.shape[1], 1)
    head(table_ND).sum().backward()
    assert head.weight.grad is not None


def test_the_scale_learns_only_if_asked_to() -> None:
    for learn_scale in (False, True):
        policy = make_policy("gfn", make_catalogue(), learn_scale=learn_scale)
        assert isinstance(policy, GFN4Rec)
        policy.loss(make_batch(policy.catalogue, 6), torch.Generator().manual_seed(0)).loss.backward()
        assert (policy.network.log_scale.grad is not None) == learn_scale


def test_items_are_encoded_once_per_change_of_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy("gfn", make_catalogue())
    assert isinstance(policy, GFN4Rec)
    items, calls = policy.backbone.encoder.items, []
    encode = items.table

    def counted(_: torch.Tensor | None = None) -> torch.Tensor:
        calls.append(1)
        return encode()

    monkeypatch.setattr(items, "table", counted)
    request, generator = make_requests(policy.catalogue, 4), torch.Generator().manual_seed(0)
    for _ in range(3):
        policy.recommend(request, generator)
    assert len(calls) == 1
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.1)
    policy.loss(make_batch(policy.catalogue, 4), generator).loss.backward()
    optimizer.step()
    assert len(calls) == 2
    before = policy.recommend(request, sampling=Sampling(greedy=True)).log_prob_BK
    assert len(calls) == 3
    policy.load_state_dict({name: weight.clone().add_(0.1) for name, weight in policy.state_dict().items()})
    assert not torch.equal(policy.recommend(request, sampling=Sampling(greedy=True)).log_prob_BK, before)
    assert len(calls) == 4


def test_dropout_is_off_when_nothing_is_learned() -> None:
    policy = make_policy("gfn", make_catalogue(), encoder={**SMALL_ENCODER, "dropout": 0.5})
    request = make_requests(policy.catalogue, 8)
    policy.train()
    first, second = (policy.recommend(request, sampling=Sampling(greedy=True)).log_prob_BK for _ in range(2))
    assert torch.equal(first, second)
    assert policy.training


def test_some_users_are_hidden_while_learning() -> None:
    policy = make_policy("gfn", make_catalogue(num_users=30), unknown_user_share=0.25)
    assert isinstance(policy, GFN4Rec)
    request = dataclasses.replace(make_requests(policy.catalogue, 4000), user_B=torch.arange(4000) % 30 + 1)
    hidden = policy.backbone.hide_users(request, torch.Generator().manual_seed(0))
    assert float((hidden.user_B == 0).float().mean()) == pytest.approx(0.25, abs=0.03)
    assert torch.equal(hidden.user_B[hidden.user_B > 0], request.user_B[hidden.user_B > 0])


def test_the_scale_multiplies_the_scores() -> None:
    catalogue = make_catalogue(num_items=2, slate_size=1)
    request, slates = make_requests(catalogue, 5), torch.tensor([[1]] * 5)
    odds = []
    for scale in (1.0, 3.0):
        prob = make_policy("gfn", catalogue, scale=scale).log_probs(request, slates).detach().double().exp()
        odds.append((prob / (1 - prob)).log())
    torch.testing.assert_close(odds[1], 3 * odds[0], atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"b_r": 0.0}, "b_r: Input should be greater than 0"),
        ({"b_f": -0.1}, "b_f: Input should be greater than or equal to 0"),
        ({"b_z": 0.0}, "b_z: Input should be greater than 0"),
        ({"objective": "bd"}, "objective: no such objective; choose from tb, db, subtb, "),
        (
            {"objective": "fl-db"},
            "objective fl-db needs reward = energy: a logarithm is not a sum over items",
        ),
        ({"reward": "energy"}, "reward = energy needs relative = true, or b_f = 0"),
        (
            {"objective": "subtb", "penalty": "huber"},
            "objective subtb weights squared residuals; write penalty = square",
        ),
        ({"penalty": "sqare"}, "penalty: no such penalty; did you mean 'square'?"),
        ({"b_z": math.inf}, "b_z: Input should be a finite number"),
        ({"encoder": {"num_heads": 3}}, "num_heads 3 does not divide the width of a token"),
        ({"hiden_dims": [3]}, "unknown key 'hiden_dims'; did you mean 'hidden_dims'?"),
        ({"encoder": {"dimm": 3}}, "unknown key 'encoder.dimm'; did you mean 'dim'?"),
    ],
)
def test_bad_settings_are_told_in_one_line(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        make_policy("gfn", make_catalogue(), settings)
    assert message in str(caught.value)


def test_an_unknown_policy_is_told_with_the_nearest() -> None:
    with pytest.raises(UserError, match="no policy 'gnf'; did you mean 'gfn'?"):
        make_policy("gnf", make_catalogue())


def test_the_reranker_shows_its_list_only_and_learns_in_two_stages() -> None:
    policy = make_policy("gfn-rerank", make_catalogue(num_items=70), ranker={"list_length": 5, "first_steps": 10})
    assert isinstance(policy, GFNRerank)
    request, generator = make_requests(policy.catalogue, 30), torch.Generator().manual_seed(0)
    state_BS, table_ND = policy.backbone.encode(request)
    best_BC = (table_ND[1:] @ policy.ranker.head.queries(state_BS).T).T.topk(5, dim=1).indices + 1
    for _ in range(5):
        slate_BK = policy.recommend(request, generator, Sampling(epsilon=0.5)).slate_BK
        assert (slate_BK[:, :, None] == best_BC[:, None, :]).any(dim=2).all()
    batch = make_batch(policy.catalogue, 10)
    assert set(policy.loss(batch, generator, step=9).terms) == {"ranker"}
    assert set(policy.loss(batch, generator, step=10).terms) == {"ranker", "trajectory", "log_root_flow", "log_prob"}
    alone = make_policy("gfn-rerank", policy.catalogue, ranker={"learn_jointly": False, "first_steps": 10})
    assert "ranker" not in alone.loss(batch, generator).terms
