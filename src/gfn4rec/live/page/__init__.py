"""The operator's page: static files, and the headers they are served with."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from types import MappingProxyType

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Content types by suffix; those of the operating system differ between machines."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": CONTENT_SECURITY_POLICY,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-cache",  # after an update of the service, browsers load the new page
    }
)
"""Headers of every answer with a file of the page."""


@dataclass(frozen=True)
class PageFile:
    """A file of the page: its bytes and their type."""

    content: bytes
    content_type: str


@cache
def page_files() -> Mapping[str, PageFile]:
    """Return the page's files by the path they are served at: `/` is index.html, the others are below `/page/`."""
    found = {}
    for file in files(__name__).iterdir():
        content_type = CONTENT_TYPES.get(PurePath(file.name).suffix)
        if content_type is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found[path] = PageFile(file.read_bytes(), content_type)
    return MappingProxyType(found)
