"""The page as a browser shows it and an operator uses it, against a real service with known content."""

import datetime
import json
import urllib.error
from typing import Any

import pytest

from tests.chromium import BROWSER
from tests.live.page.browser import Browser, Page
from tests.live.page.conftest import NewSite
from tests.live.page.site import Site

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser (chromium or google-chrome) is installed")

DASH = "\N{EN DASH}"  # what is not known, and between the ends of an interval


def numbers(page: Page, name: str) -> dict[str, str]:
    """Return a list of numbers by their names."""
    script = (
        f"[...document.querySelectorAll('#{name} > div')].map(row => "
        "[row.firstChild.innerText.split('\\n')[0].trim(), row.lastChild.innerText])"
    )
    return dict(page.ask(script))


def tile(page: Page, name: str) -> list[str]:
    """Return label, value and remark of a tile."""
    return page.texts(f"#tile-{name} > *")


def milliseconds(value: float) -> str:
    """Return a latency as the page writes it."""
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def posted(page: Page, what: str) -> list[dict[str, Any]]:
    """Return the bodies that the page has sent to addresses with this ending."""
    return [json.loads(body or "{}") for method, url, body in page.requests if method == "POST" and url.endswith(what)]


def test_figures_are_those_of_the_status(browser: Browser, busy_site: Site) -> None:
    status = busy_site.status()
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        assert page.texts("h1") == ["synthetic-tiny"]
        assert page.text("header .who p") == "gfn-prior slates of 3 from 60 items, 73 known users"
        assert page.text("#state") == "Ready"
        assert tile(page, "slates") == ["Slates answered", "5", "5 requests since the start"]
        assert tile(page, "rate") == [
            "Requests per second",
            f"{status['requests']['per_second']:.1f}",
            "in the last minute",
        ]
        assert tile(page, "p50")[1] == milliseconds(status["requests"]["p50_ms"])
        assert tile(page, "p99")[1:] == [milliseconds(status["requests"]["p99_ms"]), "0 refused, 0 failed"]
        assert tile(page, "reward") == ["Reward of version 3", DASH, "none of its slates has closed yet"]
        # Rewards 2/3, 1/3 and 0 have the mean 1/3 and the deviation 1/3; 1.96 / 3 / sqrt(3) is 0.3772.
        assert page.rows("by-version") == [["2", "1", "1.000", DASH], ["1", "3", "0.333", f"-0.044 {DASH} 0.711"]]
        assert numbers(page, "feedback") == {"Stored": "6", "Duplicate": "1", "Late": "1", "Unknown decision": "1"}
        assert numbers(page, "decisions") == {"Samples": "4", "Open": "1", "Waiting": "0", "Expired": "0"}
        assert page.text("#learner-state") == "stopped"
        assert numbers(page, "learner") == {
            "Gradient steps": "7",
            "Lag": "1",
            "Loss": "0.625",
            "Samples per step": "16",
            "Restarts": "0",
            "Last report": "5 s ago",
        }
        assert page.text("#automatic") == "Automatic promotion is on"
        assert page.rows("versions") == [
            ["Version 3", "promoted", "2", "32", "2", "0.500", made(status, 3), "Roll back"],
            ["Version 2", "retired", "1", "16", "1", "0.750", made(status, 2), "Promote"],
            ["Version 1", "retired", DASH, "0", "0", DASH, made(status, 1), "Promote"],
        ]
        assert page.text("#uptime") == "Started 70 s ago, decisions in SQLite"
        assert page.problems == []


def made(status: dict[str, Any], number: int) -> str:
    """Return when a version was made; versions carry the wall's time, which is of another day than the service's."""
    created = next(version["created"] for version in status["versions"]["versions"] if version["version"] == number)
    time = datetime.datetime.fromtimestamp(created, datetime.UTC)
    return f"{time:%b} {time.day}, {time:%H:%M}"


def test_charts_show_the_latest_values_and_those_under_the_keys(browser: Browser, busy_site: Site) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        legend = "#chart-reward .legend"
        assert page.text(legend) == (
            f"mean reward 1.000 95 % interval {DASH} version promoted latest: 14:13:30, 1 slate"
        )
        page.ask("document.querySelector('#chart-reward .plot').focus()")
        page.press("ArrowLeft")
        assert page.text(legend) == (
            f"mean reward 0.333 95 % interval -0.044 {DASH} 0.711 version promoted 14:13:20, 3 slates"
        )
        spoken = page.ask("document.querySelector('#chart-reward .plot').getAttribute('aria-valuetext')")
        assert spoken == f"14:13:20, 3 slates; mean reward 0.333; -0.044 {DASH} 0.711"
        assert page.text("#chart-coverage .legend b") == str(busy_site.status()["reward"][-1]["coverage"])
        latest = busy_site.status()["latency"][-1]
        assert page.texts("#chart-latency .legend b") == [
            milliseconds(latest["p50_ms"]),
            milliseconds(latest["p99_ms"]),
        ]


def test_promotions_are_marked_at_their_time(browser: Browser, busy_site: Site) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        titles = "[...document.querySelectorAll('#chart-reward title')].map(each => each.textContent)"
        # The third version came after the last bucket of closed slates.
        assert page.ask(titles) == ["Version 1: 14:13:20", "Version 2: 14:13:30"]


def test_try_a_slate_shows_the_answer(browser: Browser, busy_site: Site) -> None:
    busy_site.call("PUT", "v1/items/1", {"title": "First item"})
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        page.ask("document.getElementById('user').focus()")
        page.type("2")
        page.press("Tab")
        assert page.focused() == "greediness"
        page.press("End")
        page.press("Tab")
        assert page.focused() == "reward-weight"
        page.press("ArrowRight", 2)
        assert page.texts("output") == ["1.00", "1.10"]
        page.press("Tab", 2)
        assert page.focused() == "trial-button"
        page.press("Enter")
        page.wait_for("!document.getElementById('trial-result').hidden")
        (body,) = posted(page, "/v1/recommend")
        wanted = {"user": "2", "greediness": 1, "reward_weight": 1.1, "exclude_seen": False, "activate": "on_shown"}
        assert {name: value for name, value in body.items() if name != "request_id"} == wanted
        answer = busy_site.call("POST", "v1/recommend", body)  # the same id: the answer that the page has got
        assert page.text("#slate-title") == f"Slate of version {answer['version']}"
        assert page.texts("#slate .title") == [f"{item['title']} {item['id']}" for item in answer["items"]]
        assert page.texts("#slate .chance") == ["100 %"] * 3  # nothing is left to chance
        history = busy_site.call("GET", "v1/users/2/history")["history"]
        assert page.text("#history-title") == "What user 2 has met"
        assert page.texts("#history .title") == [item["title"] for item in reversed(history[-12:])]
        assert page.texts("#history li:first-child .tag, #history li:nth-child(2) .tag") == ["click", "click"]
        assert page.problems == []
    assert busy_site.status()["waiting"] == 1  # never reported as shown: nothing is learned from it


def test_probabilities_are_those_of_the_answer(browser: Browser, site: Site) -> None:
    with browser.page(site.url) as page:
        page.wait_for_status()
        page.click("#trial-button")
        page.wait_for("!document.getElementById('trial-result').hidden")
        (body,) = posted(page, "/v1/recommend")
        answer = site.call("POST", "v1/recommend", body)
        assert body["user"] is None
        assert body["greediness"] == 0
        assert page.text("#history-title") == "No user"
        shown = [float(text.removesuffix(" %")) / 100 for text in page.texts("#slate .chance")]
        assert shown == pytest.approx([item["probability"] for item in answer["items"]], rel=5e-3)
        assert f"log-probability of the slate {answer['log_prob']:.3f}." in page.text("#slate-notes")


def test_a_refused_trial_says_why(browser: Browser, site: Site) -> None:
    for number in range(1, 59):
        site.call("DELETE", f"v1/items/{number}")
    with browser.page(site.url) as page:
        page.wait_for_status()
        page.click("#trial-button")
        page.wait_for("document.getElementById('trial-problem').textContent")
        body = {"request_id": "same", "activate": "on_shown"}
        assert page.text("#trial-problem") == refusal(site, body)
        assert page.ask("document.getElementById('trial-result').hidden")


def refusal(site: Site, body: dict[str, Any]) -> str:
    """Return the sentence with which the service refuses a request."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        site.call("POST", "v1/recommend", body)
    return str(json.load(refused.value)["detail"])


def test_promote_asks_first(browser: Browser, busy_site: Site) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        page.click("#promote-1")
        assert page.text("#confirm") == (
            "Promote version 1? Slates are then drawn by version 1. It takes the place of version 3. Cancel Promote"
        )
        page.click("#confirm-no")
        assert not page.ask("document.getElementById('confirm').open")
        assert posted(page, "/promote") == []
        page.click("#promote-1")
        page.click("#confirm-yes")
        page.wait_for("!document.getElementById('confirm').open")
        assert page.text("#versions-notice") == "Version 1 serves now."
        assert [row[:2] + row[-1:] for row in page.rows("versions")] == [
            ["Version 3", "retired", "Promote"],
            ["Version 2", "retired", "Promote"],
            ["Version 1", "promoted", "Roll back"],
        ]
        assert page.problems == []
    assert busy_site.status()["versions"]["promoted"] == 1
    assert busy_site.show("later")["version"] == 1


def test_roll_back_by_keyboard(browser: Browser, busy_site: Site) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        page.ask("document.getElementById('roll-back').focus()")
        page.press("Enter")
        assert page.text("#confirm-title") == "Roll back version 3?"
        assert "Automatic promotion stops" in page.text("#confirm-text")
        assert page.focused() == "confirm-no"  # what does nothing is at hand first
        page.press("Escape")
        page.wait_for("document.activeElement.id === 'roll-back'")
        assert posted(page, "/rollback") == []
        page.press(" ")
        page.press("Tab")
        assert page.focused() == "confirm-yes"
        page.press("Enter")
        page.wait_for("!document.getElementById('confirm').open")
        page.wait_for("document.activeElement.id === 'roll-back'")
        assert page.text("#automatic") == "Automatic promotion is off"
        assert page.text("tr.current th") == "Version 2"
    assert busy_site.status()["versions"]["promoted"] == 2


def test_what_the_service_refuses_stays_in_the_dialog(browser: Browser, site: Site) -> None:
    with browser.page(site.url) as page:
        page.wait_for_status()
        page.click("#roll-back")
        page.click("#confirm-yes")
        page.wait_for("document.getElementById('confirm-problem').textContent")
        assert page.text("#confirm-problem") == "no version was promoted before; there is nothing to go back to"
        assert page.ask("document.getElementById('confirm').open")
        page.press("Enter")  # the focus is on "Cancel"
        assert not page.ask("document.getElementById('confirm').open")


def test_every_control_is_reached_by_keyboard(browser: Browser, busy_site: Site) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        reached = set()
        for _ in range(40):
            page.press("Tab")
            reached.add(page.focused())
        controls = "[...document.querySelectorAll('button, input')].filter(each => each.checkVisibility())"
        assert set(page.ask(f"{controls}.map(each => each.id)")) <= reached
        assert {"roll-back", "promote-1", "promote-2", "user", "greediness", "reward-weight", "trial-button"} <= reached


def test_the_first_second(browser: Browser, site: Site) -> None:
    with browser.page(site.url) as page:
        page.wait_for_status()
        assert page.text("#state") == "Ready"
        assert [tile(page, name)[1] for name in ("slates", "rate", "p50", "p99", "reward")] == [
            "0",
            "0.0",
            DASH,
            DASH,
            DASH,
        ]
        waiting = "slates close 60 s after they are shown."
        assert page.texts(".empty") == [
            f"No reward yet: {waiting}",
            f"No version has a reward yet: {waiting}",
            "No requests yet.",
            f"No slate has closed yet: {waiting}",
            f"No feedback yet: {waiting}",
            "No learner reports to this service: versions stay as they are.",
            "See what the service would show to a user. Such slates are never reported as shown, so nothing is learned "
            "from them.",
        ]
        assert [row[:2] for row in page.rows("versions")] == [["Version 1", "promoted"]]
        assert page.problems == []
        site.show("first")
        page.wait_for("document.querySelector('#tile-slates dd').textContent === '1'")
        assert numbers(page, "decisions")["Open"] == "1"


def test_a_learner_that_has_not_reported_yet(browser: Browser, busy_site: Site) -> None:
    busy_site.start_learner()
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        assert numbers(page, "learner")["Last report"] == "none yet"
        assert numbers(page, "learner")["Gradient steps"] == DASH


def test_a_service_that_stops_and_comes_back(browser: Browser, busy_site: Site, new_site: NewSite) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        assert page.texts("#connection") == []
        busy_site.stop()
        page.wait_for("!document.getElementById('connection').hidden")
        banner = page.text("#connection")
        assert banner.startswith("The service does not answer. The numbers below are of ")
        assert banner.endswith("Trying again every 2 s.")
        assert page.text("#state") == "No answer"
        assert page.ask("document.title") == "No answer · gfn4rec"
        assert tile(page, "slates")[1] == "5"  # the latest numbers stay
        again = new_site("live", port=busy_site.port)
        page.wait_for("document.getElementById('connection').hidden")
        assert page.text("#state") == "Ready"
        assert again.status()["decisions"] == 5
