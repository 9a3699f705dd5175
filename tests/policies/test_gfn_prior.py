"""The prior-guided GFN: what each of its parts learns from, and what it reads."""

import dataclasses
from collections.abc import Sequence

import pytest
import torch

from gfn4rec.policies.candidates import Candidates
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.policies.log_prior import ChoiceModel
from gfn4rec.schema import Request
from tests.small_catalogue import (
    HISTORY,
    SMALL_ENCODER,
    generator,
    make_batch,
    make_catalogue,
    make_policy,
    make_requests,
    stirred,
)


@pytest.mark.parametrize(
    ("term", "part"),
    [("response", "reward"), ("history", "reward"), ("prior", "prior"), ("step", "correction")],
)
def test_each_part_learns_by_its_own_term_of_the_loss_alone(term: str, part: str) -> None:
    policy = stirred("gfn-prior", make_catalogue())
    batch = dataclasses.replace(make_batch(policy.catalogue, 12), is_logged=True)
    policy._loss(batch, generator(), None).terms[term].backward()
    learning = {name.partition(".")[0] for name, weight in policy.named_parameters() if weight.grad is not None}
    assert learning == {part}


def test_pair_effects_learn_by_their_error_on_shown_slates_alone() -> None:
    policy = stirred("gfn-prior", make_catalogue())
    assert isinstance(policy, PriorGFN)
    batch = make_batch(policy.catalogue, 12)
    loss = policy._loss(batch, generator(), None).terms["pairs"]
    with torch.no_grad():
        guide = policy._guide(batch.request)
        effect_BKK = policy.pairs.effects(batch.slate_BK, guide.pair_ND)
        reward_BK = guide.rewards(batch.slate_BK)
    errors = [
        float(batch.item_reward_BK[row, place] - reward_BK[row, place])
        - sum(float(effect_BKK[row, place, other]) for other in range(3))
        for row in range(12)
        for place in range(3)
    ]
    assert float(loss.detach()) == pytest.approx(sum(error**2 for error in errors) / 36, rel=1e-4)
    loss.backward()
    learning = {name.partition(".")[0] for name, weight in policy.named_parameters() if weight.grad is not None}
    assert learning == {"pairs"}


@pytest.mark.parametrize("correct_logged", [True, False])
@pytest.mark.parametrize("is_logged", [True, False])
def test_the_prior_learns_from_the_log_and_the_correction_from_it_if_asked(
    is_logged: bool, correct_logged: bool
) -> None:
    policy = make_policy("gfn-prior", make_catalogue(), correct_logged=correct_logged)
    batch = dataclasses.replace(make_batch(policy.catalogue, 12), is_logged=is_logged)
    terms = policy.loss(batch, generator()).terms
    assert ("prior" in terms) == is_logged
    assert ("step" in terms) == (correct_logged or not is_logged)
    assert ("pairs" in terms) == (not is_logged)
    assert batch.to("cpu").is_logged == is_logged


@torch.no_grad()
def test_the_prior_learns_from_the_items_that_were_chosen_and_the_reward_model_from_sampled_ones_too() -> None:
    catalogue = make_catalogue()
    policy = make_policy("gfn-prior", catalogue, unknown_user_share=0.0).eval()
    assert isinstance(policy, PriorGFN)
    places = [number % 3 for number in range(12)]
    batch = dataclasses.replace(make_batch(catalogue, 12), is_logged=True)
    marked = dataclasses.replace(batch, is_sampled_BK=torch.arange(3) == torch.tensor(places)[:, None])
    losses = []
    for member in policy.prior.members:
        assert isinstance(member, ChoiceModel)
        scores = member.encode(batch.request)
        weight_BN = (scores.query_BD @ scores.vector_ND.T).exp()
        for row, sampled in enumerate(places):
            first, second = (int(item) for place, item in enumerate(batch.slate_BK[row]) if place != sampled)
            total = float(weight_BN[row, 1:].sum())  # what is sampled could have been chosen as well
            losses.append(-float((weight_BN[row, first] / total).log()))
            losses.append(-float((weight_BN[row, second] / (total - float(weight_BN[row, first]))).log()))
    terms, plain = (policy.loss(each, generator()).terms for each in (marked, batch))
    assert float(terms["prior"]) == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    assert float(terms["prior"]) != pytest.approx(float(plain["prior"]), rel=1e-3)
    assert float(terms["response"]) == float(plain["response"])


@torch.no_grad()
@pytest.mark.parametrize(
    ("share", "read"),
    [(1.0, [range(12), range(12)]), (0.4, [range(5), range(5, 10)]), (0.6, [range(8), [*range(8, 12), *range(4)]])],
)
def test_members_learn_each_event_of_logged_histories_of_their_own_from_the_events_before_it(
    share: float, read: list[Sequence[int]]
) -> None:
    catalogue = make_catalogue()
    policy = make_policy("gfn-prior", catalogue, unknown_user_share=0.0, history_share=share)
    assert isinstance(policy, PriorGFN)
    request = make_requests(catalogue, 12, length=2 * HISTORY)  # the encoder reads the latest half
    means = []
    for member, rows in enumerate(read):
        losses = []
        for row in rows:
            history, response = request.history_BH[row, HISTORY:], request.response_BHR[row, HISTORY:]
            for event in range(HISTORY):
                if history[event] == 0:
                    continue
                before = Request(request.user_B[row : row + 1], history[None, :event], response[None, :event])
                scores = policy._guide(before).responses[member]
                prob_R = scores.logits(history[None, event : event + 1])[0, 0].sigmoid()
                losses.append(-float(torch.where(response[event] > 0, prob_R, 1 - prob_R).log().sum()))
        means.append(sum(losses) / len(losses))
    batch = dataclasses.replace(make_batch(catalogue, 12), request=request, is_logged=True)
    terms = policy.train().loss(batch, generator()).terms
    assert float(terms["history"]) == pytest.approx(sum(means) / 2, rel=1e-4)
    assert "history" not in policy.eval().loss(batch, generator()).terms  # held-out slates follow a known history
    assert "history" not in policy.train().loss(dataclasses.replace(batch, is_logged=False), generator()).terms


def test_a_log_without_histories_has_no_loss_of_them() -> None:
    policy = make_policy("gfn-prior", make_catalogue()).train()
    batch = make_batch(policy.catalogue, 12)
    nothing = Request(batch.request.user_B, torch.zeros_like(batch.request.history_BH), batch.request.response_BHR)
    terms = policy.loss(dataclasses.replace(batch, request=nothing, is_logged=True), generator()).terms
    assert float(terms["history"]) == 0.0


def test_histories_of_responses_alone_are_not_learned_from() -> None:
    """Every event in them has a response, so they would teach that every item gets one."""
    catalogue = dataclasses.replace(make_catalogue(), has_whole_histories=False)
    batch = dataclasses.replace(make_batch(catalogue, 12), is_logged=True)
    terms = make_policy("gfn-prior", catalogue).train().loss(batch, generator()).terms
    assert set(terms) == {"response", "prior", "step"}


def test_dropout_of_the_prior_is_off_where_it_only_guides() -> None:
    policy = make_policy("gfn-prior", make_catalogue(), prior_encoder={**SMALL_ENCODER, "dropout": 0.5}).train()
    batch = make_batch(policy.catalogue, 12)
    assert policy.loss(batch, generator()).terms == policy.loss(batch, generator()).terms


def test_histories_are_as_long_as_the_longer_reader_needs() -> None:
    for lengths in ((5, 9), (9, 5)):
        own, of_prior = ({**SMALL_ENCODER, "history_length": length} for length in lengths)
        policy = make_policy("gfn-prior", make_catalogue(), encoder=own, prior_encoder=of_prior)
        assert isinstance(policy, PriorGFN)
        assert policy.config.history_length == 9


@torch.no_grad()
def test_relevance_is_the_weighted_sum_of_the_mean_predicted_responses() -> None:
    policy = stirred("gfn-prior", make_catalogue(weights=(1.0, -0.5)))
    assert isinstance(policy, PriorGFN)
    batch = make_batch(policy.catalogue, 12)
    terms = policy.eval().loss(batch, generator()).terms
    responses = policy._guide(batch.request).responses
    prob_MBKR = torch.stack([member.logits(batch.slate_BK).sigmoid() for member in responses])
    assert float((prob_MBKR[0] - prob_MBKR[1]).abs().mean()) > 0.01  # members start from different weights
    likelihood_MBKR = torch.where(batch.response_BKR > 0, prob_MBKR, 1 - prob_MBKR)
    assert float(terms["response"]) == pytest.approx(-float(likelihood_MBKR.log().sum(dim=3).mean()), rel=1e-5)
    prob_BKR = prob_MBKR.mean(dim=0)
    relevance_BK = policy.relevance(batch.request, batch.slate_BK)
    torch.testing.assert_close(relevance_BK, prob_BKR[:, :, 0] - 0.5 * prob_BKR[:, :, 1])


@torch.no_grad()
def test_the_prior_is_the_geometric_mean_of_its_members_which_learn_for_themselves() -> None:
    policy = stirred("gfn-prior", make_catalogue())
    assert isinstance(policy, PriorGFN)
    batch = dataclasses.replace(make_batch(policy.catalogue, 12), is_logged=True)
    candidates = policy._candidates(None, batch.request)
    score_MBN, losses = [], []
    for member in policy.prior.members:
        assert isinstance(member, ChoiceModel)
        scores = member.encode(batch.request)
        score_MBN.append((scores.query_BD @ scores.vector_ND.T)[:, 1:].log_softmax(dim=1))
        losses.append(float(member.loss(batch.request, candidates, batch.slate_BK)))
    both = policy.prior.encode(batch.request)
    log_prob_BN = (both.query_BD @ both.vector_ND.T)[:, 1:].log_softmax(dim=1)
    torch.testing.assert_close(log_prob_BN, torch.stack(score_MBN).mean(dim=0).log_softmax(dim=1))
    assert abs(losses[0] - losses[1]) > 0.01
    assert float(policy.prior.loss(batch.request, candidates, batch.slate_BK)) == pytest.approx(sum(losses) / 2)


@torch.no_grad()
@pytest.mark.parametrize("lists", ["catalogue", "one", "short", "long"])
def test_base_scores_are_those_of_the_candidates(lists: str) -> None:
    """Prior and rewards of each candidate, however the candidates are given."""
    catalogue = make_catalogue(num_items=200, weights=(1.0, -0.5))
    policy = stirred("gfn-prior", catalogue)
    assert isinstance(policy, PriorGFN)
    request = make_requests(catalogue, 3)
    candidates = {
        "catalogue": Candidates.all_items(200, torch.device("cpu")),
        "one": Candidates.of([9, 4, 30], 3, 200, 3),
        "short": Candidates.of([[9, 4, 30], [1, 2, 3, 5], [7, 200, 8]], 3, 200, 3),
        "long": Candidates.of_lists(torch.arange(1, 151).expand(3, -1) + torch.tensor([[0], [20], [50]])),
    }[lists]
    guide = policy._guide(request)
    prior_BC, reward_BC = guide.scores(candidates, None)
    for row in range(3):
        item_C = candidates.item_BC[row if len(candidates.item_BC) > 1 else 0]
        prior_C = guide.prior_ND[item_C] @ guide.prior_query_BD[row]
        reward_C = guide.rewards(item_C.expand(3, -1))[row]
        torch.testing.assert_close(prior_BC[row], prior_C.masked_fill(item_C == 0, -torch.inf))
        torch.testing.assert_close(reward_BC[row], reward_C.masked_fill(item_C == 0, 0.0))
