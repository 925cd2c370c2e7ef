"""A worker serves, or has ended with a code that is not 0; there is nothing between. So does a supervisor."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from functools import partial
from typing import Any

import pytest

from faults import injection
from faults.lab import LEASE, SLACK, Lab
from faults.process import WorkerProcess, children_of

#: Each loop of a worker, by the call that it makes.
LOOPS = ["claim", "poll_hint", "settle", "heartbeat", "take_back", "expire_ttl", "prune", "announce", "wait"]

KINDS = ["KeyError", "MemoryError"]


def is_fine(lab: Lab, worker: WorkerProcess, jobs: list[int]) -> bool:
    return worker.code is not None or set(lab.outcomes(*jobs)) == {("succeeded", "success")}


def test_error_that_nobody_foresees_ends_no_loop_alone(lab: Lab) -> None:
    # B15, B71
    lab.asked_for.add("08006")  # a connection of a thread that died
    lab.may_be_unstarted = 2 * len(LOOPS)
    for turn in range(lab.count(2, short=1)):
        workers = {}
        for number, where in enumerate(LOOPS):
            queue, kind = f"only-{turn}-{number}", KINDS[(number + turn) % 2]
            workers[lab.start_worker(env={injection.INJECT: f"{where}:{kind}"}, queues=queue)] = (
                where,
                queue,
            )
        served = {}
        for worker, (_, queue) in workers.items():
            worker.wait_until_started_or_ended()
            served[worker] = lab.enqueue_many(3, "nap", {"seconds": LEASE}, queue=queue)
        time.sleep(lab.span(20, short=2))
        for worker, (where, queue) in workers.items():
            jobs = [*served[worker], lab.enqueue("nap", queue=queue)]
            worker.wait_for(f"injected into {where}")
            lab.until(
                partial(is_fine, lab, worker, jobs), f"the worker with an error in {where} serves, or is gone"
            )
            assert worker.code != 0, where
            if worker.code is not None:
                assert worker.lines("CRITICAL .* died"), where
        lab.drain("q", *(queue for _, queue in workers.values()))


def test_worker_whose_threads_all_die_ends_and_says_so(lab: Lab) -> None:
    # B71
    worker = lab.worker()
    lab.enqueue("end_threads", max_attempts=1)
    code = worker.wait(SLACK + 10)

    assert code == 1
    assert worker.lines("died, so the worker stops")
    lab.drain("q")


def test_worker_whose_schema_is_gone_ends_after_a_while(lab: Lab) -> None:
    # B71
    lab.asked_for |= {"42P01", "3F000", "42883"}
    patience = lab.span(60, short=3)
    worker = lab.worker(env={injection.PATIENCE: str(patience)})
    lab.sql.run("drop schema taskq cascade")
    lab.without_schema()
    code = worker.wait(patience + 10 + SLACK)

    assert code == 1
    assert worker.lines("schema|does not exist")
    assert len(worker.text.splitlines()) < 100  # the traceback of what has died among them


def test_worker_whose_log_cannot_be_written_goes_on(lab: Lab) -> None:
    # B71
    mute = lab.start_worker(before=("sh", "-c", 'exec "$@" 2>/dev/full >/dev/full', "sh"), queues="mute")
    jobs = [lab.enqueue("throw", {"what": "TimeoutError"}, queue="mute", max_attempts=1) for _ in range(3)]
    lab.wait_until_ended(*jobs)
    later = lab.enqueue("nap", queue="mute")
    lab.wait_until_ended(later)

    assert mute.code is None


def supervisor(lab: Lab, *arguments: str, processes: int, **options: Any) -> WorkerProcess:
    """Start a supervisor and wait until all its processes serve."""
    made = lab.start_worker("--processes", str(processes), *arguments, **options)
    made.wait_for(" serves ", times=processes)
    return made


def test_killed_process_of_several_is_replaced(lab: Lab) -> None:
    # B71
    made = supervisor(lab, processes=4, slots=1)
    for _ in range(lab.count(10, short=2)):
        jobs = lab.enqueue_many(4, "nap", {"seconds": 1.0})
        lab.wait_for_starts(*jobs)
        before = made.children()
        os.kill(random.choice(before), signal.SIGKILL)
        lab.until(lambda before=before: len({*made.children()} - {*before}) == 1, "another one is started")
        lab.wait_until_ended(*jobs)

    made.wait_for(" serves ", times=4 + lab.count(10, short=2))
    assert len(made.children()) == 4
    assert lab.stop(made) == 0
    lab.drain("q")


def test_process_that_dies_in_an_outage_is_started_until_the_database_is_back(lab: Lab) -> None:
    # B71
    lab.asked_for.add("08006")  # the connections of those who are killed
    proxy = lab.proxy()
    made = supervisor(lab, processes=2, dsn=proxy.dsn)
    with proxy.refusing():
        made.wait_for("-> degraded", times=2)
        for pid in made.children():
            os.kill(pid, signal.SIGKILL)
        made.wait_for("ended with exit code 69; the next one starts", times=lab.count(8, short=2))
        assert made.code is None
    made.wait_for(" serves ", times=4)
    job = lab.enqueue("nap")
    lab.wait_until_ended(job)

    assert lab.stop(made) == 0


def test_supervisor_whose_processes_cannot_start_any_more_ends(lab: Lab) -> None:
    # B71
    lab.asked_for |= {"42P01", "3F000", "42883"}
    made = supervisor(lab, processes=2, env={injection.PATIENCE: "1"})
    lab.sql.run("alter schema taskq rename to gone")  # at once, whatever the workers are doing
    lab.without_schema()
    code = made.wait(60 + SLACK)

    assert code == 1
    assert made.lines("and is not replaced")


def test_supervisor_as_the_first_process_of_a_container_hears_signals_and_buries_orphans(lab: Lab) -> None:
    # B69
    if shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a namespace of processes needs unshare and root")
    inside = supervisor(
        lab, processes=2, before=("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
    )
    [first] = inside.children()
    orphans = lab.enqueue_many(3, "orphan", {"seconds": 0.5})
    lab.wait_until_ended(*orphans)
    lab.until(lambda: len(children_of(first)) == 2, "the orphans are buried")
    jobs = lab.enqueue_many(4, "nap", {"seconds": 2})
    lab.wait_for_starts(*jobs)
    os.kill(first, signal.SIGTERM)  # as docker does; unshare itself would not pass it on

    assert inside.wait(2 + SLACK) == 0
    assert set(lab.outcomes(*jobs)) == {("succeeded", "success")}
