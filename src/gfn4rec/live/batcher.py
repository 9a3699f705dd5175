"""One thread that computes slates: whatever waits is answered as one batch, and a lone request does not wait."""

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, TypeVar

Question = TypeVar("Question")
Reply = TypeVar("Reply")


class QueueFull(Exception):  # noqa: N818
    """Too many requests are waiting."""


class Batcher(Generic[Question, Reply]):
    """Calls `answer` with the questions that wait, at most `largest_batch` of them, and a future for each."""

    def __init__(
        self,
        answer: Callable[[Sequence[Question], Sequence[Future[Reply]]], None],
        largest_batch: int,
        largest_queue: int,
    ) -> None:
        self._answer, self._largest_batch = answer, largest_batch
        self._waiting: queue.Queue[tuple[Question, Future[Reply]] | None] = queue.Queue(largest_queue)
        self._thread = threading.Thread(target=self._run, name="policy", daemon=True)

    def start(self, before_batch: Callable[[], None] = lambda: None) -> None:
        """Begin to answer. The answering thread calls `before_batch` first each time."""
        self._before_batch = before_batch
        self._thread.start()

    def submit(self, question: Question) -> Future[Reply]:
        """Return the future reply to a question; raise `QueueFull` if too many are waiting."""
        future: Future[Reply] = Future()
        try:
            self._waiting.put_nowait((question, future))
        except queue.Full:
            raise QueueFull from None
        return future

    def close(self) -> None:
        """Answer what waits, and end the thread."""
        self._waiting.put(None)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        is_ending = False
        while not is_ending:
            batch = [self._waiting.get()]
            with suppress(queue.Empty):
                while batch[-1] is not None and len(batch) < self._largest_batch:
                    batch.append(self._waiting.get_nowait())
            is_ending = batch[-1] is None
            entries = [entry for entry in batch if entry is not None and not entry[1].cancelled()]
            if entries:
                self._answer_all([question for question, _ in entries], [future for _, future in entries])

    def _answer_all(self, questions: Sequence[Question], futures: Sequence[Future[Reply]]) -> None:
        try:
            self._before_batch()
            self._answer(questions, futures)
        except Exception as error:  # one failure must not end the thread that all others wait for
            for future in futures:
                fail(future, error)


def resolve(future: "Future[Reply]", reply: Reply) -> None:
    """Set the result of a future, unless its waiter has given up."""
    if future.set_running_or_notify_cancel():
        future.set_result(reply)


def fail(future: "Future[Reply]", error: BaseException) -> None:
    """Set the error of a future, unless it is done or its waiter has given up."""
    if not future.done() and future.set_running_or_notify_cancel():
        future.set_exception(error)
