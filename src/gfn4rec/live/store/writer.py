"""The one thread that writes to the store. Operations that wait at the same time share a transaction."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError

Result = TypeVar("Result")
Operation: TypeAlias = Callable[[sa.Connection], Result]
"""Reads and writes in the transaction of the connection; it may run twice, so it changes nothing else."""
_LARGEST_GROUP: Final = 256
_END: Final = None


class StoreError(Exception):
    """The store cannot be written now; nothing of the operation was kept, or a retry finds what was."""


def reason(error: DBAPIError) -> str:
    """Return the first line of a database's message."""
    return next(iter(str(error.orig).splitlines()), type(error.orig).__name__)


class Writer:
    """Runs operations in the order in which they are submitted, and returns their results after the commit.

    A failed commit fails all operations of its group. If an operation itself fails, the group is rolled back and each
    of its operations runs again in a transaction of its own, so that only the guilty one fails.
    """

    def __init__(
        self, connect: Callable[[], sa.Connection], connection: sa.Connection | None = None, capacity: int = 4096
    ) -> None:
        """Begin to write over a connection, or over a new one; `connect` is called again when one is lost."""
        self._connect, self._connection = connect, connection
        self._waiting: queue.Queue[tuple[Operation[Any], Future[Any]] | None] = queue.Queue(capacity)
        self.problem: str | None = None
        self._is_closed, self._is_ending = False, False
        self._submitting = threading.Lock()  # nothing is submitted after the end
        self._thread = threading.Thread(target=self._run, name="store writer", daemon=True)
        self._thread.start()

    def submit(self, operation: Operation[Result]) -> Future[Result]:
        """Return the future result of an operation; `StoreError` if too many are waiting.

        If the future is cancelled before the operation begins, it does not run.
        """
        future: Future[Result] = Future()
        with self._submitting:
            if self._is_closed:
                raise StoreError("it is closed")
            try:
                self._waiting.put_nowait((operation, future))
            except queue.Full:
                raise StoreError("too many writes are waiting") from None
        return future

    def close(self) -> None:
        """Finish what was submitted, and close the connection."""
        with self._submitting:
            self._is_closed = True
        self._waiting.put(_END)
        self._thread.join()

    def _run(self) -> None:
        while not self._is_ending:
            group = self._next_group()
            try:
                self._run_group(group)
            except BaseException as error:  # a bug must not end the thread that all others wait for
                for _, future in group:
                    if not future.done():
                        future.set_exception(error)
        self._disconnect()

    def _next_group(self) -> list[tuple[Operation[Any], Future[Any]]]:
        """Wait for an operation, and return all that wait then, up to a limit."""
        group = [self._waiting.get()]
        with suppress(queue.Empty):
            while group[-1] is not _END and len(group) < _LARGEST_GROUP:
                group.append(self._waiting.get_nowait())
        self._is_ending = group[-1] is _END
        return [entry for entry in group if entry is not None and entry[1].set_running_or_notify_cancel()]

    def _run_group(self, group: list[tuple[Operation[Any], Future[Any]]]) -> None:
        try:
            results = self._transact([operation for operation, _ in group])
        except StoreError as error:
            for _, future in group:
                future.set_exception(error)
        except Exception as error:
            if len(group) == 1:
                group[0][1].set_exception(error)
                return
            for entry in group:
                self._run_group([entry])
        else:
            for (_, future), result in zip(group, results, strict=True):
                future.set_result(result)

    def _transact(self, operations: list[Operation[Any]]) -> list[Any]:
        try:
            if self._connection is None:
                self._connection = self._connect()
            with self._connection.begin():
                results = [operation(self._connection) for operation in operations]
        except (IntegrityError, ProgrammingError, DataError):
            raise  # the operation's own fault
        except StoreError as error:
            self.problem = str(error)
            raise
        except DBAPIError as error:
            self._disconnect()
            self.problem = reason(error)
            raise StoreError(self.problem) from error
        self.problem = None
        return results

    def _disconnect(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
                self._connection.engine.dispose()
        self._connection = None
