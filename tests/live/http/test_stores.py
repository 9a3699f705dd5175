"""The service over its store: a database that stops, a store of another run, a clock that was set back."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gfn4rec.errors import UserError
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.host import Host, Place
from gfn4rec.live.records import Event
from gfn4rec.live.store.decisions import add_events
from tests.live.http.conftest import NewHost
from tests.live.http.serving import feedback, ids, new_client, open_host, problem_of, recommend
from tests.live.http.test_faults import wait_for
from tests.live.postgresql import Cluster, new_cluster


@pytest.fixture
def stoppable() -> Iterator[Cluster]:
    """A server of the test's own."""
    cluster = new_cluster(fsync=False)
    yield cluster
    cluster.remove()


def test_postgresql_that_stops_answers_503_until_it_is_back(run: Path, tmp_path: Path, stoppable: Cluster) -> None:
    host = Host(Place.of(run, tmp_path / "live", stoppable.new_database()), ServiceConfig())
    with new_client(host) as client:
        first = recommend(client, "before", user="3")
        event = {"event_id": "e1", "decision_id": first["decision_id"], "item": ids(first)[0], "behaviour": "click"}
        assert feedback(client, event) == ["stored"]
        stoppable.stop("immediate")
        for path, body in [
            ("/v1/recommend", {"request_id": "during", "user": "3"}),
            ("/v1/feedback", event | {"event_id": "e2"}),
            ("/v1/shown", {"decision_ids": [first["decision_id"]]}),
        ]:
            response = client.post(path, json=body)
            assert problem_of(response, 503).startswith("the store cannot be reached (")
            assert response.headers["retry-after"] == "1"
        response = client.get("/readyz")
        assert problem_of(response, 503)
        assert response.headers["retry-after"] == "1"
        assert client.get("/livez").status_code == 200

        stoppable.start()
        wait_for(lambda: client.get("/readyz").status_code == 200)
        assert recommend(client, "before", user="3") == first
        assert feedback(client, event, event | {"event_id": "e2"}) == ["duplicate", "stored"]
        assert recommend(client, "during", user="3")["request_id"] == "during"


def test_a_store_of_another_run_is_refused(new_host: NewHost, plain_run: Path, tmp_path: Path) -> None:
    new_host("live", is_started=False).stop()
    with pytest.raises(UserError) as caught:
        open_host(plain_run, tmp_path / "live")
    path = tmp_path / "live" / "store.db"
    assert str(caught.value) == f"{path}: belongs to the service of another run; choose another --store"
    new_host("live", is_started=False)  # the refused one has let go of it


def test_a_directory_of_another_store_is_refused(run: Path, new_host: NewHost, tmp_path: Path) -> None:
    for name in ("one", "other"):
        new_host(name, is_started=False).stop()
    with pytest.raises(UserError, match="is not where this store's versions are; name their directory with --live"):
        Host(Place.of(run, tmp_path / "one", str(tmp_path / "other" / "store.db")), ServiceConfig())
    with pytest.raises(UserError, match="belongs to another store; name that one with --store"):
        Host(Place.of(run, tmp_path / "one", str(tmp_path / "new.db")), ServiceConfig())


def test_time_goes_on_from_the_latest_in_the_store(new_host: NewHost) -> None:
    host = new_host("live", is_started=False)
    later = time.time() + 1e6  # the system's clock has been set back since
    event = Event("e", "nobody", "1", "click")
    host.store.write(lambda connection: add_events(connection, [event], ["click"], later)).result(60)
    host.stop()
    assert 0 <= new_host("live", is_started=False).service.clock() - later < 600
