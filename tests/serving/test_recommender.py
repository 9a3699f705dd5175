"""Slates for people: whom and what a policy is asked for, and what is told of its slates."""

from pathlib import Path

import pytest
import torch

from gfn4rec.data.dataset import SlateData
from gfn4rec.errors import UserError
from gfn4rec.evaluation.protocol import Showing
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.schema import Proposal, Request
from gfn4rec.serving.recommender import Answer, Query, Recommender
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.training.group import Group
from gfn4rec.training.offline import train_offline
from gfn4rec.training.parts import new_manifest, new_policy
from gfn4rec.training.run import Run
from tests.simulator.conftest import FixedUsers
from tests.training.conftest import small_settings

GREEDY = Showing(greedy=True)


def recommender(data: SlateData, name: str = "random", environment: UserEnvironment | None = None) -> Recommender:
    """Of a policy that, if it is random and greedy, shows the items of lowest number."""
    return Recommender(build_policy(name, Catalogue.of(data)), data, environment)


def ids(data: SlateData, *numbers: int) -> tuple[str, ...]:
    """The raw ids of items."""
    return tuple(str(data.items["id"][number - 1]) for number in numbers)


def shown(answer: Answer) -> list[tuple[str, ...]]:
    return [tuple(item.id for item in slate.items) for slate in answer.slates]


def test_a_run_serves_what_it_has_learned(data: SlateData, data_folder: Path, tmp_path: Path) -> None:
    settings = small_settings("gfn", "offline", {"learning_rate": 0.01})
    run = Run.create(tmp_path / "run", new_manifest(settings, data, data_folder, None, 1))
    untrained, policy = new_policy(data, settings), new_policy(data, settings)
    train_offline(run, policy, data, None, Group())
    opened = Recommender.open(tmp_path / "run")
    queries = [Query(str(user)) for user in data.users["id"]]
    slates = [answer.slates[0] for answer in opened.recommend(queries, showing=GREEDY)]
    request = opened.data.latest(torch.arange(1, data.num_users + 1))
    expected, other = (each.recommend(request, greedy=True) for each in (policy, untrained))
    assert [tuple(item.id for item in slate.items) for slate in slates] == [
        ids(data, *row) for row in expected.slate_BK.tolist()
    ]
    log_prob_B = torch.tensor([slate.log_prob for slate in slates])
    torch.testing.assert_close(log_prob_B, expected.log_prob_BK.sum(dim=1))
    assert (log_prob_B - other.log_prob_BK.sum(dim=1)).abs().max() > 0.1


class Recording:
    """Remembers the request, and shows items 1 to 6."""

    request: Request

    def recommend(self, request: Request, *_: object, **__: object) -> Proposal:
        self.request = request
        slate_BK = torch.arange(1, 7).repeat(len(request.user_B), 1)
        return Proposal(slate_BK, torch.zeros(slate_BK.shape))


def asked(data: SlateData, *queries: Query) -> Request:
    """What a policy is asked."""
    policy = Recording()
    list(Recommender(policy, data).recommend(queries))  # type: ignore[arg-type]
    return policy.request


def test_a_history_takes_the_place_of_the_logs(data: SlateData) -> None:
    """The latest ten of twelve events, the newest on the right; nothing is left of what the log had there."""
    user, items = str(data.users["id"][6]), ids(data, *range(1, 13))
    logged = asked(data, Query(user))
    assert logged.history_BH.gt(0).all()
    assert logged.response_BHR.any()
    events = tuple((item, ("like",) if item == items[4] else ()) for item in items)
    request = asked(data, Query(user, events), Query(user, events[:2]))
    assert request.user_B.tolist() == [7, 7]
    assert request.history_BH.tolist() == [list(range(3, 13)), [0] * 8 + [1, 2]]
    response_BHR = torch.zeros(2, 10, 4)
    response_BHR[0, 2, data.behaviours.index("like")] = 1
    assert torch.equal(request.response_BHR, response_BHR)


def test_an_item_alone_got_the_first_response_and_an_empty_list_none(data: SlateData) -> None:
    first, second, third = ids(data, 1, 2, 3)
    request = asked(data, Query(history=((first, None), (second, ()), (third, ("like", "hate")))))
    assert data.behaviours == ("click", "like", "share", "hate")
    assert request.response_BHR[0, -3:].tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 1]]


def test_each_is_spared_what_they_have_seen(data: SlateData) -> None:
    queries = [Query(history=tuple((item, ()) for item in ids(data, *seen))) for seen in ((1, 2, 3, 9), (5,), ())]
    answers = recommender(data).recommend(queries, showing=GREEDY, exclude_seen=True)
    expected = [(4, 5, 6, 7, 8, 10), (1, 2, 3, 4, 6, 7), (1, 2, 3, 4, 5, 6)]
    assert [shown(answer) for answer in answers] == [[ids(data, *numbers)] for numbers in expected]


def test_a_user_is_spared_what_the_log_and_the_history_have(data: SlateData) -> None:
    user, met = str(data.users["id"][6]), set(data.items_of(7).tolist())
    (other, *_) = [number for number in range(1, data.num_items + 1) if number not in met]
    query = Query(user, tuple((item, ()) for item in ids(data, other)))
    (answer,) = recommender(data).recommend([query], showing=GREEDY, exclude_seen=True)
    left = [number for number in range(1, data.num_items + 1) if number not in met and number != other]
    assert shown(answer) == [ids(data, *left[:6])]


def test_no_slate_at_all_is_not_to_be_had(data: SlateData) -> None:
    with pytest.raises(UserError, match="num_slates is 0; ask for one at least"):
        list(recommender(data).recommend([Query()], num_slates=0))


def test_each_is_shown_their_own_candidates(data: SlateData) -> None:
    queries = [Query(candidates=ids(data, *range(first, first + 8))) for first in (30, 20)] + [Query()]
    answers = recommender(data).recommend(queries, num_slates=2, showing=GREEDY)
    expected = [ids(data, *range(first, first + 6)) for first in (30, 20, 1)]
    assert [shown(answer) for answer in answers] == [[slate] * 2 for slate in expected]


def test_a_candidate_is_named_once(data: SlateData) -> None:
    query = Query(candidates=ids(data, 1, 2, 3, 4, 5, 6, 1))
    with pytest.raises(UserError, match="candidates: an item is there more than once"):
        list(recommender(data).recommend([query]))


def test_the_expected_reward_by_hand(data: SlateData) -> None:
    """All items are alike, so influence takes rho = 0.5 from each i / 60, down to 0; a like response is worth 2."""
    users = FixedUsers(data)
    users.item_embedding_ND = torch.ones(data.num_items + 1, 1)
    environment = UserEnvironment(data, users, EnvironmentConfig(num_users=1, rho=0.5))
    query = Query(candidates=ids(data, 12, 24, 36, 42, 48, 60))
    (answer,) = recommender(data, environment=environment).recommend([query])
    assert data.weight_R.sum() == 2
    by_hand = 2 * (0 + 0 + 0.1 + 0.2 + 0.3 + 0.5) / 6
    assert answer.slates[0].expected_reward == pytest.approx(by_hand, rel=1e-5)


def test_cold_slates_are_greedy_and_hot_ones_are_not(data: SlateData) -> None:
    popular = recommender(data, "popularity")
    count_N = Catalogue.of(data).count_N.tolist()
    by_count = {count: number for number, count in enumerate(count_N) if number}  # no two of one frequency
    query = Query(candidates=ids(data, *by_count.values()))
    most = tuple(by_count[count] for count in sorted(by_count, reverse=True)[:6])
    for temperature, is_greedy in ((1e-4, True), (100.0, False)):
        (answer,) = popular.recommend([query], num_slates=20, showing=Showing(temperature=temperature))
        assert all((slate == ids(data, *most)) == is_greedy for slate in shown(answer))


def test_titles_belong_to_their_items(data: SlateData) -> None:
    (answer,) = recommender(data).recommend([Query()], num_slates=20)
    items = [item for slate in answer.slates for item in slate.items]
    assert len({item.id for item in items}) > 30
    assert all(item.title == f"item {item.id}" for item in items)


def test_each_query_has_its_own_knob_and_the_rest_that_of_all(data: SlateData) -> None:
    """With the random policy, who is greedy sees the items of lowest number."""
    lowest = ids(data, *range(1, data.slate_size + 1))
    queries = [Query(greediness=0.0), Query(), Query(greediness=0.5), Query(greediness=1.0)]

    def are_greedy(greediness: float | None) -> list[list[bool]]:
        answers = recommender(data).recommend(queries, 3, Showing(greediness=greediness))
        return [[slate == lowest for slate in shown(answer)] for answer in answers]

    diverse, greedy = [False] * 3, [True] * 3
    assert are_greedy(None) == [diverse, diverse, diverse, greedy]
    assert are_greedy(1.0) == [diverse, greedy, diverse, greedy]


def test_a_knob_of_its_own_beside_a_temperature_is_told_before_any_slate(data: SlateData) -> None:
    queries = [Query()] * 200 + [Query(greediness=0.5)]
    for showing in (GREEDY, Showing(temperature=0.5)):
        with pytest.raises(UserError, match="cannot be shown greedily or at a temperature, too"):
            next(recommender(data).recommend(queries, showing=showing))


@pytest.mark.parametrize("query", [Query(candidates=("1",)), Query(greediness=0.5)])
def test_what_plays_no_part_in_a_score_is_refused(data: SlateData, query: Query) -> None:
    with pytest.raises(UserError, match="play no part in a score"):
        recommender(data, "gfn").score(query, [ids(data, *range(1, data.slate_size + 1))])
