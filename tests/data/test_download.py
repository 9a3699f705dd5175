"""Downloads, against a server on the loopback address that can break off, resume, or refuse to."""

import hashlib
import io
import re
import socket
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gfn4rec.data.download import Archive, cache_folder, fetch
from gfn4rec.data.readers import SOURCES
from gfn4rec.errors import UserError

LAYOUT = "ratings.dat"


def zip_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def tar_bytes(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


class Server(ThreadingHTTPServer):
    """Serves one content; `break_at` closes the connection after so many bytes, `can_resume` obeys Range."""

    content = b""
    break_at: int | None = None
    can_resume = True
    ranges: list[str | None]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        content, start = self.server.content, 0
        if wanted and self.server.can_resume:
            start = int(re.fullmatch(r"bytes=(\d+)-", wanted)[1])  # type: ignore[index]
            if start >= len(content):
                self.send_error(416)
                return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start : self.server.break_at])

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("GFN4REC_CACHE", str(tmp_path / "cache"))
    server = Server(("127.0.0.1", 0), Handler)
    server.content = zip_bytes({"ml-1m/ratings.dat": b"1::2::3::4\n" * 50_000, "ml-1m/README": b"not wanted"})
    server.ranges = []
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def archive_of(server: Server, name: str = "ml-1m.zip", **changes: object) -> Archive:
    values = {"md5": hashlib.md5(server.content).hexdigest(), "members": ("*.dat",)} | changes
    return Archive(f"http://127.0.0.1:{server.server_port}/{name}", **values)  # type: ignore[arg-type]


def test_what_is_wanted_is_fetched_once(server: Server) -> None:
    seen: list[tuple[int, int | None]] = []
    folder = fetch("ml-1m", archive_of(server), LAYOUT, lambda done, total: seen.append((done, total)))
    assert [path.name for path in folder.iterdir()] == ["ratings.dat"]
    assert (folder / "ratings.dat").read_bytes() == b"1::2::3::4\n" * 50_000
    assert seen[-1] == (len(server.content), len(server.content))
    assert fetch("ml-1m", archive_of(server), LAYOUT) == folder
    assert len(server.ranges) == 1


def test_a_download_that_breaks_off_goes_on_where_it_stopped(server: Server) -> None:
    server.break_at = 300_000
    with pytest.raises(
        UserError, match=r"300,000 bytes are kept, run the command again to resume; .*ratings.dat by --raw"
    ) as error:
        fetch("ml-1m", archive_of(server), LAYOUT)
    assert "\n" not in str(error.value)
    assert not (cache_folder() / "ml-1m").exists()
    server.break_at = None
    folder = fetch("ml-1m", archive_of(server), LAYOUT)
    assert server.ranges == [None, "bytes=300000-"]
    assert (folder / "ratings.dat").read_bytes() == b"1::2::3::4\n" * 50_000
    assert sorted(path.name for path in cache_folder().iterdir()) == ["ml-1m", "ml-1m.zip"]


def test_a_server_that_cannot_resume_is_asked_from_the_start(server: Server) -> None:
    server.break_at = 300_000
    with pytest.raises(UserError, match="are kept"):
        fetch("ml-1m", archive_of(server), LAYOUT)
    server.break_at, server.can_resume = None, False
    assert (fetch("ml-1m", archive_of(server), LAYOUT) / "ratings.dat").exists()


def test_a_partial_file_that_is_too_long_is_fetched_anew(server: Server) -> None:
    cache_folder().mkdir()
    (cache_folder() / "ml-1m.zip.part").write_bytes(b"x" * (len(server.content) + 1))
    assert (fetch("ml-1m", archive_of(server), LAYOUT) / "ratings.dat").exists()
    assert server.ranges == [f"bytes={len(server.content) + 1}-", None]


def test_a_wrong_checksum_keeps_nothing(server: Server) -> None:
    with pytest.raises(UserError, match="the checksum is .*, not 123; the download was deleted"):
        fetch("ml-1m", archive_of(server, md5="123"), LAYOUT)
    assert list(cache_folder().iterdir()) == []


def test_tar_archives_and_archives_without_known_checksum(server: Server) -> None:
    server.content = tar_bytes({"KuaiRand/data/log_standard_1k.csv": b"a\n", "KuaiRand/data/huge.csv": b"b\n"})
    archive = archive_of(server, "kr.tar.gz", md5=None, members=("*/data/log_*.csv",))
    folder = fetch("kr", archive, LAYOUT)
    assert [path.name for path in folder.iterdir()] == ["log_standard_1k.csv"]


def test_an_archive_without_the_wanted_files_is_not_kept_as_a_success(server: Server) -> None:
    with pytest.raises(UserError, match=r"ml-1m.zip: holds no \*.csv, so it is the wrong archive; delete it"):
        fetch("ml-1m", archive_of(server, members=("*.dat", "*.csv")), LAYOUT)
    assert [path.name for path in cache_folder().iterdir()] == ["ml-1m.zip"]


@pytest.mark.parametrize("name", ["broken.zip", "broken.tar.gz"])
def test_an_archive_that_cannot_be_unpacked_leaves_no_folder(server: Server, name: str) -> None:
    whole = tar_bytes({"d/log_a.csv": bytes(range(256)) * 5000})
    server.content = b"neither" if name.endswith("zip") else whole[: len(whole) // 2]
    with pytest.raises(UserError, match=f"{name}: cannot be unpacked .*; delete it and try again"):
        fetch("broken", archive_of(server, name, members=("*",)), LAYOUT)
    assert [path.name for path in cache_folder().iterdir()] == [name]


def test_offline_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GFN4REC_CACHE", str(tmp_path))
    with socket.socket() as taken:  # bound but not listening: the connection is refused at once
        taken.bind(("127.0.0.1", 0))
        archive = Archive(f"http://127.0.0.1:{taken.getsockname()[1]}/ml-1m.zip", None, ())
        with pytest.raises(
            UserError, match="cannot be downloaded .*refused.*unpack it, and name the folder with ratings.dat by"
        ):
            fetch("ml-1m", archive, LAYOUT)


def test_every_published_set_says_where_it_lies_and_what_it_needs() -> None:
    for name, source in SOURCES.items():
        assert source.archive.url.startswith("https://"), name
        assert source.layout
        assert bool(source.archive.members) != source.archive.is_page, name
    md5 = {name: source.archive.md5 for name, source in SOURCES.items()}
    assert md5["ml-1m"] == "c4d9eecfca2ab87c1945afe126590906"
    assert md5["ml-100k"] == "0e33842e24a9c977be4e0107933c0723"
    assert md5["ml-25m"] == "6b51fb2759a8657d3bfcbfc42b592ada"
    assert md5["ml-32m"] == "d472be332d4daa821edc399621853b57"
    assert md5["kuairec-big"] == md5["kuairec-small"] == "261550d472c48eff4990fb13c0e5bcf7"
    assert md5["kuairand-1k"] == "6b0b9c8222d67fcd4c676218edca3f1f"
    assert [SOURCES[name].test_slates for name in ("ml-1m", "kuairand-1k", "kuairand-pure")] == [1, 4, 1]
    assert SOURCES["kuairand-1k"].archive.url.endswith("/KuaiRand-1K.tar.gz")
    assert SOURCES["kuairand-pure"].archive.url.endswith("/KuaiRand-Pure.tar.gz")
    assert SOURCES["kuairand-27k"].archive.url.endswith("/KuaiRand-27K.tar.gz")
