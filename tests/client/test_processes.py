"""One client object in several threads, processes and at the end of a program."""

# Scenarios B20, B21.

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from taskq_sync import TaskQ
from taskq_sync.clock import Deadline
from taskq_sync.db import pool as pool_module

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def run(dsn: str, checkout: Path) -> Callable[[str], str]:
    """Run a program that finds the client as `tq` and a task as `note`; return what it prints."""
    preamble = f"""
        import json, os, sys, threading
        from taskq_sync import TaskQ
        tq = TaskQ({dsn!r})
        @tq.task(name="note")
        def note(text: str) -> None: ...
    """

    def run_program(program: str) -> str:
        text = textwrap.dedent(preamble) + textwrap.dedent(program)
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", text]
        ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True, timeout=60)
        assert (ran.returncode, ran.stderr) == (0, "")
        return ran.stdout

    return run_program


@pytest.fixture
def notes(conn: Connection) -> Callable[[], list[str]]:
    """What the jobs in the database say, sorted."""
    return lambda: sorted(row[0] for row in conn.execute("select payload->>'text' from taskq.jobs"))


def test_a_program_may_end_without_closing(run: Callable[[str], str], notes: Callable[[], list[str]]) -> None:
    run("note.enqueue('x')")

    assert notes() == ["x"]


def test_a_program_may_drop_the_client(run: Callable[[str], str], notes: Callable[[], list[str]]) -> None:
    run(
        """
        note.enqueue('x')
        import gc
        del tq, note
        gc.collect()
        """
    )

    assert notes() == ["x"]


def test_making_a_client_connects_to_nothing_and_starts_no_thread(run: Callable[[str], str]) -> None:
    assert run("print(threading.active_count(), len(tq.database.client_pool._idle))") == "1 0\n"


class TestFork:
    def test_parent_and_child_each_have_a_connection_of_their_own(
        self, run: Callable[[str], str], notes: Callable[[], list[str]]
    ) -> None:
        said = run(
            """
            def pid():
                with tq.database.connection() as session:
                    return session.backend_pid

            note.enqueue("before")
            mine = pid()
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                for i in range(20):
                    note.enqueue(f"child {i}")
                os.write(write, str(pid()).encode())
                sys.exit(0)  # with all that a program does at its end
            for i in range(20):
                note.enqueue(f"parent {i}")
            _, status = os.waitpid(child, 0)
            theirs = int(os.read(read, 100))
            note.enqueue("after")
            print(json.dumps({"status": status, "same": theirs == mine, "kept": pid() == mine}))
            """
        )

        assert json.loads(said) == {"status": 0, "same": False, "kept": True}
        assert notes() == sorted(
            ["before", "after", *(f"{who} {i}" for who in ("child", "parent") for i in range(20))]
        )

    def test_a_child_of_a_busy_parent_does_not_wait_for_its_locks(
        self, run: Callable[[str], str], notes: Callable[[], list[str]]
    ) -> None:
        run(
            """
            import warnings
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, about forks with threads
            pool = tq.database.client_pool
            held, release = threading.Event(), threading.Event()

            def hold():
                with pool._lock:
                    held.set()
                    release.wait()

            thread = threading.Thread(target=hold)
            thread.start()
            held.wait()
            child = os.fork()
            if child == 0:
                note.enqueue("child")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
            release.set()
            thread.join()
            note.enqueue("parent")
            """
        )

        assert notes() == ["child", "parent"]

    def test_a_child_that_only_ends_leaves_the_parents_connections_alone(
        self, run: Callable[[str], str], notes: Callable[[], list[str]]
    ) -> None:
        run(
            """
            import multiprocessing
            def nothing(): ...
            with tq.database.connection() as session:
                for _ in range(5):
                    child = multiprocessing.get_context("fork").Process(target=nothing)
                    child.start()
                    child.join()
                    assert child.exitcode == 0
                    tq.jobs.check_integrity(session)
            note.enqueue("x")
            """
        )

        assert notes() == ["x"]


class TestPool:
    def test_serves_many_threads_with_few_connections(self, dsn: str, notes: Callable[[], list[str]]) -> None:
        failures: list[BaseException] = []
        with TaskQ(dsn, pool_size=2) as tq:
            note = tq.task(name="note")(note_function)
            most = 0

            def run(number: int) -> None:
                nonlocal most
                try:
                    for i in range(10):
                        note.using(timeout=60).enqueue(f"{number} {i}")
                        most = max(most, tq.database.client_pool._count)
                except BaseException as error:
                    failures.append(error)

            threads = [threading.Thread(target=run, args=(number,)) for number in range(12)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        assert failures == []
        assert most <= 2
        assert len(notes()) == 120

    def test_uses_the_connection_that_was_used_last(self, tq: TaskQ) -> None:
        with tq.database.connection() as first, tq.database.connection() as second:
            pids = (first.backend_pid, second.backend_pid)

        with tq.database.connection() as again:
            assert again.backend_pid == pids[0]  # given back last

    def test_closes_what_was_idle_for_long(self, tq: TaskQ, monkeypatch: pytest.MonkeyPatch) -> None:
        with tq.database.connection() as first, tq.database.connection() as second:
            pass
        monkeypatch.setattr(pool_module, "MAX_IDLE", -1.0)

        with tq.database.connection() as again:
            assert again is first
        assert second.closed
        assert tq.database.client_pool._count == 1

    def test_one_dead_connection_is_a_reason_to_look_at_the_others(self, dsn: str, conn: Connection) -> None:
        """After a restart of the server those at the bottom would stay open for minutes, good for nothing."""
        with TaskQ(dsn, pool_size=3) as tq:
            with (
                tq.database.connection() as first,
                tq.database.connection() as second,
                tq.database.connection() as third,
            ):
                pass
            for dead in (first, second):
                conn.execute("select pg_terminate_backend(%s, 10000)", (dead.backend_pid,))

            with tq.database.connection() as again:
                assert again not in (first, second, third)
            assert (first.closed, second.closed, third.closed) == (True, True, False)
            assert tq.database.client_pool._count == 2
            with tq.database.connection(), tq.database.connection() as other:
                assert other is third

    def test_may_be_closed_at_any_time_and_used_again(
        self, tq: TaskQ, notes: Callable[[], list[str]]
    ) -> None:
        note = tq.task(name="note")(note_function)
        with tq.database.connection() as in_use:
            tq.close()
            assert not in_use.closed
            note.enqueue("x")
        assert in_use.closed
        tq.close()
        tq.close()

        note.enqueue("y")

        assert notes() == ["x", "y"]

    def test_a_session_in_a_transaction_is_not_lent_again(self, tq: TaskQ) -> None:
        with tq.database.connection() as session:
            session.connection.execute("begin")

        assert session.closed
        with tq.database.connection() as fresh:
            assert fresh is not session

    def test_gives_the_place_back_when_connecting_fails(self) -> None:
        with TaskQ("host=/nonexistent", pool_size=1) as tq:
            for _ in range(3):
                with pytest.raises(Exception, match="could not connect"):
                    tq.database.connect("x")
                with pytest.raises(Exception, match="could not connect"), tq.database.connection():
                    pass
            assert tq.database.client_pool._count == 0

    def test_a_second_pool_has_its_own_connections(self, tq: TaskQ, conn: Connection) -> None:
        pool = tq.database.pool("taskq-w1-transactions", 1)

        with pool.session(Deadline.after(10)):
            rows = conn.execute(
                "select count(*) from pg_stat_activity where application_name = 'taskq-w1-transactions'"
            ).fetchall()
        pool.close()

        assert rows == [(1,)]


def note_function(text: str) -> None:
    """Does nothing."""
