"""Slates for people: whom and what a policy is asked for, and what is told of its slates."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from gfn4rec import api
from gfn4rec.data.dataset import SlateData
from gfn4rec.data.manifest import PrepareConfig
from gfn4rec.data.prepare import prepare
from gfn4rec.data.synthetic import PRESETS, generate
from gfn4rec.errors import UserError
from gfn4rec.policies import build_policy
from gfn4rec.policies.catalogue import Catalogue
from gfn4rec.policies.gfn_prior import PriorGFN
from gfn4rec.policies.log_prior import ChoiceModel
from gfn4rec.policies.reward_model import ResponsePredictor
from gfn4rec.schema import Proposal, Request, Sampling
from gfn4rec.serving.recommender import Answer, Query, Recommender
from gfn4rec.simulator.checkpoint import SimulatorFiles
from gfn4rec.simulator.environment import EnvironmentConfig, UserEnvironment
from gfn4rec.simulator.response_model import ResponseModelConfig
from gfn4rec.training.offline import train_offline
from gfn4rec.training.opened_run import OpenedRun
from gfn4rec.training.response_loop import ResponseTrainingConfig
from tests.simulator.conftest import FixedUsers
from tests.training.conftest import new_policy, small_settings

GREEDY = Sampling(greedy=True)


def recommender(data: SlateData, name: str = "random", environment: UserEnvironment | None = None) -> Recommender:
    """Of a policy that, if it is random and greedy, shows the items of lowest number."""
    return Recommender(build_policy(name, Catalogue.of(data)), data, environment)


def ids(data: SlateData, *numbers: int) -> tuple[str, ...]:
    """The raw ids of items."""
    return tuple(str(data.items["id"][number - 1]) for number in numbers)


def shown(answer: Answer) -> list[tuple[str, ...]]:
    return [tuple(item.id for item in slate.items) for slate in answer.slates]


def test_a_run_serves_what_it_has_learned(data: SlateData, tmp_path: Path) -> None:
    settings = small_settings("gfn", "offline", {"learning_rate": 0.01})
    run = OpenedRun.begin(settings, data, None, tmp_path / "run").run
    untrained, policy = new_policy(data, settings), new_policy(data, settings)
    train_offline(run, policy, data)
    opened = Recommender.open(tmp_path / "run")
    queries = [Query(str(user)) for user in data.users["id"]]
    slates = [answer.slates[0] for answer in opened.recommend(queries, sampling=GREEDY)]
    request = opened.data.latest(torch.arange(1, data.num_users + 1))
    expected, other = (each.recommend(request, sampling=Sampling(greedy=True)) for each in (policy, untrained))
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
        return Proposal(slate_BK, torch.zeros(slate_BK.shape), torch.zeros(slate_BK.shape))


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


def test_events_without_a_response_are_left_out_of_histories_of_responses(tmp_path: Path) -> None:
    log = generate(PRESETS["tiny"], seed=1)[1]
    prepare(log, PrepareConfig(history="responded"), tmp_path / "data")
    data = SlateData.open(tmp_path / "data", history_length=3)
    items = ids(data, 1, 2, 3, 4, 5)
    events = ((items[0], ("hate",)), (items[1], ()), (items[2], None), (items[3], ()), (items[4], ("like",)))
    request = asked(data, Query(history=events))
    assert request.history_BH.tolist() == [[1, 3, 5]]
    assert request.response_BHR.tolist() == [[[0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]]
    (answer,) = Recommender(Recording(), data).recommend([Query(history=events)])  # type: ignore[arg-type]
    assert answer.notes == tuple(
        f"item {items[place]} of the history has no response, and histories hold only others; ignored"
        for place in (1, 3)
    )


def test_numbers_and_plain_lists_are_understood(data: SlateData) -> None:
    user, items = str(data.users["id"][6]), ids(data, *range(1, 9))
    assert user.isdecimal()
    assert all(item.isdecimal() for item in items)
    plain = Query(user=int(user), history=[int(items[0]), items[1]], candidates=[int(item) for item in items])
    spelt = Query(user=user, history=((items[0], None), (items[1], None)), candidates=tuple(items))
    one, other = (asked(data, query) for query in (plain, spelt))
    assert one.user_B.tolist() == other.user_B.tolist() == [7]
    assert torch.equal(one.history_BH, other.history_BH)
    assert torch.equal(one.response_BHR, other.response_BHR)
    answers = list(recommender(data).recommend([plain, spelt], sampling=GREEDY))
    assert shown(answers[0]) == shown(answers[1])


def test_each_is_spared_what_they_have_seen(data: SlateData) -> None:
    queries = [Query(history=tuple((item, ()) for item in ids(data, *seen))) for seen in ((1, 2, 3, 9), (5,), ())]
    answers = recommender(data).recommend(queries, sampling=GREEDY, exclude_seen=True)
    expected = [(4, 5, 6, 7, 8, 10), (1, 2, 3, 4, 6, 7), (1, 2, 3, 4, 5, 6)]
    assert [shown(answer) for answer in answers] == [[ids(data, *numbers)] for numbers in expected]


def test_a_user_is_spared_what_the_log_and_the_history_have(data: SlateData) -> None:
    user, met = str(data.users["id"][6]), set(data.items_of(7).tolist())
    (other, *_) = [number for number in range(1, data.num_items + 1) if number not in met]
    query = Query(user, tuple((item, ()) for item in ids(data, other)))
    (answer,) = recommender(data).recommend([query], sampling=GREEDY, exclude_seen=True)
    left = [number for number in range(1, data.num_items + 1) if number not in met and number != other]
    assert shown(answer) == [ids(data, *left[:6])]


def test_no_slate_at_all_is_not_to_be_had(data: SlateData) -> None:
    with pytest.raises(UserError, match="num_slates is 0; ask for at least one"):
        list(recommender(data).recommend([Query()], num_slates=0))


def test_each_is_shown_their_own_candidates(data: SlateData) -> None:
    queries = [Query(candidates=ids(data, *range(first, first + 8))) for first in (30, 20)] + [Query()]
    answers = recommender(data).recommend(queries, num_slates=2, sampling=GREEDY)
    expected = [ids(data, *range(first, first + 6)) for first in (30, 20, 1)]
    assert [shown(answer) for answer in answers] == [[slate] * 2 for slate in expected]


def test_a_candidate_is_named_once(data: SlateData) -> None:
    query = Query(candidates=ids(data, 1, 2, 3, 4, 5, 6, 1))
    with pytest.raises(UserError, match="candidates: an item is repeated"):
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
        (answer,) = popular.recommend([query], num_slates=20, sampling=Sampling(temperature=temperature))
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
        answers = recommender(data).recommend(queries, 3, Sampling(greediness=greediness))
        return [[slate == lowest for slate in shown(answer)] for answer in answers]

    diverse, greedy = [False] * 3, [True] * 3
    assert are_greedy(None) == [diverse, diverse, diverse, greedy]
    assert are_greedy(1.0) == [diverse, greedy, diverse, greedy]


def test_each_query_has_its_own_reward_weight_and_the_rest_that_of_all(data: SlateData) -> None:
    """At weight 0 a new prior-guided policy shows the most frequent items; a reward that falls with frequency is
    stronger at weight 50.
    """
    policy = build_policy("gfn-prior", Catalogue.of(data), {"encoder": {"id_deviation": 0.1}})  # items differ
    assert isinstance(policy, PriorGFN)
    with torch.no_grad():
        rare = int(policy.catalogue.count_N[1:].argmin()) + 1
        for choices, responses in zip(policy.prior.members, policy.reward.members, strict=True):
            assert isinstance(choices, ChoiceModel)
            assert isinstance(responses, ResponsePredictor)
            for weight in (*choices.query[-1].parameters(), *responses.norm.parameters()):
                weight.zero_()
            responses.item_bias.weight.copy_(0.1 * responses.backbone.item_table()[rare])
    queries = [Query(reward_weight=0.0), Query(), Query(reward_weight=50.0)]

    def firsts(weight: float) -> list[str]:
        sampling = Sampling(greedy=True, reward_weight=weight)
        return [shown(answer)[0][0] for answer in Recommender(policy, data).recommend(queries, sampling=sampling)]

    (most,) = ids(data, int(policy.catalogue.count_N[1:].argmax()) + 1)
    (rarest,) = ids(data, rare)
    assert firsts(0.0) == [most, most, rarest]
    assert firsts(50.0) == [most, rarest, rarest]


def test_a_knob_of_its_own_beside_a_temperature_is_told_before_any_slate(data: SlateData) -> None:
    queries = [Query()] * 200 + [Query(greediness=0.5)]
    for sampling in (GREEDY, Sampling(temperature=0.5)):
        with pytest.raises(UserError, match="greediness of a query replaces greedy and temperature"):
            next(recommender(data).recommend(queries, sampling=sampling))


@pytest.mark.parametrize("query", [Query(candidates=("1",)), Query(greediness=0.5), Query(reward_weight=2.0)])
def test_what_plays_no_part_in_a_score_is_refused(data: SlateData, query: Query) -> None:
    with pytest.raises(UserError, match="have no effect on a score"):
        recommender(data, "gfn").score(query, [ids(data, *range(1, data.slate_size + 1))])


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(torch.ones(2)),
        Sampling(greedy=torch.tensor([True, False])),
        Sampling(greediness=torch.zeros(2)),
        Sampling(reward_weight=torch.zeros(2)),
    ],
)
def test_a_sampling_is_the_same_for_all_queries(data: SlateData, sampling: Sampling) -> None:
    for query in (Query(), Query(greediness=0.5)):
        with pytest.raises(UserError, match="give one value for all queries; a query may have a greediness and a"):
            next(recommender(data).recommend([query] * 2, sampling=sampling))


def test_slates_are_new_at_each_call_unless_a_seed_is_given(data: SlateData) -> None:
    """Two calls of one object, and two objects: the generator is not that of the process either."""
    queries = [Query(), Query()]

    def slates(seed: int | None, each: Recommender) -> list[list[tuple[str, ...]]]:
        return [shown(answer) for answer in each.recommend(queries, num_slates=3, seed=seed)]

    one, other = recommender(data), recommender(data)
    torch.manual_seed(0)
    first = slates(None, one)
    torch.manual_seed(0)
    assert slates(None, one) != first
    torch.manual_seed(0)
    assert slates(None, other) != first
    assert slates(5, one) == slates(5, one) == slates(5, other)
    assert slates(5, one) != slates(6, one)


def test_greedy_slates_need_no_seed(data: SlateData) -> None:
    answers = [[shown(answer) for answer in recommender(data).recommend([Query()], 2, GREEDY)] for _ in range(2)]
    assert answers[0] == answers[1]


@pytest.fixture
def opened_simulators(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Remember every simulator that is opened."""
    proper, opened = SimulatorFiles.open, list[Path]()

    def watched(path: Path) -> SimulatorFiles:
        opened.append(path)
        return proper(path)

    monkeypatch.setattr(SimulatorFiles, "open", watched)
    return opened


def test_the_simulator_is_opened_only_for_expected_rewards(
    data_folder: Path, tmp_path: Path, opened_simulators: list[Path]
) -> None:
    simulator, notes = tmp_path / "sim", list[str]()
    model = ResponseModelConfig(dim=8, embedding_dim=8, num_heads=2, feedforward_dim=16, state_dim=16)
    api.train_simulator(data_folder, simulator, num_epochs=1, config=ResponseTrainingConfig(model=model))
    api.train(small_settings("cf"), data_folder, simulator, tmp_path / "run")
    opened_simulators.clear()

    def rewards(**options: Any) -> list[float | None]:
        opened = Recommender.open(tmp_path / "run", notify=notes.append, **options)
        (answer,) = opened.recommend([Query()], num_slates=2, seed=0)
        return [slate.expected_reward for slate in answer.slates]

    assert rewards() == [None, None]
    assert opened_simulators == []
    expected = rewards(expected_rewards=True)
    assert None not in expected
    assert opened_simulators == [simulator]
    assert rewards(simulator=simulator) == expected
    assert opened_simulators == [simulator] * 2
    shutil.rmtree(simulator)
    assert rewards() == [None, None]
    assert notes == []
    assert rewards(expected_rewards=True) == [None, None]
    assert notes == [
        f"no expected rewards: {simulator}: the simulator of this run is not there; name its place with --simulator"
    ]
