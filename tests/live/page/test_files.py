"""The files of the page as the service sends them, without a browser."""

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from gfn4rec.live import page
from gfn4rec.live.page import CONTENT_SECURITY_POLICY, page_files
from tests.live.http.serving import new_client, open_host, problem_of

SOURCES = sorted(
    path for path in Path(page.__file__).parent.iterdir() if path.suffix in (".html", ".css", ".js", ".svg")
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
SVG = "http://www.w3.org/2000/svg"  # a name, which nothing loads


def address(path: Path) -> str:
    """Return where a file is served."""
    return "/" if path.name == "index.html" else f"/page/{path.name}"


@pytest.fixture(scope="module")
def client(run: Path, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A client of a service that is open and has not started: files need no more."""
    return new_client(open_host(run, tmp_path_factory.mktemp("files") / "live"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_each_file_is_served_as_it_is(client: TestClient, path: Path) -> None:
    answer = client.get(address(path))
    assert answer.status_code == 200
    assert answer.content == path.read_bytes()
    assert answer.headers["content-type"] == TYPES[path.suffix]
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"


def test_nothing_else_is_served(client: TestClient) -> None:
    assert set(page_files()) == {address(path) for path in SOURCES}
    others = (
        "",
        "/",
        "/index.html",
        "/__init__.py",
        "/__pycache__",
        "/absent.js",
        "/../store/store.py",
        "/%2e%2e/host.py",
    )
    for other in others:
        problem_of(client.get(f"/page{other}", follow_redirects=False), 404)
    for method in ("POST", "PUT", "DELETE"):
        problem_of(client.request(method, "/"), 405)


def test_the_policy_allows_this_origin_alone() -> None:
    directives = dict(part.strip().split(" ", 1) for part in CONTENT_SECURITY_POLICY.split(";"))
    assert directives == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_files_name_nothing_outside(path: Path) -> None:
    text = path.read_text(encoding="utf-8").replace(SVG, "")
    assert re.findall(r"(?:https?:)?//[\w.-]+\.\w+", text) == []
    assert re.findall(r"@import|url\(", text) == []
    if path.suffix == ".html":  # what the policy would refuse
        assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", text) == []


def test_what_files_name_is_served() -> None:
    named = {
        found if found.startswith("page/") else f"page/{found}"
        for path in SOURCES
        for found in re.findall(r'from "\./([\w.]+)"|(?:href|src)="(page/[^"]+)"', path.read_text(encoding="utf-8"))
        for found in found
        if found
    }
    assert {f"/{name}" for name in named} | {"/"} == set(page_files())
