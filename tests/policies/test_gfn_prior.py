"""The prior-guided GFN: what each of its parts learns from, and what it reads."""

import dataclasses

import pytest
import torch

from gfn4rec.policies.gfn_prior import PriorGFN
from tests.small_catalogue import SMALL_ENCODER, generator, make_batch, make_catalogue, make_policy, stirred


@pytest.mark.parametrize(("term", "part"), [("reward", "reward"), ("prior", "prior"), ("step", "correction")])
def test_each_part_learns_by_its_own_term_of_the_loss_alone(term: str, part: str) -> None:
    policy = stirred("gfn-prior", make_catalogue())
    batch = dataclasses.replace(make_batch(policy.catalogue, 12), is_logged=True)
    policy._loss(batch, generator(), None).terms[term].backward()
    learning = {name.partition(".")[0] for name, weight in policy.named_parameters() if weight.grad is not None}
    assert learning == {part}


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
    assert batch.to("cpu").is_logged == is_logged


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
def test_relevance_is_the_predicted_reward() -> None:
    policy = stirred("gfn-prior", make_catalogue())
    assert isinstance(policy, PriorGFN)
    batch = make_batch(policy.catalogue, 12)
    state_BS, table_ND = policy.reward.backbone.encode(batch.request)
    expected_BK = policy.reward.head.scores(state_BS, table_ND, batch.slate_BK)
    torch.testing.assert_close(policy.relevance(batch.request, batch.slate_BK), expected_BK)
