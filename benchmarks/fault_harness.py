"""A live service as real processes that are killed, and light traffic that never gives up. Tests use it, too."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from gfn4rec.live.learning import read_status

_TIMEOUT: Final = 10.0  # of a single attempt
_POLL: Final = 0.2
_POLL_WHEN_STARTING: Final = 0.05  # as exact as the time until a service is ready
LEARNER: Final = {"--samples-per-step": 16, "--warmup-samples": 0, "--learning-batch": 32}
OPTIONS: Final = {**LEARNER, "--wait": 1.0, "--publish-seconds": 0.5, "--checkpoint-seconds": 0.5}


class Service:
    """`gfn4rec serve` in a process of its own, which can be killed and started again on the same port."""

    def __init__(
        self, run: Path, directory: Path, store: str, patience: float = 300.0, options: Mapping[str, object] = OPTIONS
    ) -> None:
        self.directory, self.url, self.patience = directory, f"http://127.0.0.1:{(port := free_port())}", patience
        options = {"--live": directory, "--store": store, "--port": port, "--threads": 1, **options}
        words = [str(word) for option in options.items() for word in option]
        self._command = [sys.executable, "-m", "gfn4rec", "serve", str(run), *words]
        self._log = directory.with_name(f"{directory.name}.log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the service, and wait until it is ready."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, process_group=0)
        self.wait_for("ready service", self._is_ready, _POLL_WHEN_STARTING)

    def kill(self) -> None:
        """End the service as `kill -9` does; its learner is left behind."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask the service to end, and wait until it has done so in good order."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(self.patience)
        assert code == 128 + signal.SIGTERM, f"exit code {code}:\n{self.log_tail()}"

    def memory(self) -> float:
        """Return the resident memory of the service in MB."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) / 1000  # type: ignore[index]

    def cpu_seconds(self) -> float:
        """Return the processor time that the service has used."""
        assert self._process is not None
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def learner(self) -> int | None:
        """Return the learner's process number, or None while there is none."""
        assert self._process is not None
        found = subprocess.run(
            ["ps", "-o", "pid=,stat=", "--ppid", str(self._process.pid)], capture_output=True, text=True
        )
        pids = [int(line.split()[0]) for line in found.stdout.splitlines() if not line.split()[1].startswith("Z")]
        return pids[0] if pids else None

    def kill_learner(self) -> int:
        """End the learner as `kill -9` does, and return its process number."""
        self.wait_for("learner", lambda: self.learner() is not None)
        pid = self.learner()
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        return pid

    def get(self, path: str) -> Any:
        """Return the answer to a GET request."""
        with urllib.request.urlopen(f"{self.url}{path}", timeout=_TIMEOUT) as answer:
            return json.load(answer)

    def wait_for_learning(self) -> None:
        """Wait until all decisions are closed, and the learner has read every sample."""

        def has_read_all() -> bool:
            status = self.get("/v1/status")
            learner = read_status(self.directory)
            return bool(status["open"] == 0 and learner is not None and learner.cursor == status["samples"])

        self.wait_for("learner that has read every sample", has_read_all)

    def is_learning(self, since: float) -> bool:
        """Return whether the learner has reported since then."""
        status = read_status(self.directory)
        return status is not None and status.updated > since

    def wait_for(self, what: str, is_true: Callable[[], bool], pause: float = _POLL) -> None:
        """Wait for a condition, at most as long as `patience`."""
        deadline = time.monotonic() + self.patience
        while not is_true():
            assert self._process is None or self._process.poll() is None, f"the service has ended:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"no {what} within {self.patience:g} s:\n{self.log_tail()}"
            time.sleep(pause)

    def log_tail(self) -> str:
        """Return the end of what the service has printed."""
        return self._log.read_text(errors="replace")[-3000:] if self._log.exists() else ""

    def remove(self) -> None:
        """End every process of the service that is left."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            self._process.wait()

    def _is_ready(self) -> bool:
        try:
            return bool(self.get("/readyz"))
        except OSError:
            return False


@dataclass
class Kills:
    """What was killed, and how long the service took to be ready again."""

    num_learner: int = 0
    ready: list[float] = field(default_factory=list)
    """Seconds from each kill of the API until it was ready again."""
    cpu: list[float] = field(default_factory=list)
    """Processor time that the new process had used by then."""


def kill_both(service: Service, chance: random.Random, longest: float, kills: Kills) -> None:
    """Kill the API, which is started again at once, and the learner, in any order and at random moments."""
    for kind in chance.sample(["api", "learner"], 2):
        began = time.time()
        if chance.random() < 0.5:  # otherwise it may still be starting
            service.wait_for("learner that learns", partial(service.is_learning, began))
        time.sleep(longest * chance.random())
        if kind == "learner":
            service.kill_learner()
            kills.num_learner += 1
            continue
        left = service.learner()
        killed = time.monotonic()
        service.kill()
        service.start()
        kills.ready.append(time.monotonic() - killed)
        kills.cpu.append(service.cpu_seconds())
        if left is not None:
            service.wait_for("end of the learner whose service is gone", partial(is_gone, left))


def free_port() -> int:
    """Return a port of the loopback address that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_gone(pid: int) -> bool:
    """Return whether a process has ended, though its entry may remain."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@dataclass
class Book:
    """What a service has acknowledged to its clients."""

    decisions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By request id: the answer."""
    asked: set[str] = field(default_factory=set)
    """The ids of all requests, answered or not."""
    events: dict[str, tuple[dict[str, Any], str]] = field(default_factory=dict)
    """By event id: the event, and what became of it."""
    unanswered: dict[str, float] = field(default_factory=dict)
    """By request id, or that with `/feedback`: when an attempt was last left without an answer."""
    problems: list[str] = field(default_factory=list)


class Traffic:
    """Clients that ask for slates, click, and send everything again, with the same ids, until it is acknowledged.

    Some of what was acknowledged is sent once more: the same answer has to come.
    """

    def __init__(self, url: str, behaviour: str, seed: int, num_clients: int = 3, pause: float = 0.4) -> None:
        self._url, self._behaviour, self._pause = url, behaviour, pause
        self.book, self._end, self._lock = Book(), threading.Event(), threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, args=(f"{seed}-{number}", random.Random(f"{seed}/{number}")))
            for number in range(num_clients)
        ]

    def start(self) -> None:
        """Begin to ask."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> Book:
        """Finish what was begun, and return the book; the service has to be up."""
        self._end.set()
        for thread in self._threads:
            thread.join()
        return self.book

    def _run(self, name: str, chance: random.Random) -> None:
        number = 0
        while not self._end.wait(self._pause * chance.random()):
            number += 1
            try:
                self._visit(f"{name}-{number}", chance)
            except Exception as error:
                with self._lock:
                    self.book.problems.append(f"{name}-{number}: {type(error).__name__}: {error}")

    def _visit(self, name: str, chance: random.Random) -> None:
        body = {"request_id": name, "user": str(chance.randrange(1, 40))}
        with self._lock:
            self.book.asked.add(name)
        answer = self._post("/v1/recommend", body, name)
        events = [
            {
                "event_id": f"{name}/{item['id']}",
                "decision_id": answer["decision_id"],
                "item": item["id"],
                "behaviour": self._behaviour,
            }
            for item in answer["items"]
            if chance.random() < 0.3
        ]
        statuses = self._post("/v1/feedback", {"events": events}, f"{name}/feedback")["results"] if events else []
        with self._lock:
            self.book.decisions[name] = answer
            for event, result in zip(events, statuses, strict=True):
                self.book.events[event["event_id"]] = event, result["status"]
        if chance.random() < 0.1:
            again = self._post("/v1/recommend", body, name)
            assert again == answer, f"a retry was answered {again}, the first time {answer}"
        if events and chance.random() < 0.1:
            again = self._post("/v1/feedback", {"events": events}, f"{name}/feedback")["results"]
            assert all(result["status"] == "duplicate" for result in again), again

    def _post(self, path: str, body: dict[str, Any], key: str) -> Any:
        request = urllib.request.Request(
            f"{self._url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        while True:
            try:
                with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise ValueError(f"{path}: {error.code} {error.read().decode()}") from error
            except (OSError, HTTPException):
                pass  # the connection was refused, or broke before or amid the answer
            with self._lock:
                self.book.unanswered[key] = time.time()
            time.sleep(_POLL)


def kill_often(
    run: Path,
    directory: Path,
    store: str,
    num_kills: int,
    seed: int,
    longest: float,
    report: Callable[[str], object] = lambda _: None,
) -> tuple[Kills, Book]:
    """Kill API and learner so many times each under traffic, and let everything be learned.

    `longest` is the longest pause before a kill, in seconds.
    """
    from gfn4rec.training.opened_run import OpenedRun

    chance, kills = random.Random(seed), Kills()
    service = Service(run, directory, store)
    traffic = Traffic(service.url, OpenedRun.open(run).data.behaviours[0], seed)
    try:
        service.start()
        traffic.start()
        for number in range(1, num_kills + 1):
            kill_both(service, chance, longest, kills)
            report(f"{number} of {num_kills}: ready again after {kills.ready[-1]:.1f} s")
        book = traffic.stop()
        service.wait_for_learning()
        service.stop()
    finally:
        traffic.stop()
        service.remove()
    return kills, book


def learned_again(run: Path, directory: Path, store: str, scratch: Path) -> list[str]:
    """Learn from the first sample to the last without a break; return the tensors that end differently."""
    import torch

    from gfn4rec.live.checkpoints import Checkpoints
    from gfn4rec.live.config import LearnerSettings
    from gfn4rec.live.learning import LiveLearner, learner_config
    from gfn4rec.live.store.store import Store
    from gfn4rec.training.opened_run import OpenedRun
    from gfn4rec.training.run import POLICY

    opened, reader = OpenedRun.open(run), Store(store, read_only=True)
    settings = LearnerSettings.parse({name[2:].replace("-", "_"): value for name, value in LEARNER.items()}, "harness")
    config = learner_config(opened.settings.policy, settings)
    learner = LiveLearner(opened.data, opened.policy, config, settings, reader, scratch, opened.settings.seed)
    while learner.take():
        pass
    reader.close()
    checkpoint = Checkpoints(directory / "learner" / "checkpoints").load()
    if checkpoint is None:
        return ["no checkpoint"]
    manifest, parts = checkpoint
    if manifest.cursor != learner.cursor:
        return [f"the service's learner has read {manifest.cursor} samples of {learner.cursor}"]
    expected = {POLICY: learner.policy.state_dict(), **learner.learner.state_dict()}
    return [
        f"{part}/{name}"
        for part, values in expected.items()
        for name, value in values.items()
        if not torch.equal(value, parts[part][name])
    ]
