"""Logged probabilities are true: recomputed from what the store keeps, by hand, and as frequencies of many draws.

They are recomputed in double precision by code that draws nothing; an off-policy estimate rests on them.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import sqlalchemy as sa
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.live.desk import Desk, Knobs
from gfn4rec.live.encoding import Encoding
from gfn4rec.live.items import LiveItems
from gfn4rec.live.propensities import Recomputation, tolerance
from gfn4rec.live.records import Decision
from gfn4rec.live.store.decisions import find_decisions
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.tables import decisions
from gfn4rec.policies import POLICIES
from gfn4rec.policies.base import Policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import MIN_TEMPERATURE
from tests.live.fakes import HISTORY, FakePolicy, ask
from tests.live.growth.shop import Shop, open_shop, raw_features, small_policy
from tests.live.http.serving import stir

NEARLY_GREEDY = 1 - MIN_TEMPERATURE / 2  # clamped to the lowest temperature
GREEDINESS = (0.0, 0.3, 0.7, 0.9, NEARLY_GREEDY, 1.0)
NUM_REQUESTS = 20_000
SIGNIFICANCE = 1e-3
Slate: TypeAlias = tuple[str, ...]


def moved_policy(data: SlateData, name: str) -> Policy:
    """Return a policy to which users, histories and items matter."""
    # The default sharpness makes scores in the hundreds of untrained predictions.
    policy = small_policy(data, name, **({"beta": 3.0} if name == "gfn-anchored" else {}))
    stir(policy)
    return policy


def stored(shop: Shop) -> list[Decision]:
    """Return all decisions as the store has them, in the order of request ids and places."""
    with shop.store.read() as connection:
        request_ids = connection.scalars(sa.select(decisions.c.request_id)).all()
        found = find_decisions(connection, set(request_ids))
    return [decision for request_id in sorted(found) for decision in found[request_id]]


def recomputation(shop: Shop) -> Recomputation:
    """Return what computes probabilities again from the shop's store and versions."""
    return Recomputation(shop.data, shop.store, lambda number: shop.versions.load(number, shop.policy_for)[1], 0)


def largest_share(shop: Shop) -> float:
    """Return the largest difference of stored and recomputed log-probabilities, as a share of the tolerance."""
    known = stored(shop)
    again = recomputation(shop).log_probs(known)
    return max(
        abs(one - other) / tolerance(decision)
        for decision, row in zip(known, again, strict=True)
        for one, other in zip(decision.log_prob, row, strict=True)
    )


def publish_another(shop: Shop) -> None:
    """Publish and promote a version with other weights, which knows the catalogue as it is now."""
    other = deepcopy(shop.service._current_desk().policy)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.8)
    values = {"parent": 1, "trained_to_seq": 0, "step": 1, "revision": shop.service.items.revision}
    shop.versions.publish(other, number=2, **values)
    shop.promotion.scan()


def ask_in_every_way(shop: Shop) -> None:
    """Ask with every rule and sampling, alone and together, for users of the log and new ones."""
    ids = [shop.service.items.at(number).id for number in range(1, len(shop.service.items) + 1)]
    has_prior = shop.service.desk.policy.has_prior
    rules: list[dict[str, Any]] = [
        {},
        {"exclude": (ids[3], ids[7], "unknown")},
        {"candidates": tuple(ids[5:14])},
        {"candidates": tuple(ids[:12]), "exclude": tuple(ids[2:5])},
        {"exclude_seen": True},
        {"history": ((ids[1], None), (ids[8], ("click",)), (ids[9], ()))},
        {"history": ()},
        {"num_slates": 3},
    ]
    users = [str(user) for user in shop.data.users["id"].to_list()[:3]]
    shop.respond(shop.ask([users[0], "stranger"]), lambda item: len(item) % 2 == 0)
    for number, (rule, greediness) in enumerate(itertools.product(rules, GREEDINESS)):
        weight = (None, 0.0, 2.5)[number % 3] if has_prior else None
        shop.ask(
            [users[number % 3], (None, "stranger")[number % 2]], **rule, greediness=greediness, reward_weight=weight
        )


@pytest.mark.parametrize(("name", "epsilon"), [*((name, 0.2) for name in POLICIES), ("gfn-prior", 0.0), ("prm", 0.0)])
def test_logged_probabilities_are_those_of_version_and_request(
    data: SlateData, tmp_path: Path, name: str, epsilon: float
) -> None:
    with open_shop(data, tmp_path, moved_policy(data, name), epsilon=epsilon) as shop:
        ask_in_every_way(shop)
        first = len(stored(shop))
        shop.service.put_item("new", None, raw_features(data, 3))
        shop.service.put_item("newer", None, {"category": "category 1"})
        for number in (2, 11, 30):
            shop.service.disable_item(shop.service.items.at(number).id)
        publish_another(shop)
        ask_in_every_way(shop)
        known = stored(shop)
        assert {(each.version, each.revision) for each in known} == {(1, 0), (2, 5)}
        assert len(known) == 2 * first == 2 * (2 + 2 * (7 + 3) * len(GREEDINESS))
        assert largest_share(shop) <= 1


def changed(decision: Decision, shop: Shop) -> dict[str, Decision]:
    """Return a decision with one thing after the other changed that its probabilities depend on."""
    left = [
        name for name in (shop.service.items.at(number).id for number in range(1, 20)) if name not in decision.slate
    ]
    sampling = dict(decision.sampling)
    return {
        "user": replace(decision, user="2"),
        "history": replace(decision, history=decision.history[1:]),
        "rule": replace(decision, rule={"exclude": left[:5]}),
        "slate": replace(decision, slate=decision.slate[::-1]),
        "version": replace(decision, version=2),
        "greediness": replace(decision, sampling=sampling | {"greediness": 0.4}),
        "reward_weight": replace(decision, sampling=sampling | {"reward_weight": 1.5}),
        "epsilon": replace(decision, sampling=sampling | {"epsilon": 0.2}),
    }


def test_every_part_of_a_decision_is_used(data: SlateData, tmp_path: Path) -> None:
    """Each wrong part changes the probabilities by far more than rounding does."""
    with open_shop(data, tmp_path, moved_policy(data, "gfn-prior"), epsilon=0.1, greediness=0.3) as shop:
        (decision,) = shop.ask(["1"], reward_weight=2.0)
        publish_another(shop)
        again = recomputation(shop)
        (true,) = again.log_probs([decision])
        assert true == pytest.approx(decision.log_prob, abs=1e-5)
        for name, wrong in changed(decision, shop).items():
            (log_prob,) = again.log_probs([wrong])
            assert max(abs(one - other) for one, other in zip(true, log_prob, strict=True)) > 1e-3, name


def test_the_revision_and_the_latent_vector_are_used(data: SlateData, tmp_path: Path) -> None:
    """An added item takes a share of the probability of others; another request has another latent vector."""
    with open_shop(data, tmp_path, moved_policy(data, "list-cvae")) as shop:
        (decision,) = shop.ask(["1"])
        shop.service.put_item("new", None, raw_features(data, 3))
        again = recomputation(shop)
        wrong = [replace(decision, revision=1), replace(decision, request_id="other"), replace(decision, place=1)]
        true, *others = again.log_probs([decision, *wrong])
        assert true == pytest.approx(decision.log_prob, abs=1e-5)
        for log_prob in others:
            assert max(abs(one - other) for one, other in zip(true, log_prob, strict=True)) > 1e-3


def log_probs_by_hand(
    policy: FakePolicy, decision: Decision, data: SlateData, open_items: Sequence[str]
) -> list[float]:
    """Return the log-probability of each step of a slate of the fake policy, from its definition."""
    numbers = {str(raw): number for number, raw in enumerate(data.items["id"].to_list(), 1)}
    vectors, weights = policy.vector_ND.double().tolist(), policy.weight_R.double().tolist()
    query = [0.0] * 4
    for item, names in decision.history[-HISTORY:]:
        weight = 0.1 + sum(weights[data.behaviours.index(name)] for name in names)
        query = [each + weight * value for each, value in zip(query, vectors[numbers[item]], strict=True)]
    query = [math.tanh(each) for each in query]
    score = {name: sum(map(math.prod, zip(query, vectors[numbers[name]], strict=True))) for name in open_items}
    greediness, epsilon = decision.sampling["greediness"], decision.sampling["epsilon"]
    log_probs = []
    for item in decision.slate:
        if greediness == 1:
            own = float(item == max(score, key=lambda name: score[name]))  # of equal scores, the first
        else:
            exps = {name: math.exp(value / (1 - greediness)) for name, value in score.items()}
            own = exps[item] / sum(exps.values())
        log_probs.append(math.log((1 - epsilon) * own + epsilon / len(score)))
        del score[item]
    return log_probs


@pytest.mark.parametrize("epsilon", [0.0, 0.25])
@pytest.mark.parametrize("greediness", [0.0, 0.3, 0.9, 1.0])
def test_logged_probabilities_are_those_computed_by_hand(
    live_data: SlateData, tmp_path: Path, greediness: float, epsilon: float
) -> None:
    policy = FakePolicy(Catalogue.of(live_data))
    with open_shop(live_data, tmp_path, policy, greediness=greediness, epsilon=epsilon) as shop:
        everything = [shop.service.items.at(number).id for number in range(1, 9)]
        for rule, open_items in (
            ({}, everything),
            ({"exclude": ("c", "gone")}, [name for name in everything if name != "c"]),
            ({"candidates": ("g", "b", "h", "a"), "exclude": ("c",)}, [name for name in everything if name in "abgh"]),
        ):
            for decision in shop.ask([None, "u1", "u3"], **rule):
                expected = log_probs_by_hand(policy, decision, live_data, open_items)
                assert decision.log_prob == pytest.approx(expected, abs=tolerance(decision))


def drawn(data: SlateData, policy: Policy, knobs: Knobs, num_slates: int = 1, **more: Any) -> list[Decision]:
    """Return the slates of 20,000 draws, decided in batches."""
    desk = Desk(policy.eval(), data, Encoding(data), LiveItems.of(data), 1, knobs)
    asks = [ask(f"draw-{number}", num_slates=num_slates, **more) for number in range(NUM_REQUESTS // num_slates)]
    result = []
    for first in range(0, len(asks), 500):
        for decided in desk.decide(asks[first : first + 500], {}):
            assert isinstance(decided, list)
            result += decided
    return result


def chance(statistic: float, freedom: int) -> float:
    """Return the probability of a chi-square statistic at least this large."""
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(half[0], half[1]))


def chance_of_counts(counts: Counter[Slate], expected: Mapping[Slate, float]) -> float:
    """Return the probability of counts at least so far from the expected ones; rare outcomes are counted together."""
    assert counts.keys() <= expected.keys()
    common = [outcome for outcome, count in expected.items() if count >= 5]
    pairs = [(counts[outcome], expected[outcome]) for outcome in common]
    if rare := sum(expected.values()) - sum(count for _, count in pairs):
        pairs.append((counts.total() - sum(count for count, _ in pairs), rare))
    return chance(sum((count - mean) ** 2 / mean for count, mean in pairs), len(pairs) - 1)


KNOBS = {
    "sampled": Knobs(seed=1),
    "greedy with epsilon": Knobs(greediness=1.0, epsilon=0.5, seed=2),
    "everything": Knobs(greediness=0.4, reward_weight=2.0, epsilon=0.1, seed=3),
}


@pytest.fixture
def empty_store(tmp_path: Path) -> Iterator[Store]:
    """A store in which nothing has happened."""
    store = Store(str(tmp_path / "store.db"))
    yield store
    store.close()


@pytest.mark.parametrize("knobs", KNOBS.values(), ids=KNOBS.keys())
def test_frequencies_of_slates_match_their_logged_probabilities(
    live_data: SlateData, empty_store: Store, knobs: Knobs
) -> None:
    """All 60 slates of five candidates; the same counts refute the probabilities of other settings."""
    policy, among = moved_policy(live_data, "gfn-prior"), ("a", "b", "d", "f", "h")
    again = Recomputation(live_data, empty_store, lambda _: policy, knobs.seed)
    known = drawn(live_data, policy, knobs, candidates=among)
    every = [replace(known[0], slate=slate) for slate in itertools.permutations(among, 3)]

    def expected(decisions: Sequence[Decision]) -> dict[Slate, float]:
        rows = again.log_probs(decisions)
        return {one.slate: NUM_REQUESTS * math.exp(math.fsum(row)) for one, row in zip(decisions, rows, strict=True)}

    truth = expected(every)
    assert math.fsum(truth.values()) == pytest.approx(NUM_REQUESTS, rel=1e-5)
    for decision in known:
        assert math.exp(math.fsum(decision.log_prob)) == pytest.approx(truth[decision.slate] / NUM_REQUESTS, rel=1e-4)
    counts = Counter(decision.slate for decision in known)
    assert chance_of_counts(counts, truth) > SIGNIFICANCE
    plain = {"greediness": 0.0, "reward_weight": 1.0, "epsilon": 0.0}
    if dict(known[0].sampling) != plain:
        assert chance_of_counts(counts, expected([replace(each, sampling=plain) for each in every])) < 1e-9


def test_slates_of_a_request_are_drawn_independently(live_data: SlateData) -> None:
    """The first items of its two slates: each is as frequent as logged, and no pair is more frequent than by chance."""
    among = ("a", "b", "d", "f", "h")
    known = drawn(live_data, FakePolicy(Catalogue.of(live_data)), Knobs(seed=6), 2, user="u1", candidates=among)
    probability = {decision.slate[0]: math.exp(decision.log_prob[0]) for decision in known}
    assert math.fsum(probability.values()) == pytest.approx(1, abs=1e-5)
    assert [decision.place for decision in known[:4]] == [0, 1, 0, 1]
    counts: Counter[Slate] = Counter(
        (one.slate[0], other.slate[0]) for one, other in zip(known[::2], known[1::2], strict=True)
    )
    pairs: dict[Slate, float] = {
        pair: probability[pair[0]] * probability[pair[1]] for pair in itertools.product(among, repeat=2)
    }
    expected = {pair: NUM_REQUESTS / 2 * value for pair, value in pairs.items()}
    assert chance_of_counts(counts, expected) > SIGNIFICANCE
