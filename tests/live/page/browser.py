"""Chromium as an operator uses it: pages, keys, clicks and pictures, by the protocol of its developer tools.

The browser is spoken to through a pair of pipes (`--remote-debugging-pipe`), so that no library is needed.
"""

import base64
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from tests.chromium import BROWSER, FLAGS

PATIENCE: Final = 60.0  # seconds for anything to happen
_FLAGS: Final = (*FLAGS, "--lang=en-US", "--remote-debugging-pipe")
_AT_3_AND_4: Final = (
    "import fcntl, os, sys; "
    "ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]; "
    "os.dup2(ends[0], 3); os.dup2(ends[1], 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)
"""The browser reads commands at descriptor 3 and answers at 4; this program puts the pipes there."""
_CODES: Final = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39, "End": 35, "Home": 36}
_TEXTS: Final = {"Enter": "\r", " ": " "}


class Browser:
    """A headless Chromium; `page` opens pages in it, each with a profile of its own."""

    def __init__(self, directory: Path) -> None:
        assert BROWSER is not None
        to_read, self._to_browser = os.pipe()
        self._from_browser, to_write = os.pipe()
        command = [sys.executable, "-c", _AT_3_AND_4, str(to_read), str(to_write), BROWSER, *_FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={directory}", "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number = b"", 0
        self.on_event: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        """By session: what takes its events."""

    def close(self) -> None:
        """End the browser."""
        with suppress(AssertionError, OSError):
            self.send("Browser.close")
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._to_browser)
        os.close(self._from_browser)

    def send(self, method: str, session: str | None = None, **values: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come before it are handed on."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": values}
        os.write(self._to_browser, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                result: dict[str, Any] = answer["result"]
                return result

    @contextmanager
    def page(self, url: str, width: int = 1280, is_dark: bool = False) -> Iterator["Page"]:
        """Yield a page in a window of this width, closed afterwards."""
        context = self.send("Target.createBrowserContext")["browserContextId"]
        target = self.send("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        self.on_event[session] = page.take
        page.prepare(width, is_dark)
        page.send("Page.navigate", url=url)
        try:
            yield page
        finally:
            del self.on_event[session]
            self.send("Target.disposeBrowserContext", browserContextId=context)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self._from_browser], [], [], left)[0]:
                part = os.read(self._from_browser, 2**20)
                assert part, "the browser has ended"
                self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        take = self.on_event.get(message.get("sessionId", ""))
        if take is not None and "method" in message:
            take(message["method"], message["params"])
        return message


class Page:
    """A page in the browser, and what went wrong in it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser, self._session = browser, session
        self.problems: list[str] = []
        """Uncaught errors, messages of the console, refusals by the content security policy."""
        self.requests: list[tuple[str, str, str | None]] = []
        """Method, address and body of everything that was asked for."""

    def prepare(self, width: int, is_dark: bool) -> None:
        """Set the window's size and colours, and watch for problems."""
        for domain in ("Page", "Runtime", "Log", "Network", "Audits"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setTimezoneOverride", timezoneId="UTC")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", features=[scheme, still])

    def send(self, method: str, **values: Any) -> dict[str, Any]:
        """Send a command about this page."""
        return self._browser.send(method, self._session, **values)

    def take(self, method: str, values: dict[str, Any]) -> None:
        """Note an event."""
        if method == "Network.requestWillBeSent":
            request = values["request"]
            self.requests.append((request["method"], request["url"], request.get("postData")))
        elif method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(" ".join(str(word.get("value", word)) for word in values["args"]))
        elif method == "Log.entryAdded":
            self.problems.append(f"{values['entry']['text']} ({values['entry'].get('url', '')})")
        elif method == "Audits.issueAdded" and "contentSecurityPolicy" in values["issue"]["code"].lower():
            self.problems.append(json.dumps(values["issue"]))

    def ask(self, script: str) -> Any:
        """Return the value of an expression of JavaScript."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, f"{script}: {answer['exceptionDetails']}"
        return answer["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of an element as a reader sees it."""
        found = self.ask(f"document.querySelector({json.dumps(selector)})?.innerText")
        assert found is not None, f"{selector}: is not there"
        return " ".join(found.split())

    def texts(self, selector: str) -> list[str]:
        """Return the texts of all elements that are shown."""
        script = (
            f"[...document.querySelectorAll({json.dumps(selector)})]"
            ".filter(each => each.checkVisibility()).map(each => each.innerText)"
        )
        return [" ".join(text.split()) for text in self.ask(script)]

    def rows(self, table: str) -> list[list[str]]:
        """Return the texts of the cells of a table's rows; the table's body has the id."""
        rows = f"[...document.querySelectorAll('#{table} tr')]"
        cells = self.ask(f"{rows}.map(row => [...row.cells].map(cell => cell.innerText))")
        return [[" ".join(text.split()) for text in row] for row in cells]

    def wait_for(self, script: str, what: str = "") -> Any:
        """Wait until an expression holds, and return its value."""
        deadline = time.monotonic() + PATIENCE
        while not (value := self.ask(script)):
            assert time.monotonic() < deadline, f"{what or script}: has not come; problems: {self.problems}"
            time.sleep(0.05)
        return value

    def wait_for_problems(self, count: int) -> None:
        """Wait until so many things have gone wrong."""
        deadline = time.monotonic() + PATIENCE
        while len(self.problems) < count:
            assert time.monotonic() < deadline, f"only {self.problems}"
            self.ask("0")  # events come with answers

    def wait_for_status(self) -> None:
        """Wait until the page shows what the service says."""
        self.wait_for("document.getElementById('content')?.hidden === false", "the first status")

    def click(self, selector: str) -> None:
        """Click in the middle of an element."""
        name = json.dumps(selector)
        self.ask(f"document.querySelector({name}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        box = self.ask(
            f"(box => [box.x + box.width / 2, box.y + box.height / 2])"
            f"(document.querySelector({name}).getBoundingClientRect())"
        )
        for kind in ("mousePressed", "mouseReleased"):
            place = {"x": box[0], "y": box[1], "button": "left", "clickCount": 1}
            self.send("Input.dispatchMouseEvent", type=kind, **place)

    def press(self, key: str, times: int = 1) -> None:
        """Press a key."""
        text = {"text": _TEXTS[key]} if key in _TEXTS else {}
        for _ in range(times):
            values = {"key": key, "code": "Space" if key == " " else key, "windowsVirtualKeyCode": _CODES[key]}
            self.send("Input.dispatchKeyEvent", type="keyDown", **values, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **values)

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        self.send("Input.insertText", text=text)

    def focused(self) -> str:
        """Return the id of the element with the focus."""
        return str(self.ask("document.activeElement.id"))

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page, also of what is below the window."""
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))
