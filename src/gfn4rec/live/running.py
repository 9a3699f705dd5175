"""The processes of the live service: one serves, one learns."""

import gc
import json
import logging
import socket
import sys
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeVar

import uvicorn
from filelock import FileLock, Timeout

from gfn4rec.errors import UserError
from gfn4rec.live.config import LearnerSettings
from gfn4rec.live.host import Host, Place
from gfn4rec.live.http.app import create_app
from gfn4rec.live.learning import LiveLearner, learner_config
from gfn4rec.live.ownership import check_claim
from gfn4rec.live.store.store import Store
from gfn4rec.live.store.writer import StoreError
from gfn4rec.live.supervisor import is_orphan
from gfn4rec.live.versions import Versions
from gfn4rec.storage import make_directory
from gfn4rec.training.interruption import asked_to_end
from gfn4rec.training.opened_run import OpenedRun
from gfn4rec.training.threads import Threads

Result = TypeVar("Result")
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_LOG: Final = logging.getLogger(__name__)
_PAUSE: Final = 0.25  # seconds without new samples before the learner reads again
_SECONDS_FOR_LOCK: Final = 30.0
# How long a thread may keep Python's lock while another waits for it. A slate is hundreds of operations that give it
# away, and with the usual 5 ms each of them may wait so long for a thread that reads a version.
_SECONDS_OF_LOCK: Final = 0.0005


def check_address(address: str, port: int) -> None:
    """Raise a `UserError` unless the service may listen there: without keys, only this machine may reach it."""
    if address not in LOOPBACK:
        raise UserError(f"--host {address}: without keys the service answers this machine only; write 127.0.0.1")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise UserError(f"--port {port}: cannot be used ({error.strerror}); choose another") from error


def serve(host: Host, address: str, port: int) -> None:
    """Answer requests until asked to end; Ctrl-C is such a request."""
    sys.setswitchinterval(_SECONDS_OF_LOCK)
    config = uvicorn.Config(
        create_app(host), address, port, log_level="warning", access_log=False, timeout_graceful_shutdown=10
    )
    # What has been imported and opened stays. Looking through it for garbage holds up all answers for 0.1 to 0.2 s.
    gc.collect()
    gc.freeze()
    with suppress(KeyboardInterrupt):  # which uvicorn raises when it has answered what was asked before
        uvicorn.Server(config).run()


def learn(
    place: Place,
    settings: LearnerSettings,
    data: Path | None = None,
    report: Callable[[int, int, float | None], None] = lambda *_: None,
    threads: Threads | None = None,
) -> None:
    """Learn from the samples of a store until asked to end. `report` receives step, cursor and loss.

    `threads` are those to compute with; by default their number follows the free cores.
    """
    threads = threads or Threads.of(None)
    opened = OpenedRun.open(place.run, data)
    if not opened.policy.is_learned:
        problem = f"a {opened.settings.policy} policy has nothing to learn"
        raise UserError(f"{place.run}: {problem}; `gfn4rec serve` works without a learner")
    with asked_to_end() as is_asked, closing(Store(place.store, read_only=True)) as store:
        make_directory(place.directory / "learner")
        lock = FileLock(place.directory / "learner" / "lock")

        def is_over() -> bool:  # is asked before each step
            threads.follow()
            return is_asked() or is_orphan()

        if not _acquire(lock, is_over, place):
            return
        with lock:
            learner = _when_readable(is_over, lambda: _new_learner(opened, settings, store, place))
            if learner is not None:
                _learn_until(is_over, learner, settings, report)


def _acquire(lock: FileLock, is_over: Callable[[], bool], place: Place) -> bool:
    """Return whether this is the only learner now; one whose service has been killed needs a moment to end."""
    deadline = time.monotonic() + _SECONDS_FOR_LOCK
    while not is_over():
        try:
            lock.acquire(timeout=_PAUSE)
        except Timeout:
            if time.monotonic() > deadline:
                raise UserError(f"{place.directory}: another learner is at work there; stop it first") from None
        else:
            return True
    return False


def _new_learner(opened: OpenedRun, settings: LearnerSettings, store: Store, place: Place) -> LiveLearner:
    check_claim(place.directory, store)
    Versions(place.directory / "versions").clean()
    return LiveLearner(
        opened.data,
        opened.policy,
        learner_config(opened.settings.policy, settings),
        settings,
        store,
        place.directory,
        opened.settings.seed,
    )


def _when_readable(is_over: Callable[[], bool], read: Callable[[], Result]) -> Result | None:
    """Return what is read from the store; while it cannot be read, try again. None: asked to end meanwhile."""
    problem = ""
    while not is_over():
        try:
            return read()
        except StoreError as error:
            if str(error) != problem:
                _LOG.warning("the store cannot be read (%s); it is tried again", error)
            problem = str(error)
        time.sleep(_PAUSE)
    return None


def _learn_until(
    is_over: Callable[[], bool],
    learner: LiveLearner,
    settings: LearnerSettings,
    report: Callable[[int, int, float | None], None],
) -> None:
    saved_at = published_at = time.monotonic()
    saved_cursor = learner.cursor
    learner.report()
    while not is_over():
        count = _when_readable(is_over, lambda: learner.take(is_over))
        learner.report()
        report(learner.learner.num_learned, learner.cursor, learner.loss)
        now = time.monotonic()
        if learner.has_news and now - published_at >= settings.publish_seconds:
            _when_readable(is_over, learner.publish)
            published_at = now
        if learner.cursor > saved_cursor and now - saved_at >= settings.checkpoint_seconds:
            learner.save()
            saved_at, saved_cursor = now, learner.cursor
        if not count:
            time.sleep(_PAUSE)
    if learner.cursor > saved_cursor:
        learner.save()


def log_as_json() -> None:
    """Log to standard error, one JSON object per line."""

    class AsJson(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            values = {"time": self.formatTime(record), "level": record.levelname, "message": record.getMessage()}
            if record.exc_info:
                values["error"] = self.formatException(record.exc_info)
            return json.dumps(values)

    handler = logging.StreamHandler()
    handler.setFormatter(AsJson())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
