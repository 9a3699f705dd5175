"""Opening a store."""

from gfn4rec.live.service import LiveService
from tests.live.fakes import recommend


def test_smoke(service: LiveService) -> None:
    first = recommend(service, "r1")
    assert recommend(service, "r1") == first
    assert len(set(first[0].slate)) == 3
