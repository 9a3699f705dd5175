"""The examples of the client, and its help."""

import doctest

from gfn4rec.client import Client, clients, problems, retries


def test_examples() -> None:
    for module in (clients, problems, retries):
        result = doctest.testmod(module)
        assert result.attempted > 0
        assert result.failed == 0


def test_methods_show_their_arguments_and_what_they_do() -> None:
    client = Client("http://127.0.0.1:8000")
    for name in ("recommend", "feedback", "status", "wait_until_ready"):
        assert getattr(client, name).__doc__ == getattr(Client, name).__doc__ is not None
    assert "request_id" in client.recommend.__wrapped__.__annotations__  # type: ignore[attr-defined]
    client.close()
