"""The baselines beyond what every policy promises, against numbers worked out by hand."""

import dataclasses
import math
from typing import Any

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.policies.boltzmann_cf import BoltzmannCF
from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.cf import CF
from gfn4rec.policies.initial_ranker import InitialRanker
from gfn4rec.policies.list_cvae import ListCVAE, gaussian_divergence
from gfn4rec.policies.losses import reward_cross_entropy
from gfn4rec.policies.prm import PRM
from gfn4rec.policies.rerank_cf import RerankCF
from gfn4rec.schema import Sampling
from gfn4rec.training.config import resolve_settings
from tests.small_catalogue import make_batch, make_catalogue, make_policy, make_requests


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_rewards_are_scaled_by_the_attainable_range() -> None:
    catalogue = make_catalogue(weights=(1.0, 2.0, -1.0))
    scaled = catalogue.scale_reward(torch.tensor([-1.0, 0.0, 3.0, 9.0, -9.0]))
    torch.testing.assert_close(scaled, torch.tensor([0.0, 0.25, 1.0, 1.0, 0.0]))


def test_reward_cross_entropy_by_hand() -> None:
    score_BC, column_BK = torch.tensor([[0.8, 0.15, 0.05]]).log() + 7, torch.tensor([[0, 1]])
    by_hand = -(0.75 * math.log(0.8) + 0.25 * math.log(0.2) + math.log(0.85)) / 2
    assert float(reward_cross_entropy(score_BC, column_BK, torch.tensor([[0.75, 0.0]]))) == pytest.approx(by_hand)


def test_an_item_that_is_certain_and_wrong_still_learns() -> None:
    score_BC = torch.tensor([[60.0, 0.0]], requires_grad=True)
    loss = reward_cross_entropy(score_BC, torch.tensor([[0]]), torch.zeros(1, 1))
    (gradient,) = torch.autograd.grad(loss, [score_BC])
    assert float(loss.detach()) == pytest.approx(60)
    assert gradient.tolist() == [pytest.approx([1.0, -1.0])]


@pytest.mark.parametrize("probability", ["sigmoid", "softmax"])
def test_cf_learns_from_shown_items_by_their_scaled_rewards(probability: str) -> None:
    policy = make_policy("cf", make_catalogue(weights=(1.0, -1.0)), probability=probability, unknown_user_share=0.0)
    assert isinstance(policy, CF)
    batch = make_batch(policy.catalogue, 5)
    with torch.no_grad():
        state_BS, table_ND = policy.backbone.encode(batch.request)
        score_BN = policy.head.queries(state_BS) @ table_ND.T
        offset_B1 = policy.head.offset(state_BS)
    target_BK = (batch.item_reward_BK + 1) / 2
    if probability == "sigmoid":
        prob_BK = (score_BN.gather(1, batch.slate_BK) + offset_B1).sigmoid()
        by_hand = -(target_BK * prob_BK.log() + (1 - target_BK) * (1 - prob_BK).log()).mean()
    else:
        prob_BK = score_BN[:, 1:].softmax(dim=1).gather(1, batch.slate_BK - 1)
        by_hand = -(target_BK * (prob_BK + 0.8).log() + (1 - target_BK) * (1.1 - prob_BK).log()).mean()
    assert float(policy.loss(batch, generator()).loss.detach()) == pytest.approx(float(by_hand), rel=1e-5)
    torch.testing.assert_close(policy.relevance(batch.request, batch.slate_BK), prob_BK)
    best_BK = score_BN[:, 1:].topk(3, dim=1).indices + 1
    assert policy.recommend(batch.request, sampling=Sampling(greedy=True)).slate_BK.tolist() == best_BK.tolist()


def test_boltzmann_cf_samples_by_its_predictions() -> None:
    policy = make_policy("boltzmann-cf", make_catalogue(), reward_temperature=0.25, unknown_user_share=0.0)
    assert isinstance(policy, BoltzmannCF)
    batch = make_batch(policy.catalogue, 5)
    prediction_BK = policy.relevance(batch.request, batch.slate_BK)
    by_hand = (prediction_BK - batch.item_reward_BK).square().mean()
    assert float(policy.loss(batch, generator()).loss.detach()) == pytest.approx(float(by_hand), rel=1e-5)
    with torch.no_grad():
        everything = torch.arange(1, 7).expand(5, -1)
        reward_BN = policy.head.scores(*policy.backbone.encode(batch.request), everything)
    expected_BN = (reward_BN / 0.25).log_softmax(dim=1)
    first_B = policy.log_probs(batch.request, batch.slate_BK).detach()[:, 0]
    torch.testing.assert_close(first_B, expected_BN.gather(1, batch.slate_BK[:, :1] - 1)[:, 0])


def test_negatives_are_uniform_over_the_items_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy("rerank-cf", make_catalogue(num_items=60), ranker={"num_negatives": 44})
    assert isinstance(policy, RerankCF)
    head, seen = policy.ranker.head, []
    scores = head.scores

    def watched(state_BS: torch.Tensor, table_ND: torch.Tensor, item_BC: torch.Tensor) -> torch.Tensor:
        seen.append(item_BC)
        return scores(state_BS, table_ND, item_BC)

    monkeypatch.setattr(head, "scores", watched)
    batch = make_batch(policy.catalogue, 1)
    many = dataclasses.replace(
        make_batch(policy.catalogue, 2000), slate_BK=batch.slate_BK.expand(2000, -1).contiguous()
    )
    policy.loss(many, generator())
    (item_BC,) = seen
    assert item_BC.shape == (2000, 47)
    assert torch.equal(item_BC[:, :3], many.slate_BK)
    count_N = torch.bincount(item_BC[:, 3:].flatten(), minlength=61)
    assert count_N[batch.slate_BK[0]].tolist() == [0, 0, 0]
    others = torch.tensor([item for item in range(1, 61) if item not in batch.slate_BK[0].tolist()])
    expected = 2000 * 44 / 57
    assert float(((count_N[others] - expected) ** 2 / expected).sum()) < 108  # 56 degrees, one in 30,000


def test_the_shortlist_holds_the_best_and_the_slate() -> None:
    policy = make_policy("rerank-cf", make_catalogue(num_items=60), ranker={"list_length": 8})
    assert isinstance(policy, RerankCF)
    request = make_requests(policy.catalogue, 20)
    state_BS, table_ND = policy.backbone.encode(request)
    score_BN = (policy.ranker.head.queries(state_BS) @ table_ND.T).detach()
    score_BN[:, 0] = -torch.inf
    worst_BK = score_BN[:, 1:].topk(3, dim=1, largest=False).indices + 1
    everything = Candidates.all_items(60, torch.device("cpu"))
    best = policy.ranker.shortlist(state_BS, table_ND, everything, None).item_BC
    assert best.tolist() == score_BN.topk(8, dim=1).indices.sort(dim=1).values.tolist()
    with_slate = policy.ranker.shortlist(state_BS, table_ND, everything, worst_BK).item_BC
    expected = torch.cat([score_BN.topk(5, dim=1).indices, worst_BK], dim=1).sort(dim=1).values
    assert with_slate.tolist() == expected.tolist()
    few = Candidates.of([[0, 0, 4, 9, 30], [1, 2, 3, 4, 5]] * 10, 20, 60, 3)
    assert few.count().tolist() == [3, 5] * 10
    shown_BK = torch.tensor([[4, 9, 30], [5, 3, 1]] * 10)
    short = policy.ranker.shortlist(state_BS, table_ND, few, shown_BK)
    assert short.item_BC.tolist() == [[0, 0, 4, 9, 30], [1, 2, 3, 4, 5]] * 10
    assert short.num_padding_B.tolist() == [2, 0] * 10


def test_the_reranked_probability_is_a_softmax_over_the_list() -> None:
    policy = make_policy("rerank-cf", make_catalogue(), ranker={"list_length": 4})
    request, slate_BK = make_requests(policy.catalogue, 5), torch.tensor([[1, 2, 3]] * 5)
    assert isinstance(policy, RerankCF)
    with torch.no_grad():
        state_BS, table_ND = policy.backbone.encode(request)
        score_BN = policy.ranker.head.queries(state_BS) @ table_ND.T
        other_B1 = score_BN[:, 4:].max(dim=1, keepdim=True).values
        expected = torch.cat([score_BN[:, 1:4], other_B1], dim=1).softmax(dim=1)[:, :3]
    torch.testing.assert_close(policy.relevance(request, slate_BK), expected)


def test_shown_items_stand_anywhere_in_the_list_prm_learns_from() -> None:
    """Were they always first, or last, their place would tell that they were shown."""
    policy = make_policy("prm", make_catalogue(num_items=60), ranker={"list_length": 10})
    assert isinstance(policy, PRM)
    places: list[torch.Tensor] = []
    policy.place.register_forward_hook(lambda _, inputs, __: places.append(inputs[0]))
    batch = make_batch(policy.catalogue, 3000)
    state_BS, table_ND = policy.backbone.encode(batch.request)
    everything = Candidates.all_items(60, torch.device("cpu"))
    shortlist = policy.ranker.shortlist(state_BS, table_ND, everything, batch.slate_BK)
    policy.loss(dataclasses.replace(batch), generator())
    (place_BC,) = places
    assert place_BC.sort(dim=1).values.tolist() == [list(range(10))] * 3000
    shown = place_BC.gather(1, shortlist.columns(batch.slate_BK))
    for position in range(3):
        count = torch.bincount(shown[:, position], minlength=10)
        assert float(((count - 300) ** 2 / 300).sum()) < 33.7  # 9 degrees, one in 10,000


@pytest.mark.parametrize("others", ["ranked", "random"])
def test_what_stands_beside_shown_items_when_prm_learns(others: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy(
        "prm", make_catalogue(num_items=60), others=others, ranker={"list_length": 30}, unknown_user_share=0.0
    )
    assert isinstance(policy, PRM)
    lists, scores = list[torch.Tensor](), policy._scores

    def watched(state_BS: torch.Tensor, table_ND: torch.Tensor, shortlist: Candidates, place_BC: torch.Tensor) -> Any:
        lists.append(shortlist.item_BC)
        return scores(state_BS, table_ND, shortlist, place_BC)

    monkeypatch.setattr(policy, "_scores", watched)
    batch = make_batch(policy.catalogue, 200)
    policy.loss(batch, generator())
    ((state_BS, table_ND), (item_BC,)) = policy.backbone.encode(batch.request), lists
    ranking_BN = policy.ranker.head.queries(state_BS) @ table_ND.T
    count_N, num_others = torch.zeros(61), 0
    for shown, listed, score_N in zip(batch.slate_BK.tolist(), item_BC.tolist(), ranking_BN, strict=True):
        order = score_N[1:].argsort(descending=True) + 1
        rest = [item for item in listed if item > 0 and item not in shown]
        assert set(shown) <= set(listed)
        assert len(set(rest)) == len(rest)
        if others == "ranked":
            assert sorted(rest) == sorted([item for item in order.tolist() if item not in shown][:27])
        count_N[rest] += 1
        num_others += len(rest)
    if others == "random":  # 27 draws with replacement from 57 leave 57 (1 - (56 / 57) ** 27) different ones
        assert num_others / 200 == pytest.approx(57 * (1 - (56 / 57) ** 27), abs=0.5)
        chance_N = count_N[1:] / (200 - torch.bincount(batch.slate_BK.flatten(), minlength=61)[1:])
        assert float((chance_N - num_others / 200 / 57).abs().max()) < 0.18  # five standard deviations


def test_prm_learns_from_a_log_with_random_others_unless_told() -> None:
    assert resolve_settings("online", "prm").policy_settings.model_dump()["others"] == "ranked"
    assert resolve_settings("offline", "prm").policy_settings.model_dump()["others"] == "random"
    assert (
        resolve_settings("offline", "prm", changes={"others": "ranked"}).policy_settings.model_dump()["others"]
        == "ranked"
    )


def test_random_others_on_lists_of_a_small_catalogue() -> None:
    policy = make_policy("prm", make_catalogue(num_items=3), others="random")
    assert torch.isfinite(policy.loss(make_batch(policy.catalogue, 4), generator()).loss)


def test_prm_serves_the_list_in_the_rankers_order() -> None:
    policy = make_policy("prm", make_catalogue(num_items=60), ranker={"list_length": 10})
    assert isinstance(policy, PRM)
    places: list[torch.Tensor] = []
    policy.place.register_forward_hook(lambda _, inputs, __: places.append(inputs[0]))
    request = make_requests(policy.catalogue, 20)
    policy.recommend(request, sampling=Sampling(greedy=True))
    state_BS, table_ND = policy.backbone.encode(request)
    score_BN = (policy.ranker.head.queries(state_BS) @ table_ND.T).detach()
    score_BN[:, 0] = -torch.inf
    best_BC = score_BN.topk(10, dim=1).indices
    place_of_sorted = best_BC.argsort(dim=1)  # the list is handed over sorted by id
    assert places[0].tolist() == place_of_sorted.tolist()


def test_prm_weights_the_loss_of_its_personalised_vectors() -> None:
    policy = make_policy("prm", make_catalogue(num_items=60), pv_weight=0.5)
    terms = policy.loss(make_batch(policy.catalogue, 8), generator())
    expected = terms.terms["ranker"] + terms.terms["rerank"] + 0.5 * terms.terms["personal"]
    assert float(terms.loss.detach()) == pytest.approx(float(expected))


def test_prm_learns_and_ranks_by_a_softmax_over_its_list() -> None:
    policy = make_policy("prm", make_catalogue(num_items=60), ranker={"list_length": 10}, unknown_user_share=0.0)
    assert isinstance(policy, PRM)
    with torch.no_grad():
        policy.place.weight.zero_()  # then the order of the list does not matter
    batch = make_batch(policy.catalogue, 6)
    with torch.no_grad():
        state_BS, table_ND = policy.backbone.encode(batch.request)
        everything = Candidates.all_items(60, torch.device("cpu"))
        shortlist = policy.ranker.shortlist(state_BS, table_ND, everything, batch.slate_BK)
        score_BC, _ = policy._scores(state_BS, table_ND, shortlist, torch.zeros_like(shortlist.item_BC))
        prob_BK = score_BC.softmax(dim=1).gather(1, shortlist.columns(batch.slate_BK))
    torch.testing.assert_close(policy.relevance(batch.request, batch.slate_BK), prob_BK)
    target_BK = policy.catalogue.scale_reward(batch.item_reward_BK)
    by_hand = -(target_BK * prob_BK.log() + (1 - target_BK) * (1 - prob_BK).log()).mean()
    assert float(policy.loss(batch, generator()).terms["rerank"]) == pytest.approx(float(by_hand), rel=1e-4)
    with torch.no_grad():
        first = policy.log_probs(batch.request, batch.slate_BK)
        for weight in policy.personal.parameters():
            weight.zero_()
    assert not torch.allclose(policy.log_probs(batch.request, batch.slate_BK), first)


def test_a_list_is_never_shorter_than_a_slate() -> None:
    for name in ("rerank-cf", "prm", "gfn-rerank"):
        policy = make_policy(name, make_catalogue(num_items=60), ranker={"list_length": 2})
        slate_BK = policy.recommend(make_requests(policy.catalogue, 5), sampling=Sampling(greedy=True)).slate_BK
        assert all(len(set(slate)) == 3 for slate in slate_BK.tolist())
        torch.testing.assert_close(
            policy.log_probs(make_requests(policy.catalogue, 5), slate_BK)[:, 2].detach(), torch.zeros(5)
        )


def test_a_catalogue_no_larger_than_a_slate_has_no_negatives() -> None:
    policy = make_policy("rerank-cf", make_catalogue(num_items=3))
    assert torch.isfinite(policy.loss(make_batch(policy.catalogue, 4), generator()).loss)


def test_divergence_of_gaussians_by_hand() -> None:
    zero, one = torch.zeros(1, 1), torch.ones(1, 1)
    log_4 = torch.tensor([[4.0]]).log()
    assert float(gaussian_divergence(one, zero, one, zero)) == 0
    assert float(gaussian_divergence(one, zero, zero, zero)) == pytest.approx(0.5)
    # variance 4 against 1: (4 - 1 - log 4) / 2; and 1 against 4, a mean apart by 1: (1/4 + 1/4 - 1 + log 4) / 2
    assert float(gaussian_divergence(zero, log_4, zero, zero)) == pytest.approx((3 - float(log_4)) / 2)
    assert float(gaussian_divergence(one, zero, zero, log_4)) == pytest.approx((-0.5 + float(log_4)) / 2)


def test_list_cvae_draws_a_latent_and_its_probabilities_depend_on_it() -> None:
    policy = make_policy("list-cvae", make_catalogue(), latent_dim=4)
    assert isinstance(policy, ListCVAE)
    request = make_requests(policy.catalogue, 6)
    proposal = policy.recommend(request, generator())
    assert proposal.latent_BZ is not None
    assert proposal.latent_BZ.shape == (6, 4)
    proposed = policy.relevance(request, proposal.slate_BK, proposal.log_prob_BK)
    torch.testing.assert_close(proposed, proposal.log_prob_BK.exp())
    assert not torch.allclose(proposed, policy.relevance(request, proposal.slate_BK))  # which knows no latent
    given = policy.log_probs(request, proposal.slate_BK, latent_BZ=proposal.latent_BZ)
    assert not torch.allclose(given, policy.log_probs(request, proposal.slate_BK))
    greedy = policy.recommend(request, sampling=Sampling(greedy=True))
    assert greedy.latent_BZ is not None
    assert greedy.latent_BZ.abs().max() == 0
    cold, warm = (policy.recommend(request, generator(), Sampling(temperature=t)).latent_BZ for t in (0.5, 1.0))
    assert cold is not None
    assert warm is not None
    torch.testing.assert_close(2 * cold, warm)


def test_list_cvae_loss_by_hand() -> None:
    policy = make_policy("list-cvae", make_catalogue(), latent_dim=4, beta=0.5, unknown_user_share=0.0)
    assert isinstance(policy, ListCVAE)
    batch = make_batch(policy.catalogue, 6)
    loss = policy.loss(batch, generator(3))
    noise_generator = generator(3)
    torch.rand(6, generator=noise_generator)  # who is hidden
    noise_BZ = torch.randn(6, 4, generator=noise_generator)
    with torch.no_grad():
        state_BS, table_ND = policy.backbone.encode(batch.request)
        known = torch.cat([state_BS, policy.condition(policy.catalogue.scale_reward(batch.reward_B)[:, None])], dim=1)
        posterior = policy.posterior(torch.cat([known, table_ND[batch.slate_BK].flatten(1)], dim=1))
        prior = policy.prior(known)
        z_BZ = posterior[:, :4] + posterior[:, 4:].exp().sqrt() * noise_BZ
        query_BKD = policy.query_norm(policy.decoder(torch.cat([known, z_BZ], dim=1)).view(6, 3, -1))
        score_BKN = query_BKD @ table_ND.T
        score_BKN[:, :, 0] = -torch.inf
        for k in range(1, 3):
            for earlier in range(k):
                score_BKN[torch.arange(6), k, batch.slate_BK[:, earlier]] = -torch.inf
        log_prob = score_BKN.log_softmax(dim=2).gather(2, batch.slate_BK[:, :, None]).sum(dim=(1, 2))
        divergence = gaussian_divergence(posterior[:, :4], posterior[:, 4:], prior[:, :4], prior[:, 4:])
    expected = float(-log_prob.mean() + 0.5 * divergence.mean())
    assert float(loss.loss.detach()) == pytest.approx(expected, rel=1e-4)


def test_list_cvae_latent_is_in_units_of_the_priors_deviation() -> None:
    policy = make_policy("list-cvae", make_catalogue(), latent_dim=4)
    assert isinstance(policy, ListCVAE)
    request, slate_BK = make_requests(policy.catalogue, 6), torch.tensor([[1, 2, 3]] * 6)
    latent_BZ = torch.randn(6, 4, generator=generator())
    with torch.no_grad():
        found = policy.log_probs(request, slate_BK, latent_BZ=latent_BZ)
        state_BS, table_ND = policy.backbone.encode(request)
        known = torch.cat([state_BS, policy.condition(torch.ones(6, 1))], dim=1)
        prior = policy.prior(known)
        z_BZ = prior[:, :4] + prior[:, 4:].exp().sqrt() * latent_BZ
        query_BKD = policy.query_norm(policy.decoder(torch.cat([known, z_BZ], dim=1)).view(6, 3, -1))
        first_B = (query_BKD[:, 0] @ table_ND[1:].T).log_softmax(dim=1)[:, 0]
    torch.testing.assert_close(found[:, 0], first_B, atol=1e-5, rtol=1e-5)


def test_list_cvae_survives_an_enormous_variance() -> None:
    policy = make_policy("list-cvae", make_catalogue())
    assert isinstance(policy, ListCVAE)
    with torch.no_grad():
        list(policy.prior.parameters())[-1].fill_(1e3)
        list(policy.posterior.parameters())[-1].fill_(-1e3)
    assert torch.isfinite(policy.loss(make_batch(policy.catalogue, 6), generator()).loss)


def test_list_cvae_asks_for_the_maximum_reward() -> None:
    """What is recommended is what the decoder makes of slates with the highest reward."""
    policy = make_policy("list-cvae", make_catalogue(weights=(1.0, 1.0)))
    assert isinstance(policy, ListCVAE)
    conditions: list[torch.Tensor] = []
    policy.condition.register_forward_hook(lambda _, inputs, __: conditions.append(inputs[0]))
    policy.recommend(make_requests(policy.catalogue, 6), generator())
    policy.loss(make_batch(policy.catalogue, 6, reward=2.0), generator())
    assert conditions[0].tolist() == conditions[1].tolist() == [[1.0]] * 6


def test_popularity_is_the_frequency_in_the_training_part(data: SlateData) -> None:
    catalogue = Catalogue.of(data)
    held_out = torch.cat([data.split("val"), data.split("test")])
    first_row: dict[int, int] = {}
    for slate in held_out.tolist():
        row = int(data._slate_row[slate, 0])
        user = int(data.user_at(torch.tensor(row)))
        first_row[user] = min(first_row.get(user, row), row)
    count = [0] * (data.num_items + 1)
    for row in range(data.num_rows):
        if row < first_row.get(int(data.user_at(torch.tensor(row))), data.num_rows):
            count[int(data.item_at(torch.tensor(row)))] += 1
    assert catalogue.count_N.tolist() == count
    policy = make_policy("popularity", catalogue)
    request = data.requests(torch.arange(2))
    slate_BK = torch.arange(1, data.slate_size + 1).expand(2, -1)
    share = (count[1] + 1) / (sum(count) + data.num_items)
    assert policy.log_probs(request, slate_BK)[:, 0].exp().tolist() == pytest.approx([share] * 2, rel=1e-4)


def test_random_slates_are_all_alike() -> None:
    policy = make_policy("random", make_catalogue())
    log_prob_BK = policy.log_probs(make_requests(policy.catalogue, 2), torch.tensor([[3, 1, 2]] * 2))
    torch.testing.assert_close(log_prob_BK.exp(), torch.tensor([[1 / 6, 1 / 5, 1 / 4]] * 2))


def test_ranker_stages_are_counted_from_zero() -> None:
    policy = make_policy("prm", make_catalogue(num_items=60), ranker={"first_steps": 2})
    batch = make_batch(policy.catalogue, 8)
    kinds = [set(policy.loss(batch, generator(), step).terms) for step in (0, 1, 2, None)]
    assert kinds[0] == kinds[1] == {"ranker"}
    assert kinds[2] == kinds[3] == {"ranker", "rerank", "personal"}
    assert isinstance(policy, PRM)
    assert isinstance(policy.ranker, InitialRanker)
