"""Signals: what a worker finishes, what it hands back, and with which exit code it ends."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time

import pytest

from faults.lab import SLACK, Lab
from kit.workers import WorkerThread
from taskq_sync import TaskQ
from taskq_sync.worker.signals import SAME_WITHIN


def test_soft_stop_finishes_what_ends_in_time_and_hands_the_rest_back(lab: Lab) -> None:
    # B70
    drain = lab.span(5, short=2.5)
    short = lab.enqueue("nap", {"seconds": drain - 1.5})
    long = lab.enqueue("nap", {"seconds": 20, "again": 0})
    worker = lab.worker("--soft-stop-timeout", f"{drain}s")
    lab.wait_for_starts(short, long)
    later = lab.enqueue_many(3, "nap", queue="elsewhere")
    began = time.monotonic()
    worker.terminate()
    code = worker.wait(drain + SLACK)
    took = time.monotonic() - began

    assert code == 3
    assert drain <= took < drain + SLACK
    assert lab.outcomes(short) == [("succeeded", "success")]
    [attempt] = lab.history(long)
    assert (attempt["verb"], attempt["reason"]) == ("release", "worker_shutdown")
    assert lab.job(long)["failure_count"] == 0
    assert worker.lines("waiting up to")
    assert [status for status, _ in lab.outcomes(*later)] == ["queued"] * 3


@pytest.mark.parametrize("signals", [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM)])
def test_second_signal_does_not_wait(lab: Lab, signals: tuple[signal.Signals, signal.Signals]) -> None:
    # B70
    jobs = lab.enqueue_many(2, "nap", {"seconds": 60, "again": 0})
    worker = lab.worker()
    lab.wait_for_starts(*jobs)
    worker.send(signals[0])
    worker.wait_for("-> stopping")
    if signals[0] == signals[1]:
        time.sleep(SAME_WITHIN + 0.1)
    began = time.monotonic()
    worker.send(signals[1])
    code = worker.wait(SLACK)

    assert code == 3
    assert time.monotonic() - began < 3 + SLACK / 2
    assert [each["verb"] for job in jobs for each in lab.history(job)] == ["release"] * 2


def test_signal_at_any_moment_of_idling_and_claiming_leaves_no_job_running(lab: Lab) -> None:
    # B70
    for _ in range(lab.count(200, short=4)):
        worker = lab.start_worker()
        worker.wait_until_ready()
        lab.enqueue_many(5, "nap")
        time.sleep(random.uniform(0, 0.05))
        assert lab.stop(worker) == 0
        assert lab.sql.value("select count(*) from taskq.running") == 0
    lab.worker()
    lab.wait_until_ended()


def test_signal_before_the_worker_has_started_ends_it_too(lab: Lab) -> None:
    # B70
    for _ in range(lab.count(50, short=3)):
        worker = lab.start_worker()
        time.sleep(random.uniform(0.2, 1.2))
        worker.terminate()
        assert worker.wait(SLACK) in (0, -signal.SIGTERM)
        lab.excuse(worker)


def test_signal_during_an_outage_ends_the_worker(lab: Lab) -> None:
    # B70
    proxy = lab.proxy()
    job = lab.enqueue("nap", {"seconds": 60, "again": 0})
    worker = lab.worker("--soft-stop-timeout", "1s", dsn=proxy.dsn)
    lab.wait_for_starts(job)
    with proxy.refusing():
        worker.wait_for("-> degraded")
        worker.terminate()
        code = worker.wait(10 + SLACK)
    assert code == 1
    lab.worker()
    lab.wait_until_ended(job)
    assert [each["verb"] for each in lab.history(job)] == ["take_back", "complete"]


def test_worker_in_another_thread_is_stopped_by_a_call(lab: Lab) -> None:
    # B70
    with TaskQ(lab.dsn) as tq:
        done = []
        noted = tq.task(queue="t", name="noted")(lambda: done.append(1))
        worker = WorkerThread(tq, slots=1).start()
        noted.enqueue()
        lab.until(lambda: done, "the job is run")
        code = worker.stop()
        lab.sql.run("delete from taskq.jobs")
        lab.sql.run("delete from taskq.finished")
    assert code == 0


def test_first_process_of_a_container_hears_signals(lab: Lab) -> None:
    # B69
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a namespace of processes needs unshare and root")
    inside = lab.worker(before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"))
    job = lab.enqueue("nap", {"seconds": 2})
    lab.wait_for_starts(job)
    began = time.monotonic()
    os.kill(inside.children()[0], signal.SIGTERM)  # as docker does; unshare itself would not pass it on

    assert inside.wait(2 + SLACK) == 0
    assert time.monotonic() - began < 2 + SLACK
    assert lab.outcomes(job) == [("succeeded", "success")]
    lab.excuse(inside)


def test_shell_that_hands_over_passes_the_signal_on(lab: Lab) -> None:
    # B69
    worker = lab.worker(before=("sh", "-c", 'exec "$@"', "sh"))
    job = lab.enqueue("nap", {"seconds": 1})
    lab.wait_for_starts(job)

    assert lab.stop(worker) == 0
    assert lab.outcomes(job) == [("succeeded", "success")]


def test_interrupt_of_the_whole_group_finishes_jobs_and_their_own_processes_decide(lab: Lab) -> None:
    # B69
    worker = lab.worker()
    plain = lab.enqueue("nap", {"seconds": 1})
    shelling = lab.enqueue("run_program", {"seconds": 1}, max_attempts=1)
    lab.wait_for_starts(plain, shelling)
    lab.until(lambda: worker.children(), "the handler has started its program")
    os.killpg(worker.pid, signal.SIGINT)
    code = worker.wait(SLACK)

    # a program that shares the group of the worker gets the signal too: the handler sees it end by it
    assert code == 0
    assert lab.outcomes(plain) == [("succeeded", "success")]
    assert lab.job(shelling)["result"] == -signal.SIGINT
    lab.excuse(worker)
