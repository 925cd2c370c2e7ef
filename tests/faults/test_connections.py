"""What workers and clients do when the database goes away, is cut off, is read-only, or ends their sessions."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from psycopg import conninfo

from faults.lab import LEASE, SLACK, SWEEP, Lab
from faults.server import FaultServer
from taskq_sync import OutcomeUnknown, TaskQ

#: What the server and the sessions say when somebody ends them, or the server itself.
ENDED = {"57P01", "57P02", "57P03"}

#: Seconds after the return of the server in which a worker serves again.
BACK = 5.0


def test_worker_goes_on_after_its_sessions_were_ended_and_after_an_outage(lab: Lab) -> None:
    # B13
    lab.asked_for |= ENDED
    lab.may_be_unstarted = 4  # of a claim whose answer was lost
    jobs = lab.enqueue_many(lab.count(100, short=40), "nap", {"seconds": 0.2})
    worker = lab.worker()
    for _ in range(lab.count(10, short=3)):
        lab.server.terminate(worker.worker_id[-30:])
        time.sleep(lab.span(3, short=0.5))
    with lab.server.down():
        time.sleep(lab.span(30, short=2))
    back = time.monotonic()
    later = lab.enqueue("nap")
    lab.wait_until_ended(later, timeout=BACK + SLACK)
    took = time.monotonic() - back
    lab.wait_until_ended(*jobs, timeout=60)

    assert took < BACK + SLACK
    assert set(lab.outcomes(*jobs)) == {("succeeded", "success")}
    assert worker.code is None
    assert 1 <= len(worker.lines("running -> degraded")) == len(worker.lines("degraded -> running"))
    # one line per change of state and part, not one per failed call
    assert len(worker.text.splitlines()) < 20 + 8 * (1 + lab.count(10, short=3))


def test_worker_survives_the_end_of_each_session_alone(lab: Lab) -> None:
    # B15
    worker = lab.worker()
    for part in ("claimer", "settler", "heartbeat", "housekeeper", "listener"):
        job = lab.enqueue("nap", {"seconds": 1.5 * LEASE if part == "heartbeat" else 1.0})
        lab.wait_for_starts(job)
        lab.end_sessions(f"-{part}")
        lab.wait_until_ended(job, timeout=2 * LEASE + SLACK)
        assert len(lab.starts(job)) == 1, part
    assert worker.code is None


def test_listener_listens_again_and_finds_what_came_in_the_gap(lab: Lab) -> None:
    # B14
    lab.asked_for |= ENDED
    worker = lab.worker("--poll-interval", "60s")
    worker.wait_for("listening for notifications")
    lab.server.terminate("-listener")
    first = lab.enqueue("nap")  # most likely before it listens again
    lab.wait_until_ended(first, timeout=2 + SLACK)
    worker.wait_for("listening for notifications", times=2)
    assert worker.cpu_share(2) < 0.05
    with lab.server.down():
        time.sleep(lab.span(20, short=1))
    second = lab.enqueue("nap")
    lab.wait_until_ended(second, timeout=2 + SLACK)
    worker.wait_for("listening for notifications", times=3)

    assert worker.cpu_share(2) < 0.05
    assert len(worker.lines("listening for notifications")) == 3
    assert len(worker.lines("no notifications")) == 2


def test_outage_of_several_leases_costs_a_live_owner_nothing(lab: Lab) -> None:
    # B16
    lab.asked_for |= ENDED
    outage = lab.span(45, short=3 * LEASE)
    proxy = lab.proxy()
    worker = lab.worker(dsn=proxy.dsn, slots=2)
    ends_in_time = lab.enqueue("nap", {"seconds": 2.0}, max_attempts=1)
    ends_later = lab.enqueue("nap", {"seconds": outage + 2}, max_attempts=1)
    lab.wait_for_starts(ends_in_time, ends_later)
    waiting = lab.enqueue_many(5, "nap")
    with proxy.refusing():
        time.sleep(outage)
    lab.wait_until_ended(timeout=outage + BACK + SLACK)

    assert set(lab.outcomes()) == {("succeeded", "success")}
    assert [lab.job(job)["failure_count"] for job in (ends_in_time, ends_later)] == [0, 0]
    assert [len(lab.starts(job)) for job in (ends_in_time, ends_later, *waiting)] == [1] * 7
    assert len(worker.lines("running -> degraded")) == 1


def test_others_take_back_after_an_outage_only_what_no_owner_wants(lab: Lab) -> None:
    # B16
    lab.asked_for |= ENDED
    dead = lab.worker(slots=1)
    orphan = lab.enqueue("nap", {"seconds": 600})
    lab.wait_for_starts(orphan)
    alive = lab.worker(slots=2)
    outage = lab.span(45, short=LEASE + 1)
    owned = lab.enqueue("nap", {"seconds": outage + LEASE / 2}, max_attempts=1)
    lab.wait_for_starts(owned)
    other = lab.worker(slots=2)
    with lab.server.down():
        dead.kill()
        time.sleep(outage)
    lab.wait_until_ended(timeout=outage + 3 * LEASE + BACK + SLACK)

    assert set(lab.outcomes()) == {("succeeded", "success")}
    assert (len(lab.starts(owned)), len(lab.starts(orphan))) == (1, 2)
    assert (alive.code, other.code) == (None, None)


def test_worker_lets_go_of_a_primary_that_has_become_read_only(lab: Lab) -> None:
    # B17
    lab.asked_for |= {"25006"}
    worker = lab.worker()
    running = lab.enqueue_many(3, "nap", {"seconds": 1.0})
    lab.wait_for_starts(*running)
    with lab.server.read_only():
        worker.wait_for("running -> degraded")
        time.sleep(lab.span(15, short=1))
    later = lab.enqueue("nap")
    lab.wait_until_ended(later, *running, timeout=BACK + SLACK)

    assert [len(lab.starts(job)) for job in running] == [1, 1, 1]
    assert worker.lines("25006|read-only")


def test_start_against_a_standby_ends_with_one_clear_line_unless_a_primary_is_named_too(
    lab: Lab, tmp_path: Path
) -> None:
    # B17
    primary = conninfo.conninfo_to_dict(lab.dsn)
    standby = FaultServer(lab.server.folder.parent / f"standby-{tmp_path.name}")
    standby.start()
    with standby.database(str(primary["dbname"])) as dsn, standby.as_standby():
        refused = lab.start_worker(dsn=dsn)
        assert refused.wait() == 69
        hosts = f"{conninfo.conninfo_to_dict(dsn)['host']},{primary['host']}"
        lab.worker(dsn=conninfo.make_conninfo(dsn, host=hosts, target_session_attrs="read-write"))
        job = lab.enqueue("nap")
        lab.wait_until_ended(job)
    standby.stop()

    assert refused.lines("read-only|recovery")
    assert "Traceback" not in refused.text


@pytest.mark.parametrize("moment", ["before", "after"])
def test_pass_that_breaks_off_strands_nobody(lab: Lab, moment: str) -> None:
    # B18
    number = lab.count(30, short=4)
    owner = lab.worker(slots=number)
    jobs = lab.enqueue_many(number, "nap", {"seconds": 60, "again": 0})
    lab.wait_for_starts(*jobs)
    proxy = lab.proxy()
    lab.worker(dsn=proxy.dsn)
    owner.kill()
    lab.until(
        lambda: lab.sql.value(
            "select min(lease_expires_at) < taskq.clock() + interval '0.3 s' from taskq.running"
        ),
        "",
    )
    trap = proxy.cut_before("take_back") if moment == "before" else proxy.cut_after("take_back")
    trap.wait()
    # each of them is a suspect now, and runs in a child process of its own: that is a start of Python for each
    lab.wait_until_ended(*jobs, timeout=2 * SWEEP + LEASE + SLACK + 3 * len(jobs))

    assert [len(lab.starts(job)) for job in jobs] == [2] * len(jobs)


def test_handlers_that_keep_all_connections_keep_no_beat_waiting(lab: Lab) -> None:
    # B19
    seconds = lab.span(15, short=1.5 * LEASE)
    jobs = lab.enqueue_many(2, "keep_connections", {"seconds": seconds})
    more = lab.enqueue_many(4, "transact", {"seconds": seconds})
    lab.sql.run("create table effects (job_id bigint, fence bigint)")
    lab.worker(slots=8)
    lab.wait_for_starts(*jobs, *more)
    lab.worker()
    lab.wait_until_ended(*jobs, *more, timeout=3 * seconds + SLACK)

    assert [len(lab.starts(job)) for job in jobs + more] == [1] * 6


def test_nobody_is_idle_in_a_transaction(lab: Lab) -> None:
    # B23; the watch looks all the time
    dsn = lab.role(idle_in_transaction_session_timeout="1s")
    lab.worker(dsn=dsn)
    jobs = lab.enqueue_many(10, "nap", {"seconds": lab.span(20, short=1)})
    lab.worker(dsn=dsn, slots=10)
    lab.wait_until_ended(*jobs, timeout=60)
    with TaskQ(dsn) as tq:
        assert tq.get(jobs[0]).status == "succeeded"
        time.sleep(lab.span(40, short=2))


def test_enqueue_after_its_connection_was_ended_works_by_itself(lab: Lab) -> None:
    # B24
    lab.asked_for |= {"57P01"}
    with TaskQ(lab.dsn) as tq:
        nap = tq.task(queue="q", name="nap")(lambda: None)
        first = nap.enqueue()
        lab.end_sessions("taskq-client")
        second = nap.enqueue()
        lab.enqueued += [first.job_id, second.job_id]
    assert first.job_id < second.job_id


@pytest.mark.parametrize("unique_key", [None, "u"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_enqueue_whose_link_breaks_is_never_doubled(lab: Lab, moment: str, unique_key: str | None) -> None:
    # B24
    proxy = lab.proxy()
    with TaskQ(proxy.dsn) as tq:
        nap = tq.task(queue="q", name="nap")(lambda: None).using(unique_key=unique_key)
        trap = proxy.cut_after("enqueue") if moment == "after" else proxy.cut_before("enqueue")
        if unique_key is None:
            with pytest.raises(OutcomeUnknown):
                nap.enqueue()
        else:
            nap.enqueue()
        assert trap.sprung
    found = lab.sql.value("select count(*) from taskq.jobs")

    assert found == (0 if (moment, unique_key) == ("before", None) else 1)
