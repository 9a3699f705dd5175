"""`gfn4rec serve` and `gfn4rec live`, from the command line: mistakes are one line, and a signal loses nothing."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest
from fault_harness import free_port

from gfn4rec import train
from gfn4rec.client import Client
from gfn4rec.live.config import ServiceConfig
from gfn4rec.live.host import Host, Place
from tests.conftest import Cli
from tests.training.conftest import small_settings

Fails = Callable[..., str]
PATIENCE = 300.0  # seconds; a busy machine is slow


@pytest.fixture(scope="session")
def served_run(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned next to nothing, with a small network."""
    folder = tmp_path_factory.mktemp("served") / "run"
    train(small_settings("gfn", "offline", {"num_steps": 2}), data_folder, None, folder)
    return folder


def test_serve_wants_a_run_or_the_demo(fails: Fails, tmp_path: Path) -> None:
    sentence = "gfn4rec: serve: give either the directory of a trained run, or --demo\n"
    assert fails("serve") == sentence
    assert fails("serve", tmp_path, "--demo") == sentence
    assert (
        fails("serve", tmp_path, "--dir", "demo") == "gfn4rec: --dir demo: is for --demo; a run's service has --live\n"
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.com"])
def test_serve_listens_on_this_machine_only(fails: Fails, served_run: Path, host: str) -> None:
    sentence = "without keys the service answers this machine only; write 127.0.0.1"
    assert fails("serve", served_run, "--host", host) == f"gfn4rec: --host {host}: {sentence}\n"
    assert not (served_run / "live").exists()


def test_serve_refuses_a_port_in_use(fails: Fails, served_run: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        problem = fails("serve", served_run, "--port", port)
    assert problem == f"gfn4rec: --port {port}: cannot be used (Address already in use); choose another\n"
    assert not (served_run / "live").exists()


def test_serve_wants_a_run_that_it_can_read(fails: Fails, served_run: Path, tmp_path: Path) -> None:
    port = free_port()
    assert "not a run" in fails("serve", tmp_path / "none", "--port", port)
    newer = tmp_path / "newer"
    shutil.copytree(served_run, newer)
    manifest = json.loads((newer / "manifest.json").read_text())
    (newer / "manifest.json").write_text(json.dumps(manifest | {"version": 99}))
    assert "99" in fails("serve", newer, "--port", port)
    assert not (newer / "live").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--greediness", 1.5), "greediness"),
        (("--epsilon", -0.1), "epsilon"),
        (("--wait", 0), "wait"),
        (("--reward-weight", "nan"), "reward_weight"),
        (("--learning-rate", 0), "learning_rate"),
    ],
)
def test_serve_refuses_settings_out_of_range(
    fails: Fails, served_run: Path, options: tuple[object], words: str
) -> None:
    assert words in fails("serve", served_run, *options)


def test_forms_of_the_store(fails: Fails, served_run: Path, tmp_path: Path) -> None:
    command = ["serve", served_run, "--live", tmp_path / "live", "--port", free_port(), "--store"]
    assert "mysql" in fails(*command, "mysql://user@localhost/database")
    (tmp_path / "notes.txt").write_text("no database, but what somebody wrote down, " * 100)
    assert "notes.txt" in fails(*command, tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text().startswith("no database")
    assert str(tmp_path) in fails(*command, tmp_path)
    unreachable = "postgresql+psycopg://user:secret@127.0.0.1:9/database"
    assert "secret" not in fails(*command, unreachable)


def test_a_store_belongs_to_one_run(fails: Fails, served_run: Path, data_folder: Path, tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    Host(Place.of(served_run, tmp_path / "one", store), ServiceConfig()).stop()
    other = tmp_path / "other"
    train(small_settings("cf", "offline", {"num_steps": 2}), data_folder, None, other)
    command = ["serve", other, "--live", tmp_path / "two", "--port", free_port(), "--store", store]
    assert "belongs to the service of another run" in fails(*command)


def test_live_learn_says_what_is_missing(
    fails: Fails, folder: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "nice", lambda _: 0)  # the tests keep their priority
    assert "not a run" in fails("live", "learn", tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    train(small_settings("popularity"), data_folder, folder / "simulator", tmp_path / "popular")
    Host(Place.of(tmp_path / "popular", None, None), ServiceConfig()).stop()
    assert "has nothing to learn" in fails("live", "learn", tmp_path / "popular")


def test_live_status_without_a_service(fails: Fails) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert url in fails("live", "status", url)
    assert "ftp://x" in fails("live", "status", "ftp://x")


def test_live_export_says_what_is_missing(fails: Fails, served_run: Path, tmp_path: Path) -> None:
    assert "name either the RUN that is served, or its --store" in fails("live", "export", "--out", tmp_path / "out")
    assert "--out" in fails("live", "export", served_run)
    missing = tmp_path / "none.db"
    assert "there is no store" in fails("live", "export", "--store", missing, "--out", tmp_path / "out")
    assert not missing.exists()
    assert not (tmp_path / "out").exists()


@contextmanager
def serving(run: Path, live: Path, port: int) -> Iterator[tuple["subprocess.Popen[str]", Client]]:
    """Serve by the command line in a process of its own, with a client that waits for it."""
    words = ["serve", str(run), "--live", str(live), "--port", str(port), "--no-learner", "--greediness", "0.5"]
    command = [sys.executable, "-m", "gfn4rec", *words]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a test in the background may ignore it
    )
    try:
        with Client(f"http://127.0.0.1:{port}", patience=PATIENCE) as client:
            client.wait_until_ready()
            yield process, client
    finally:
        process.kill()
        process.communicate()


def test_signals_end_a_service_in_good_order(cli: Cli, served_run: Path, tmp_path: Path) -> None:
    """What it answered is stored, it goes on where it was, and status and export say what happened."""
    live, port = tmp_path / "live", free_port()
    with serving(served_run, live, port) as (process, client):
        first = client.recommend(user="1", request_id="first")
        assert client.feedback(first.decision_id, first.items[0].id, "click").status == "stored"
        status = json.loads(cli("live", "status", client.url, "--json").out)
        assert (status["decisions"], status["greediness"], status["learner"]) == (1, 0.5, None)
        assert status["events"] == {"stored": 1, "duplicate": 0, "late": 0, "unknown": 0}
        text = cli("live", "status", client.url).out
        assert "gfn on" in text
        assert "1 open" in text
        assert "no slate has been closed yet" in text
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out == f"ended; `gfn4rec serve {served_run}` goes on where it was\n"
    assert f"serving {served_run} at http://127.0.0.1:{port}; Ctrl-C ends it" in err
    assert "Traceback" not in err
    with serving(served_run, live, port) as (process, client):
        assert client.recommend(user="1", request_id="first") == first
        second = client.recommend(user="1", request_id="second")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert "Traceback" not in err + out
    exported = cli("live", "export", "--store", live / "store.db", "--out", tmp_path / "out", "--json")
    assert json.loads(exported.out)["rows"] == {"decisions": 2, "events": 1, "samples": 0}
    decisions = pl.read_parquet(tmp_path / "out" / "decisions.parquet")
    assert decisions["decision_id"].to_list() == [first.decision_id, second.decision_id]
    assert decisions["slate"].to_list() == [[item.id for item in slate.items] for slate in (first, second)]
    assert decisions["responses"].to_list()[0][0] == ["click"]
