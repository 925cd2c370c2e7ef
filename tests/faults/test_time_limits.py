"""Time limits: what is broken off, what cannot be, and that as many slots serve afterwards as before."""

from __future__ import annotations

import signal

from faults.lab import SLACK, Lab
from faults.process import is_alive
from kit.waiting import eventually

HARD = ["sleep", "silent peer", "raises while it ends", "swallows everything", "computes"]


def all_slots_serve(lab: Lab, slots: int) -> None:
    """See that so many jobs run at the same time."""
    jobs = lab.enqueue_many(slots, "nap", {"seconds": 1.5})
    lab.wait_until_ended(*jobs)
    starts = lab.starts(*jobs)
    assert max(each.started_at for each in starts) < min(each.ended_at for each in starts)


def test_slots_serve_after_handlers_that_are_hard_to_break_off(lab: Lab) -> None:
    # B67
    worker = lab.worker("--stop-grace", "1s", slots=4)
    jobs = {lab.enqueue("limited", {"how": how, "seconds": 5.0}, max_attempts=1): how for how in HARD}
    lab.wait_until_ended(*jobs, timeout=60)
    all_slots_serve(lab, 4)

    for job, how in jobs.items():
        [attempt] = lab.history(job)
        assert attempt["verb"] in ("fail", "complete"), how
        if how == "computes":  # in Python code it is broken off at once
            assert "JobTimeout" in lab.job(job)["error"]
            assert lab.starts(job)[0].seconds < 1 + SLACK / 2
    assert worker.lines("does not end after its time limit; its thread is given up")
    assert not worker.lines("died")


def test_handler_that_ends_just_at_its_limit_is_recorded_once_either_way(lab: Lab) -> None:
    # B67
    worker = lab.worker(slots=4)
    number = lab.count(500, short=12)
    jobs = [
        lab.enqueue("limited", {"how": "computes", "seconds": 0.98 + 0.04 * each / number}, max_attempts=1)
        for each in range(number)
    ]
    lab.wait_until_ended(*jobs, timeout=number + SLACK)
    all_slots_serve(lab, 4)

    assert all(len(lab.history(job)) == 1 for job in jobs)
    assert {status for status, _ in lab.outcomes(*jobs)} <= {"succeeded", "failed"}
    assert all("JobTimeout" in lab.job(job)["error"] for job in jobs if lab.job(job)["error"])
    assert not worker.lines("died|CRITICAL")


def test_too_many_stuck_threads_end_the_worker_for_its_supervisor(lab: Lab) -> None:
    # B67
    worker = lab.worker("--stop-grace", "200ms", "--max-stuck", "1", slots=2)
    jobs = lab.enqueue_many(2, "limited", {"how": "swallows everything", "seconds": 30.0}, max_attempts=3)
    code = worker.wait(1 + SLACK + 4)

    assert code == 3
    assert [each["reason"] for job in jobs for each in lab.history(job)] == ["worker_shutdown"] * 2


def test_child_processes_are_killed_at_their_limit(lab: Lab) -> None:
    # B67
    lab.worker("--stop-grace", "500ms", slots=4)
    jobs = [lab.enqueue("limited_process", {"how": how, "seconds": 30.0}, max_attempts=1) for how in HARD]
    lab.wait_until_ended(*jobs, timeout=60)

    for job in jobs:
        assert lab.outcomes(job) == [("failed", "retry_exhausted")]
        assert not is_alive(lab.starts(job)[0].pid)
    all_slots_serve(lab, 4)


def test_death_of_a_child_process_is_a_failed_attempt_that_says_so(lab: Lab) -> None:
    # B67
    worker = lab.worker()
    deaths = {
        lab.enqueue("kill_own_process", {"number": int(number)}, max_attempts=1): number
        for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)
    }
    lab.wait_until_ended(*deaths)

    assert lab.outcomes(*deaths) == [("failed", "retry_exhausted")] * 3
    for job, number in deaths.items():
        assert number.name in lab.job(job)["error"]
    assert worker.code is None


def test_child_processes_end_with_a_worker_that_is_killed(lab: Lab) -> None:
    # B67
    worker = lab.worker(slots=2)
    jobs = lab.enqueue_many(
        2, "limited_process", {"how": "swallows everything", "seconds": 60.0}, max_attempts=1
    )
    lab.wait_for_starts(*jobs)
    children = worker.children()
    worker.kill()
    eventually(lambda: not any(map(is_alive, children)), "the children end", timeout=SLACK)

    assert len(children) == 2
