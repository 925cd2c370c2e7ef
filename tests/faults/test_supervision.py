"""A worker serves, or has ended with a code that is not 0; there is nothing between."""

from __future__ import annotations

import time
from functools import partial

from faults import injection
from faults.lab import SLACK, Lab
from faults.process import WorkerProcess

#: Each loop of a worker, by the call that it makes.
LOOPS = ["claim", "poll_hint", "settle", "heartbeat", "take_back", "prune", "announce", "wait"]

KINDS = ["KeyError", "MemoryError"]


def is_fine(lab: Lab, worker: WorkerProcess, jobs: list[int]) -> bool:
    return worker.code is not None or set(lab.outcomes(*jobs)) == {("succeeded", "success")}


def test_error_that_nobody_foresees_ends_no_loop_alone(lab: Lab) -> None:
    # B15, B71
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
            served[worker] = lab.enqueue_many(3, "nap", {"seconds": 1.0}, queue=queue)
        time.sleep(lab.span(20, short=2))
        for worker, (where, queue) in workers.items():
            jobs = [*served[worker], lab.enqueue("nap", queue=queue)]
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
