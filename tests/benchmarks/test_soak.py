"""The soak: it runs, it is the same for the same seed, and its checker finds what is wrong."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from benchmarks.figures import Machine
from benchmarks.soak import checker, command, ledger, mix, schedule
from benchmarks.soak.checker import CHECKS, Findings
from benchmarks.soak.gauge import Gauge, Growth, Usage
from benchmarks.soak.report import Report
from benchmarks.soak.run import is_spared
from benchmarks.soak.schedule import Kill, Restart
from benchmarks.soak.tasks import KINDS, ONCE_TABLE, register
from taskq_sync import TaskQ

Connection = psycopg.Connection[Any]

REPOSITORY = Path(__file__).parents[2]
USED = {"memory", "threads", "descriptors", "sessions"}
KEYS = {
    *CHECKS,
    *USED,
    *("enqueued", "started_twice", "existed", "unknown", "unknown_made", "integrity"),
    *("kills", "restarts", "exits", "seconds", "jobs_per_second", "settled_after"),
    *("seed", "server", "python", "cpus"),
}


def test_loses_nothing_when_workers_are_killed_and_the_server_is_restarted() -> None:
    """As short as it can be: a kill, a restart, and what comes out. How much a young process grows does not matter."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("TASKQ_")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "benchmarks", "soak", "--json", "--minutes", "0.15", "--rate", "30"),
            *("--kill-every", "9", "--restart-every", "9", "--seed", "3", "--max-growth", "1e6"),
        ],
        cwd=REPOSITORY,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures) == KEYS
    assert {name: figures[name] for name in CHECKS} == dict.fromkeys(CHECKS, 0)
    assert figures["integrity"] == []
    assert (figures["kills"], figures["restarts"]) == (1, {"fast": 1})
    assert figures["enqueued"] > 0
    assert figures["settled_after"] is not None
    assert all(set(figures[name]) == {"start", "end", "percent"} for name in USED)


def test_kills_the_same_workers_at_the_same_times_for_the_same_seed() -> None:
    def planned(seed: int) -> list[Kill]:
        return list(schedule.kills(seed, seconds=600, every=20, victims=range(1, 3)))

    assert planned(1) == planned(1) != planned(2)
    assert [kill.worker for kill in planned(1)] == [1, 2] * 15
    assert all(20 * number < kill.at < 20 * (number + 1) for number, kill in enumerate(planned(1)))


def test_restarts_the_server_by_turns_in_good_order_and_as_after_a_crash() -> None:
    planned = list(schedule.restarts(1, seconds=240, every=60))
    assert [restart.immediate for restart in planned] == [False, True, False, True]
    assert all(60 * number < restart.at < 60 * (number + 1) for number, restart in enumerate(planned))
    assert planned == list(schedule.restarts(1, seconds=240, every=60))
    assert isinstance(planned[0], Restart)


def test_gives_the_same_jobs_for_the_same_seed_and_all_kinds_of_them() -> None:
    def made(seed: int) -> list[mix.Order]:
        return list(itertools.islice(mix.orders(seed, register(TaskQ("postgresql://nowhere"))), 2000))

    assert made(1) == made(1) != made(2)
    requests = [order.request for order in made(1)]
    assert {request.task for request in requests} == {kind.name for kind in KINDS}
    assert any(request.options.concurrency_key for request in requests)
    assert any(request.options.unique_key for request in requests)
    seconds = [json.loads(request.payload_json)["seconds"] for request in requests]
    assert 1 < max(seconds) <= 5
    assert sum(seconds) / len(seconds) < 0.06  # three workers with 8 slots have room for 200 jobs/s


def test_compares_medians_of_an_early_and_a_late_window_and_of_the_sessions_the_mean() -> None:
    gauge = Gauge("postgresql://nowhere")
    samples = ((0, 10.0, 0), (10, 40.0, 18), (12, 50.0, 18), (15, 90.0, 12), (20, 200.0, 0), (30, 55.0, 16))
    for at, memory, sessions in samples:
        usage = Usage(memory=memory, threads=5, descriptors=7, sessions=sessions)
        gauge._samples.append((at, usage))
    growth = gauge.growth((10, 15), (30, 35))
    assert growth["memory"] == Growth(start=50.0, end=55.0, percent=10.0)
    assert growth["threads"].percent == 0
    assert growth["sessions"] == Growth(start=16.0, end=16.0, percent=0.0)


# The checker


class Queue:
    """A database with a job or two that went through the hands of a worker."""

    def __init__(self, conn: Connection, folder: Path) -> None:
        self.conn = conn
        self.folder = folder
        self.made: list[int] = []
        conn.execute("create schema soak")
        conn.execute(ONCE_TABLE)

    def run(self, task: str, settle: str | None = "complete", **payload: object) -> tuple[int, int]:
        """Enqueue a job, start it and settle it by a function of the contract; return its id and its fence."""
        [(job_id,)] = self.conn.execute(
            "select job_id from taskq.enqueue('soak', %s, %s)", (task, json.dumps(payload))
        ).fetchall()
        self.made.append(job_id)
        [(fence,)] = self.conn.execute("select attempt_id from taskq.claim(array['soak'], 'w')").fetchall()
        self.start(job_id, fence)
        calls = {
            "complete": "select taskq.complete(%(job)s, %(fence)s, to_jsonb(%(fence)s))",
            "fail": "select taskq.fail(%(job)s, %(fence)s, 'error', false)",
            "retry": "select taskq.fail(%(job)s, %(fence)s, 'error', true, interval '0')",
            "cancel": "select taskq.cancel_attempt(%(job)s, %(fence)s)",
        }
        if settle is not None:
            self.conn.execute(calls[settle].encode(), {"job": job_id, "fence": fence})
        return job_id, fence

    def start(self, job_id: int, fence: int) -> None:
        """What a handler writes."""
        with (self.folder / "ledger").open("a") as file:
            file.write(f"{job_id}\t{fence}\n")

    def check(self) -> Findings:
        """Do what a run does at its end."""
        ledger.load(self.conn, self.folder / "ledger")
        return checker.check(self.conn, made=self.made, unknown=[5])


@pytest.fixture
def queue(conn: Connection, tmp_path: Path) -> Queue:
    return Queue(conn, tmp_path)


@pytest.mark.own_database
def test_finds_nothing_when_all_jobs_ended_as_they_were_asked(queue: Queue) -> None:
    for kind in KINDS:
        job_id, fence = queue.run(
            kind.name, {"succeeded": "complete", "failed": "fail", "cancelled": "cancel"}[kind.ends]
        )
        if kind.name == "soak.transaction":
            queue.conn.execute("insert into soak.once values (%s, %s)", (job_id, fence))
        queue.conn.execute(
            "update taskq.jobs set payload = jsonb_build_object('number', %s::int) where id = %s",
            (job_id, job_id),
        )
    assert queue.check() == Findings(
        wrong={name: [] for name in CHECKS}, stories=[], started_twice=0, integrity=[], unknown_made=1
    )


@pytest.mark.own_database
def test_counts_a_job_that_was_taken_back_and_started_again(queue: Queue) -> None:
    """No fault: a job runs at least once."""
    job_id, _ = queue.run("soak.value", settle=None)
    queue.conn.execute("update taskq.running set lease_expires_at = taskq.clock()")
    queue.conn.execute("select taskq.take_back()")
    [(fence,)] = queue.conn.execute("select attempt_id from taskq.claim(array['soak'], 'w')").fetchall()
    queue.start(job_id, fence)
    queue.conn.execute("select taskq.complete(%s, %s, to_jsonb(%s::bigint))", (job_id, fence, fence))
    found = queue.check()
    assert found.started_twice == 1
    assert not any(found.wrong.values())


def _vanished(queue: Queue) -> None:
    queue.run("soak.value")
    queue.conn.execute("delete from taskq.jobs")
    queue.conn.execute("delete from taskq.finished")


def _still_running(queue: Queue) -> None:
    queue.run("soak.value", settle=None)


def _completed_without_its_row(queue: Queue) -> None:
    queue.run("soak.transaction")


def _row_twice(queue: Queue) -> None:
    job_id, fence = queue.run("soak.transaction")
    for _ in range(2):
        queue.conn.execute("insert into soak.once values (%s, %s)", (job_id, fence))


def _row_of_another_attempt(queue: Queue) -> None:
    job_id, fence = queue.run("soak.transaction")
    queue.conn.execute("insert into soak.once values (%s, %s)", (job_id, fence + 1))


def _result_of_another_attempt(queue: Queue) -> None:
    _, fence = queue.run("soak.value")
    queue.conn.execute("update taskq.finished set result = to_jsonb(%s::bigint)", (fence + 1,))


def _ended_by_two_attempts(queue: Queue) -> None:
    job_id, _ = queue.run("soak.value", settle="retry")
    queue.conn.execute("update taskq.attempts set status = 'succeeded'")
    [(fence,)] = queue.conn.execute("select attempt_id from taskq.claim(array['soak'], 'w')").fetchall()
    queue.start(job_id, fence)
    queue.conn.execute("select taskq.complete(%s, %s, to_jsonb(%s::bigint))", (job_id, fence, fence))


def _failed(queue: Queue) -> None:
    queue.run("soak.value", settle="fail")


def _cancelled(queue: Queue) -> None:
    queue.run("soak.value", settle="cancel")


def _succeeded(queue: Queue) -> None:
    queue.run("soak.gives_up")


def _attempt_twice(queue: Queue) -> None:
    queue.start(*queue.run("soak.value"))


def _unknown_attempt(queue: Queue) -> None:
    job_id, fence = queue.run("soak.value")
    queue.start(job_id, fence + 1)


def _no_start(queue: Queue) -> None:
    queue.run("soak.value")
    (queue.folder / "ledger").unlink()


def _same_number_twice(queue: Queue) -> None:
    for _ in range(2):
        queue.run("soak.value", number=7)


@pytest.mark.own_database
@pytest.mark.broken_integrity
@pytest.mark.parametrize(
    ("happen", "name"),
    [
        (_vanished, "lost"),
        (_still_running, "lost"),
        (_completed_without_its_row, "lost"),
        (_row_twice, "settled_twice"),
        (_row_of_another_attempt, "settled_twice"),
        (_result_of_another_attempt, "settled_twice"),
        (_ended_by_two_attempts, "settled_twice"),
        (_failed, "failed_unasked"),
        (_cancelled, "ended_otherwise"),
        (_succeeded, "ended_otherwise"),
        (_attempt_twice, "attempt_started_twice"),
        (_unknown_attempt, "off_the_record"),
        (_no_start, "never_started"),
        (_same_number_twice, "enqueued_twice"),
    ],
)
def test_finds_what_is_wrong(queue: Queue, happen: Callable[[Queue], None], name: str) -> None:
    happen(queue)
    found = queue.check()
    assert len(found.wrong[name]) == 1
    assert found.stories


@pytest.mark.own_database
def test_spares_a_worker_with_a_job_that_was_killed_twice(queue: Queue, dsn: str) -> None:
    queue.run("soak.value", settle=None)
    queue.conn.execute("update taskq.running set worker_id = 'some-host-77-1f', expiry_streak = 1")
    assert not is_spared(dsn, 77)
    queue.conn.execute("update taskq.running set expiry_streak = 2")
    assert is_spared(dsn, 77)
    assert not is_spared(dsn, 7)


# The report


def _report(**changes: Any) -> Report:
    findings: dict[str, Any] = {
        "wrong": {**{name: [] for name in CHECKS}, **changes.pop("wrong", {})},
        "stories": [],
        "started_twice": 3,
        "integrity": [],
        "unknown_made": 0,
    }
    values: dict[str, Any] = {
        "machine": Machine(server="18.1", python="3.13.0", cpus=2),
        "seed": 1,
        "seconds": 60.0,
        "settled_after": 1.0,
        "enqueued": 12000,
        "existed": 0,
        "unknown": 1,
        "growth": {"memory": Growth.of(50.0, 52.0)},
        "kills": 3,
        "restarts": {"fast": 1},
        "exits": {-9: 3, 0: 3, 69: 1},
    }
    findings |= {name: changes.pop(name) for name in list(changes) if name in findings}
    return Report(findings=Findings(**findings), **{**values, **changes})


def test_a_run_in_which_jobs_were_started_twice_is_good() -> None:
    assert list(_report().problems(5)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wrong": {"lost": [7, 8]}}, "lost is 2: jobs 7, 8"),
        ({"integrity": ["job 7 stands in no place"]}, "check_integrity(): job 7 stands in no place"),
        ({"growth": {"memory": Growth.of(50.0, 53.0)}}, "memory has grown from 50.0 to 53.0, by 6.0 %"),
        ({"exits": {1: 2}}, "a worker ended by itself with exit code 1, 2 times"),
    ],
)
def test_says_what_is_wrong(changes: dict[str, Any], said: str) -> None:
    assert list(_report(**changes).problems(5)) == [said]


@pytest.mark.parametrize(
    ("report", "code", "said"),
    [(_report(), 0, ""), (_report(wrong={"lost": [7]}), 1, "wrong: lost is 1: jobs 7\n")],
)
def test_the_command_fails_and_keeps_the_logs_when_something_is_wrong(
    report: Report, code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(command, "_run", lambda plan, dsn, folder: report)
    result = CliRunner().invoke(command.soak, ["--minutes", "1"])
    assert result.exit_code == code
    assert result.stderr.endswith(said)
    assert len(list(tmp_path.iterdir())) == code
