"""Sessions that call the contract at random, side by side; `stress.py` runs the same for longer, by hand.

`TASKQ_STRESS_SECONDS` makes it longer, `TASKQ_STRESS_SEED` repeats the choices of a run that failed.
"""

# Scenarios B38, B40, B41, B48.

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable

import pytest

from kit.contract import Connection
from races.sessions import Session
from races.stress.__main__ import main
from races.stress.caller import Mix
from races.stress.run import Stress
from races.stress.watch import Watch

MIXES = {
    "many jobs": Mix(),
    "twenty jobs": Mix(live=20),
    "long batches of the same keys": Mix(live=200, rows=200, unique=1.0),
}


@pytest.mark.own_database
@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_random_sessions_are_told_nothing_that_cannot_be(
    mix: Mix, dsn: str, record_property: Callable[..., None]
) -> None:
    seed = int(os.environ.get("TASKQ_STRESS_SEED", random.SystemRandom().randrange(10**6)))
    record_property("seed", seed)

    report = Stress(
        dsn,
        seconds=float(os.environ.get("TASKQ_STRESS_SECONDS", "10" if mix.unique < 1 else "5")),
        sessions=8,
        seed=seed,
        calls=20_000,
        mix=mix,
    ).run()

    assert not report.findings, str(report)
    happened = [
        "claims",
        "claims with a key",
        "complete: ok succeeded",
        "samples",
        "transactions rolled back",
    ]
    assert all(report.figures.get(each) for each in happened), str(report)


@pytest.mark.own_database
def test_run_by_hand_prints_its_seed_and_figures_and_is_bounded_by_calls(
    dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dsn", dsn, "--seconds", "60", "--sessions", "2", "--seed", "7", "--calls", "20"]) == 0

    printed = capsys.readouterr().out
    assert printed.startswith("seed 7\n")
    assert " calls\n" in printed
    assert " 0 deadlocks (40P01)\n" in printed
    assert " 0 serialization errors (40001)\n" in printed


def test_refuses_a_database_with_jobs_in_it(dsn: str, one: Session) -> None:
    one.new_job()

    with pytest.raises(SystemExit, match="needs one of its own"):
        main(["--dsn", dsn, "--seconds", "1"])


@pytest.fixture
def watch(connect: Callable[..., Connection]) -> Watch:
    return Watch(connect(), {"one": 1})


def test_watch_finds_nothing_in_order(watch: Watch, one: Session) -> None:
    one.new_attempt(concurrency_key="one")
    one.new_job(concurrency_key="one")
    assert one.claim(queues=["q"], worker_id="w") == []

    watch.look()
    watch.look()

    assert watch.findings == []
    assert watch.figures["samples of a key with jobs on hold"] == 2


def test_watch_finds_a_stuck_key_at_the_second_look(watch: Watch, one: Session) -> None:
    attempt = one.new_attempt(concurrency_key="one")
    one.new_job(concurrency_key="one")
    assert one.claim(queues=["q"], worker_id="w") == []
    one.settle_one(attempt, "complete")
    one.run("delete from taskq.signals")

    watch.look()
    assert watch.findings == []
    watch.look()

    assert watch.findings == ["key one is stuck: 1 jobs on hold, room for 1, no signal"]


def test_watch_finds_a_key_over_its_limit(watch: Watch, one: Session) -> None:
    one.new_attempt(concurrency_key="one")
    other = one.new_attempt()
    one.run("update taskq.running set concurrency_key = 'one' where id = %s", other["job_id"])

    watch.look()

    assert watch.findings == ["2 jobs of key one run, 1 may"]


def test_watch_finds_an_ordered_job_that_does_not_wait_for_an_older_one(watch: Watch, one: Session) -> None:
    first, second = (one.new_job(concurrency_key="two", ordered=True) for _ in range(2))
    one.run("update taskq.ready set hold = null where id = %s", second)
    one.run("delete from taskq.signals")
    assert one.take()["job_id"] == second

    watch.look()

    assert watch.findings == [f"ordered job {second} runs, and so does or waits job {first} of its key"]


@pytest.mark.broken_integrity
def test_watch_finds_a_job_in_two_places_and_ends(watch: Watch, one: Session) -> None:
    attempt = one.new_attempt()
    one.run(
        "insert into taskq.ready (id, queue, task, priority, scheduled_at) values (%s, 'q', 't', 0, now())",
        attempt["job_id"],
    )

    watch.run(threading.Event())

    assert watch.findings == [
        f"check_integrity(): job {attempt['job_id']} stands in several places: ready, running"
    ]


def test_watch_finds_a_beat_that_waits(watch: Watch, one: Session, two: Session) -> None:
    attempt = one.new_attempt()

    with one.transaction():
        one.row_locked_by_hand("running", attempt["job_id"])
        two.waiting("rows", behind=one, query="select /* taskq.heartbeat */ id from taskq.running for update")
        watch.look()

    assert len(watch.findings) == 1
    assert watch.findings[0].startswith("a session waits for a lock: select /* ")
