"""Clocks of workers that are wrong, or jump, or stand still."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from faults.lab import LEASE, RECOVERY, SLACK, Lab

_LIBRARIES = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))

needs_faketime = pytest.mark.skipif(not _LIBRARIES, reason="install the Debian package faketime")


def shifted(offset: str) -> dict[str, str]:
    """The environment of a process whose wall clock is wrong by *offset*, and whose monotonic clocks are true."""
    return {
        "LD_PRELOAD": str(_LIBRARIES[0]),
        "FAKETIME": offset,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def movable(file: Path) -> dict[str, str]:
    """The same, with the offset in a *file* that is read anew each time."""
    env = {**shifted(""), "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_NO_CACHE": "1"}
    del env["FAKETIME"]
    return env


@needs_faketime
def test_faketime_leaves_the_monotonic_clocks_true(lab: Lab) -> None:
    # B51, B55: what all others about clocks stand on
    minutes = 10
    lab.worker(env=shifted(f"{minutes:+}m"))
    job = lab.enqueue("clocks")
    lab.wait_until_ended(job)
    told = lab.job(job)["result"]

    assert told["wall"] - time.time() == pytest.approx(60 * minutes, abs=30)
    assert told["monotonic"] - time.monotonic() == pytest.approx(0, abs=30)
    assert told["leases"] - time.clock_gettime(time.CLOCK_BOOTTIME) == pytest.approx(0, abs=30)


@needs_faketime
def test_workers_whose_clocks_differ_share_jobs_as_if_they_did_not(lab: Lab) -> None:
    # B51
    seconds = lab.span(8, short=1.5 * LEASE)
    for minutes in (10, -10):
        lab.worker(env=shifted(f"{minutes:+}m"), slots=lab.count(25, short=4))
    jobs = lab.enqueue_many(lab.count(50, short=8), "nap", {"seconds": seconds})
    delayed = lab.enqueue_many(10, "nap", delay="5 s")
    due = {job: lab.job(job)["scheduled_at"] for job in delayed}
    lab.wait_until_ended(*jobs, *delayed, timeout=2 * seconds + 5 + SLACK)

    assert [len(lab.starts(job)) for job in jobs + delayed] == [1] * (len(jobs) + 10)
    late = [(start.started_at - due[start.job_id]).total_seconds() for start in lab.starts(*delayed)]
    assert min(late) >= 0  # both by the clock of this machine's servers
    assert max(late) < 1 + SLACK + (seconds if lab.scale else 0)


@needs_faketime
def test_jumps_of_the_clock_neither_stop_a_worker_nor_make_it_spin(lab: Lab, tmp_path: Path) -> None:
    # B55
    file = tmp_path / "offset"
    file.write_text("+0\n")
    worker = lab.worker(env=movable(file))
    job = lab.enqueue("nap", {"seconds": 3 * LEASE})
    lab.wait_for_starts(job)
    for offset in ("+84m", "-84m", "+0"):
        file.write_text(f"{offset}\n")
        assert worker.cpu_share(lab.span(20, short=1.5)) < 0.15
        delayed = lab.enqueue("nap", delay="0.5 s")
        lab.wait_until_ended(delayed, timeout=1 + SLACK)
    lab.wait_until_ended(job, timeout=3 * LEASE + SLACK)

    assert len(lab.starts(job)) == 1
    assert len(worker.text.splitlines()) < 10


def test_worker_that_stood_still_goes_on(lab: Lab) -> None:
    # B55
    worker = lab.worker(slots=2)
    kept = lab.enqueue("nap", {"seconds": 1.0, "again": 0})
    lab.wait_for_starts(kept)
    worker.suspend()
    time.sleep(lab.span(300, short=2 * LEASE))
    worker.resume()
    later = lab.enqueue("nap")
    lab.wait_until_ended(later, kept, timeout=RECOVERY + SLACK)

    assert worker.cpu_share(2) < 0.1
    assert len(worker.text.splitlines()) < 15
