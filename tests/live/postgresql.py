"""A PostgreSQL of the tests' own, from the binaries of the system."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

_START_TRIES = 5
_LONGEST_START = 60  # seconds


def binaries() -> Path | None:
    """Return the directory of `initdb` and `pg_ctl`, or None; the PATH comes first, then the newest version."""
    found = shutil.which("pg_ctl")
    places = [] if found is None else [Path(found).resolve().parent]
    if config := shutil.which("pg_config"):
        places.append(Path(subprocess.run([config, "--bindir"], capture_output=True, text=True).stdout.strip()))
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    places += sorted(installed, key=lambda path: int(path.parent.name.split(".")[0]), reverse=True)
    return next((place for place in places if all((place / name).exists() for name in ("initdb", "pg_ctl"))), None)


class Cluster:
    """A PostgreSQL server with its own data directory, which listens on a free port of the loopback address.

    PostgreSQL refuses to run as root; then another user that exists runs it.
    """

    def __init__(self, bin_directory: Path, fsync: bool = True) -> None:
        self._bin, self._options = bin_directory, f"-c fsync={'on' if fsync else 'off'} -c max_connections=60"
        self._account = _account()
        # A short path: the name of a Unix socket has at most 107 characters.
        self.directory = Path(tempfile.mkdtemp(prefix="gfn4rec-pg-", dir="/tmp"))
        if self._account is not None:
            os.chown(self.directory, self._account.pw_uid, self._account.pw_gid)
        self.port, self._num_databases = 0, 0
        self._run("initdb", "--auth=trust", "--username=tests", "--encoding=UTF8", "--no-locale", "--no-sync")

    def start(self) -> None:
        """Start the server, and wait until it answers; after a stop, on the same port."""
        ports = [self.port] if self.port else [_free_port() for _ in range(_START_TRIES)]
        for number, port in enumerate(ports, 1):
            options = f"-p {port} -k {self.directory} -h 127.0.0.1 {self._options}"
            try:
                self._run("pg_ctl", "start", "--wait", f"--log={self.directory}/log", f"--options={options}")
            except subprocess.CalledProcessError:
                if number == len(ports):
                    raise
            else:
                self.port = port
                return

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server; `immediate` is what a crash leaves behind."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}")

    def new_database(self) -> str:
        """Create a database, and return its address as the service takes it."""
        self._num_databases += 1
        name = f"store{self._num_databases}"
        with psycopg.connect(self.address("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.address(name).replace("postgresql:", "postgresql+psycopg:")

    def address(self, database: str) -> str:
        """Return the address of a database, as libpq takes it."""
        return f"postgresql://tests@127.0.0.1:{self.port}/{database}"

    def remove(self) -> None:
        """Stop the server, if it runs, and delete its data."""
        if (self.directory / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, name: str, *arguments: str) -> None:
        command = [str(self._bin / name), f"--pgdata={self.directory / 'data'}", *arguments]
        # A file, not a pipe: the server keeps it open, so that a pipe would never end.
        with tempfile.TemporaryFile() as output:
            try:
                subprocess.run(
                    command,
                    check=True,
                    cwd=self.directory,
                    stdout=output,
                    stderr=output,
                    timeout=_LONGEST_START,
                    user=None if self._account is None else self._account.pw_uid,
                    group=None if self._account is None else self._account.pw_gid,
                    extra_groups=None if self._account is None else [],
                )
            except subprocess.CalledProcessError as error:
                output.seek(0)
                error.add_note(output.read().decode(errors="replace"))
                raise


def new_cluster(fsync: bool = True) -> Cluster:
    """Return a running server; skip the test if PostgreSQL is not installed."""
    found = binaries()
    if found is None:
        pytest.skip("PostgreSQL is not installed: neither PATH nor /usr/lib/postgresql has initdb and pg_ctl")
    cluster = Cluster(found, fsync)
    try:
        cluster.start()
    except BaseException:
        cluster.remove()
        raise
    return cluster


def _account() -> pwd.struct_passwd | None:
    """Return the user that runs the server if that is not the present one."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    pytest.skip("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
