"""A service with known content behind a real address, at a time that stands still."""

import json
import socket
import threading
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from unittest.mock import create_autospec

import pytest
import uvicorn

from gfn4rec.live import host as host_module
from gfn4rec.live.http.app import create_app
from gfn4rec.live.supervisor import Supervisor
from gfn4rec.live.versions import Versions
from gfn4rec.storage import write_whole
from tests.live.fakes import LONGEST_WAIT, FakeClock
from tests.live.http.serving import open_host

NOW: Final = 1_790_000_000.0  # 21 September 2026, 14:13:20
WAIT: Final = 60.0


class Site:
    """A service at an address of this machine; its clock is set by hand."""

    def __init__(self, run: Path, directory: Path, port: int = 0, **config: Any) -> None:
        self.clock, self.directory = FakeClock(NOW), directory
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host_module, "steady_clock", lambda _: self.clock)
            self.host = open_host(run, directory, **{"wait": WAIT, **config})
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        app = create_app(self.host)
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="on"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the service."""
        self._server.should_exit = True
        self._thread.join(LONGEST_WAIT)
        assert not self._thread.is_alive()

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the answer of the service to a call."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/{path}", content, headers, method=method)
        with urllib.request.urlopen(request, timeout=LONGEST_WAIT) as answer:
            return json.load(answer)

    def status(self) -> Any:
        """Return what the page shows."""
        return self.call("GET", "v1/status")

    def show(self, request_id: str, **body: Any) -> Any:
        """Return the answer to a request for a slate."""
        return self.call("POST", "v1/recommend", {"request_id": request_id, **body})

    def respond(self, answer: Mapping[str, Any], *behaviours: str) -> list[str]:
        """Send behaviours to the first items of a slate, one for each; return what became of them."""
        events = [
            {
                "event_id": f"{answer['decision_id']}/{item['id']}",
                "decision_id": answer["decision_id"],
                "item": item["id"],
                "behaviour": behaviour,
            }
            for item, behaviour in zip(answer["items"], behaviours, strict=False)
        ]
        results = self.call("POST", "v1/feedback", {"events": events})["results"]
        return [result["status"] for result in results]

    def close_all(self) -> None:
        """Let the waiting time pass; what is due becomes samples."""
        self.clock.advance(WAIT)
        self.host.service.close_due()

    def publish(self, count: int = 1) -> None:
        """Publish versions as a learner does, each trained for 16 samples and one step, and take them in."""
        versions = Versions(self.directory / "versions")
        for _ in range(count):
            number = versions.numbers()[-1] + 1
            values = {"trained_to_seq": 16 * (number - 1), "step": number - 1, "revision": 0, "loss": 1.5 / number}
            versions.publish(self.host.service.desk.policy, number=number, parent=number - 1, **values)
            if count == 1:
                self.host.promotion.scan()
        self.host.promotion.scan()

    def report_learner(self, **values: Any) -> None:
        """Write what a learner elsewhere reports."""
        (self.directory / "learner").mkdir(exist_ok=True)
        write_whole(self.directory / "learner" / "status.json", json.dumps(values))

    def start_learner(self) -> None:
        """Let the service believe that its learner runs, and has not reported yet."""
        (self.directory / "learner" / "status.json").unlink(missing_ok=True)
        self.host.supervisor = create_autospec(Supervisor, instance=True, state="running", restarts=0)


def fill(site: Site) -> None:
    """Let things happen, so that all numbers of the page differ.

    Version 1 closes slates with rewards 2/3, 1/3 and 0, version 2 one with reward 1; version 3 leaves one open.
    """
    first = [site.show(f"first-{number}", user="1") for number in range(3)]
    assert site.respond(first[0], "click", "click") == ["stored", "stored"]
    assert site.respond(first[0], "click") == ["duplicate"]
    assert site.respond(first[1], "click") == ["stored"]
    site.clock.advance(10)
    site.publish()
    second = site.show("second", user="2")
    assert site.respond(second, "click", "click", "click") == ["stored"] * 3
    site.close_all()
    assert site.respond(first[2], "click") == ["late"]
    site.call("POST", "v1/feedback", {"event_id": "e", "decision_id": "none", "item": "1", "behaviour": "click"})
    site.publish()
    site.show("third", user="3")
    site.report_learner(step=7, cursor=3, loss=0.625, samples_per_step=16, skipped=0, updated=NOW + 65)
