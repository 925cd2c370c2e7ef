"""Whatever a handler raises ends its attempt, and neither its thread nor the worker."""

from __future__ import annotations

from faults.lab import RECOVERY, SLACK, Lab
from faults.tasks import RAISED


def test_nothing_a_handler_raises_ends_a_slot_or_makes_it_spin(lab: Lab) -> None:
    # B66, B68
    worker = lab.worker(slots=4)
    thrown = {lab.enqueue("throw", {"what": what}, max_attempts=1): what for what in RAISED}
    lab.wait_until_ended(*thrown)
    plain = lab.enqueue_many(lab.count(40, short=12), "nap", {"seconds": 0.05})
    lab.wait_until_ended(*plain)

    for job, what in thrown.items():
        found = lab.job(job)
        assert (found["status"], found["outcome"]) == ("failed", "retry_exhausted"), what
        assert type(RAISED[what]).__name__ in found["error"], what
        assert len(lab.starts(job)) == 1
    assert worker.cpu_share(1.5) < 0.1
    assert not worker.lines("degraded|died")


def test_handlers_that_raise_leave_all_slots_serving(lab: Lab) -> None:
    # B66
    lab.worker(slots=4)
    thrown = lab.enqueue_many(8, "throw", {"what": "SystemExit(0)"}, max_attempts=1)
    lab.wait_until_ended(*thrown)
    together = lab.enqueue_many(4, "nap", {"seconds": 1.5})
    lab.wait_until_ended(*together)

    starts = lab.starts(*together)
    assert max(each.started_at for each in starts) < min(each.ended_at for each in starts)


def test_handler_that_leaves_the_process_is_found_by_its_lease(lab: Lab) -> None:
    # B66
    first = lab.worker()
    job = lab.enqueue("leave", {"code": 3})
    lab.until(lambda: first.code is not None, "the process is gone")
    lab.worker()
    lab.wait_until_ended(job, timeout=RECOVERY + SLACK)

    assert first.code == 3
    assert lab.job(job)["result"] == 2
    assert lab.job(job)["failure_count"] == 1


def test_expected_duplicate_is_an_answer_and_no_error_in_the_log_of_the_server(lab: Lab) -> None:
    # B33; that the log has no error is checked at the end of every scenario
    lab.sql.pause_queue(queue="paused", actor="test", reason="a copy is always waiting")
    worker = lab.worker(queues="q,paused")
    ticks = lab.enqueue_many(lab.count(30, short=12), "tick")
    lab.wait_until_ended(*ticks)

    answers = sorted(lab.job(tick)["result"] for tick in ticks)
    assert answers == ["created"] + ["existed"] * (len(ticks) - 1)
    assert (
        lab.sql.value("select count(*) from taskq.job_view where task = 'nightly' and status = 'queued'") == 1
    )
    assert not worker.lines("degraded|died|rror")
