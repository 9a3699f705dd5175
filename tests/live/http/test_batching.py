"""Requests that come together are answered together, as they would be alone; a swap waits for nobody."""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import pytest
import torch

from gfn4rec.live.batcher import Batcher, QueueFull, fail, resolve
from gfn4rec.live.host import Host
from gfn4rec.live.records import Ask, Decision
from gfn4rec.schema import Proposal
from tests.live.http.conftest import NewHost
from tests.live.http.serving import ask, decide
from tests.live.http.test_retries import other_policy

PATIENCE = 60.0


class Gate:
    """Answers by doubling, and stops in each batch until it is let through."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.has_begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, questions: Sequence[int], futures: Sequence[Future[int]]) -> None:
        self.batches.append(list(questions))
        self.has_begun.release()
        assert self.may_end.acquire(timeout=PATIENCE)
        for question, future in zip(questions, futures, strict=True):
            resolve(future, 2 * question)


def test_a_lone_question_does_not_wait_and_those_that_wait_are_one_batch() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate, largest_batch=4, largest_queue=5)
    batcher.start()
    first = batcher.submit(0)
    assert gate.has_begun.acquire(timeout=PATIENCE)  # begun although it is alone
    others = [batcher.submit(number) for number in range(1, 6)]
    with pytest.raises(QueueFull):
        batcher.submit(6)
    others[1].cancel()
    for _ in range(3):
        gate.may_end.release()
    batcher.close()
    assert gate.batches == [[0], [1, 3, 4], [5]]
    assert first.result(0) == 0
    assert [future.result(0) for future in others if not future.cancelled()] == [2, 6, 8, 10]


def test_one_failure_reaches_its_batch_and_no_other() -> None:
    def answer(questions: Sequence[int], futures: Sequence[Future[int]]) -> None:
        if 1 in questions:
            resolve(futures[0], 0)
            raise ValueError("one")
        resolve(futures[0], questions[0])

    batcher: Batcher[int, int] = Batcher(answer, largest_batch=2, largest_queue=9)
    futures = [batcher.submit(number) for number in (0, 1, 2)]
    batcher.start()
    batcher.close()
    assert (futures[0].result(0), futures[2].result(0)) == (0, 2)
    with pytest.raises(ValueError, match="one"):
        futures[1].result(0)


def test_whoever_has_given_up_is_not_answered() -> None:
    futures: list[Future[int]] = [Future() for _ in range(3)]
    futures[0].cancel()
    futures[1].cancel()
    resolve(futures[0], 1)
    fail(futures[1], ValueError())
    resolve(futures[2], 1)
    fail(futures[2], ValueError())  # too late
    assert futures[2].result() == 1


def test_closing_answers_what_waits() -> None:
    gate = Gate()
    batcher: Batcher[int, int] = Batcher(gate, largest_batch=1, largest_queue=9)
    futures = [batcher.submit(number) for number in range(3)]
    for _ in range(3):
        gate.may_end.release()
    batcher.start()
    batcher.close()
    assert [future.result(0) for future in futures] == [0, 2, 4]


def mixed() -> list[Ask]:
    """Sixteen requests of all kinds."""
    kinds: list[dict[str, Any]] = [
        {},
        {"greediness": 0.9},
        {"greediness": 1.0},
        {"reward_weight": 3.0},
        {"exclude": ("1", "5", "31")},
        {"candidates": ("5", "6", "7", "8", "9")},
        {"exclude_seen": True},
        {"num_slates": 3},
    ]
    users = [str(number) for number in range(1, 17)]
    return [ask(f"mixed-{user}", user, **kinds[number % len(kinds)]) for number, user in enumerate(users)]


def near(one: Decision, other: Decision) -> bool:
    """Whether two decisions are the same but for the rounding of their probabilities."""
    first, second = (torch.tensor([each.log_prob, each.learned_log_prob]) for each in (one, other))
    names = [name for name in Decision.__dataclass_fields__ if not name.endswith("log_prob")]
    is_same = all(getattr(one, name) == getattr(other, name) for name in names)
    return is_same and torch.allclose(first, second, atol=2e-4, rtol=0)


def test_sixteen_at_once_get_the_slates_that_they_get_one_at_a_time(
    new_host: NewHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, alone = new_host("together", is_started=False), new_host("alone")
    sizes: list[int] = []
    recommend = together.service.desk.policy.recommend

    def counting(request: Any, *arguments: Any) -> Proposal:
        sizes.append(len(request.user_B))
        return recommend(request, *arguments)

    monkeypatch.setattr(together.service.desk.policy, "recommend", counting)
    futures = [together.service.recommend(each) for each in mixed()]
    together.start()
    results = [future.result(PATIENCE) for future in futures]
    assert sizes == [20]  # two of the sixteen want three slates
    for each, result in zip(mixed(), results, strict=True):
        (own,) = decide(alone, each)
        assert len(own) == len(result) == each.num_slates
        assert all(near(one, other) for one, other in zip(own, result, strict=True))


class Blocked:
    """Holds the policy of a service in the middle of a batch."""

    def __init__(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        self.policy = host.service.desk.policy
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        plan = self.policy.plan

        def held(context: Any) -> Any:
            self.has_begun.set()
            assert self.may_end.wait(PATIENCE)
            return plan(context)

        monkeypatch.setattr(self.policy, "plan", held)


def test_a_swap_in_the_middle_of_a_batch_changes_nothing_of_it(
    new_host: NewHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = new_host("quiet")
    ((expected,),) = decide(quiet, ask("held", "3"))
    quiet.service.swap(other_policy(quiet), 2)
    ((later,),) = decide(quiet, ask("later", "3"))

    host = new_host("swapped")
    blocked = Blocked(host, monkeypatch)
    weights = {name: value.clone() for name, value in blocked.policy.state_dict().items()}
    held = host.service.recommend(ask("held", "3"))
    assert blocked.has_begun.wait(PATIENCE)
    host.service.swap(other_policy(host), 2)  # returns although a batch is running
    waiting = host.service.recommend(ask("later", "3"))
    host.service.disable_item(expected.slate[0])  # the catalogue does not change under the batch, either
    assert not held.done()
    blocked.may_end.set()
    (decision,) = held.result(PATIENCE)
    assert near(decision, expected)
    assert (decision.version, decision.revision) == (1, 0)
    (after,) = waiting.result(PATIENCE)
    assert (after.version, after.revision) == (2, 1)
    assert expected.slate[0] not in after.slate
    assert after.log_prob != later.log_prob or after.slate == later.slate
    assert all(bool((weights[name] == value).all()) for name, value in blocked.policy.state_dict().items())
