"""How the page looks with much to show and strange titles, wide and narrow, light and dark; and what it may load."""

import pytest

from tests.chromium import BROWSER
from tests.live.page.browser import Browser, Page
from tests.live.page.site import Site

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser (chromium or google-chrome) is installed")

LONG_TITLE = "Donaudampfschifffahrtsgesellschaft" * 6
HOSTILE_TITLE = "<img src=x onerror=\"document.title='taken'\"><b>bold</b>"
# The contrast of every text with what is behind it, as WCAG 2 defines it; the weakest ones first.
CONTRASTS = """(() => {
  const parse = text => { const v = text.match(/[\\d.]+/g).map(Number); return v.length < 4 ? [...v, 1] : v; };
  const over = (top, under) => under.map((value, n) => n < 3 ? top[n] * top[3] + value * (1 - top[3]) : 1);
  const light = rgb => rgb.slice(0, 3).map(value => value / 255)
    .map(value => value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, n) => sum + value * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = node => {
    const layers = [];
    for (let each = node; each; each = each.parentElement) layers.push(parse(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255, 1]);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim(), node = walker.currentNode.parentElement;
    if (!text || !node.checkVisibility() || node.closest("datalist, noscript, .hidden-text")) continue;
    const style = getComputedStyle(node), back = behind(node);
    const front = over(parse(node.namespaceURI.endsWith("svg") ? style.fill : style.color), back);
    const [one, other] = [light(front), light(back)].sort((a, b) => b - a);
    found.push([(one + 0.05) / (other + 0.05), text]);
  }
  return found.sort((one, other) => one[0] - other[0]);
})()"""
SCRIPT_INTO_PAGE = """(() => {
  const script = document.createElement("script");
  script.textContent = "document.title = 'taken'";
  document.body.append(script);
})()"""
IMAGE_FROM_ELSEWHERE = "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.2:9/image.png'}))"


def test_nothing_comes_from_elsewhere_and_the_policy_holds(browser: Browser, busy_site: Site) -> None:
    with browser.page(busy_site.url) as page:
        page.wait_for_status()
        page.click("#trial-button")
        page.wait_for("!document.getElementById('trial-result').hidden")
        addresses = {url for _, url, _ in page.requests}
        assert {f"{busy_site.url}/", f"{busy_site.url}/page/main.js", f"{busy_site.url}/v1/status"} <= addresses
        assert [url for url in addresses if not url.startswith(f"{busy_site.url}/")] == []
        assert page.problems == []
        # What the policy forbids does not happen, and is noticed here.
        page.ask(SCRIPT_INTO_PAGE)
        page.ask(IMAGE_FROM_ELSEWHERE)
        page.wait_for_problems(2)
        assert all(
            "Content Security Policy" in problem or "contentSecurityPolicy" in problem for problem in page.problems
        )
        assert page.ask("document.title") == "synthetic-tiny · gfn4rec"


def strange_titles(site: Site) -> None:
    """Let a user meet items with titles of strangers."""
    for number, title in enumerate((HOSTILE_TITLE, LONG_TITLE, "x"), 1):
        site.call("PUT", f"v1/items/{number}", {"title": title})
    site.respond(site.show("strange", user="someone", candidates=["1", "2", "3"]), "click")


def try_slate(page: Page, user: str) -> None:
    """Ask for a slate of a user, and wait for it."""
    page.ask("document.getElementById('user').focus()")
    page.type(user)
    page.press("Enter")
    page.wait_for("!document.getElementById('trial-result').hidden")


def test_titles_are_texts(browser: Browser, site: Site) -> None:
    strange_titles(site)
    with browser.page(site.url) as page:
        page.wait_for_status()
        try_slate(page, "someone")
        assert set(page.texts("#history .title")) == {HOSTILE_TITLE, LONG_TITLE, "x"}
        assert page.ask("document.querySelectorAll('#history img, #history b').length") == 0
        assert page.ask("document.title") == "synthetic-tiny · gfn4rec"
        assert page.problems == []


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_scrolls_sideways(browser: Browser, busy_site: Site, width: int) -> None:
    strange_titles(busy_site)
    busy_site.publish(47)
    with browser.page(busy_site.url, width) as page:
        page.wait_for_status()
        try_slate(page, "someone")
        page.click("#versions-table + button")
        assert len(page.rows("versions")) == 50
        assert page.ask("[document.documentElement.scrollWidth, innerWidth]") == [width, width]
        outside = (
            "[...document.querySelectorAll('main *, header *')].filter(each => each.checkVisibility() && "
            "!each.closest('.hidden-text, datalist') && each.getBoundingClientRect().right > innerWidth + 0.5)"
            ".map(each => each.outerHTML)"
        )
        assert page.ask(outside) == []
        broken = (  # words that are cut into lines
            "[...document.querySelectorAll('button, .badge, .chance, .number, .numbers dd')].filter(each => "
            "each.checkVisibility() && each.innerText && new Set([...(range => (range.selectNodeContents(each), "
            "range))(document.createRange()).getClientRects()].map(box => Math.round(box.bottom / 8))).size > 2)"
            ".map(each => each.outerHTML)"
        )
        assert page.ask(broken) == []


def test_many_versions_are_folded_away(browser: Browser, site: Site) -> None:
    site.publish(19)
    with browser.page(site.url) as page:
        page.wait_for_status()
        assert [row[0] for row in page.rows("versions")] == [f"Version {number}" for number in range(20, 10, -1)]
        assert page.texts("#versions-table + button") == ["Show all 20 versions"]
        page.click("#versions-table + button")
        assert [row[0] for row in page.rows("versions")] == [f"Version {number}" for number in range(20, 0, -1)]
        page.click("#versions-table + button")
    site.call("POST", "v1/versions/2/promote")
    with browser.page(site.url) as page:
        page.wait_for_status()
        shown = [row[0] for row in page.rows("versions")]
        assert shown == [*(f"Version {number}" for number in range(20, 10, -1)), "Version 2"]  # the one that serves


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_contrast(browser: Browser, busy_site: Site, is_dark: bool) -> None:
    with browser.page(busy_site.url, is_dark=is_dark) as page:
        page.wait_for_status()
        try_slate(page, "1")
        weakest = page.ask(CONTRASTS)
        back = page.ask("getComputedStyle(document.body).backgroundColor")
        assert back == ("rgb(18, 21, 25)" if is_dark else "rgb(246, 247, 248)")
        assert len(weakest) > 100
        assert [pair for pair in weakest if pair[0] < 4.5] == []
