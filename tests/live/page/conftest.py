"""Services with known content, and a browser to look at their pages."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.chromium import BROWSER
from tests.live.http.serving import make_run
from tests.live.page.browser import Browser
from tests.live.page.site import Site, fill

NewSite: TypeAlias = Callable[..., Site]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a policy with a prior, so that both knobs are there."""
    return make_run(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser that all tests share; each opens pages of its own."""
    if BROWSER is None:
        pytest.skip("no browser (chromium or google-chrome) is installed")
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


@pytest.fixture
def new_site(run: Path, tmp_path: Path) -> Iterator[NewSite]:
    """Start a service of the test's own."""
    with ExitStack() as stack:

        def make(name: str = "live", **config: Any) -> Site:
            site = Site(run, tmp_path / name, **config)
            stack.callback(site.stop)
            return site

        yield make


@pytest.fixture
def site(new_site: NewSite) -> Site:
    """A service that has just started."""
    return new_site()


@pytest.fixture
def busy_site(site: Site) -> Site:
    """A service with slates, feedback of all kinds, three versions, and a learner that reports."""
    fill(site)
    return site
