"""When the proof holds, and which jobs count as started twice."""

from __future__ import annotations

import attrs
import pytest

from taskq_sync.demo.report import Counts, Report, started_twice
from taskq_sync.demo.starts import Start, Starts

GOOD = Report(
    enqueued=9,
    counts=Counts(
        {("succeeded", "success"): 5, ("failed", "non_retryable"): 3, ("cancelled", "cancelled"): 1}
    ),
    snoozes=0,
    retried=0,
    taken_back=0,
    started_twice=0,
    killed=0,
    lines=100,
    biggest=(),
    problems=(),
    seconds=1.0,
)


def counts(**numbers: int) -> Counts:
    return Counts({(status, status): number for status, number in numbers.items()})


def test_proof_holds_when_each_job_has_ended():
    assert (GOOD.lost, GOOD.proven) == (0, True)


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"counts": counts(succeeded=8)}, 1),
        ({"counts": counts(succeeded=8, queued=1)}, 1),
        ({"counts": counts(succeeded=8, running=1)}, 1),
        ({"counts": counts(succeeded=10)}, -1),
        ({"counts": counts(succeeded=9, queued=1)}, 0),
        ({"problems": ("job 7: stands in no place",)}, 0),
    ],
    ids=["missing", "still queued", "still running", "one too many", "a stranger", "tables disagree"],
)
def test_proof_does_not_hold_otherwise(change, lost):
    report = attrs.evolve(GOOD, **change)

    assert (report.lost, report.proven) == (lost, False)


@pytest.mark.parametrize(
    ("taken_back", "starts", "number"),
    [
        ([(1, 10)], [(1, 10), (1, 12)], 1),
        ([(1, 10)], [(1, 12)], 0),
        ([(1, 10)], [(1, 10)], 0),
        ([], [(1, 10), (1, 12)], 0),
        ([(1, 10), (1, 12)], [(1, 10), (1, 12), (1, 14)], 1),
    ],
    ids=["interrupted", "claimed only", "not run again", "retried", "interrupted twice"],
)
def test_started_twice_counts_jobs_that_were_interrupted_and_called_again(taken_back, starts, number):
    assert started_twice({Start(*each) for each in taken_back}, [Start(*each) for each in starts]) == number


def test_starts_of_two_processes_stand_in_one_file(tmp_path):
    one, other = Starts(tmp_path / "starts"), Starts(tmp_path / "starts")
    one.record(1, 10)
    other.record(2, 11)
    one.record(3, 12)

    assert one.read() == [Start(1, 10), Start(2, 11), Start(3, 12)]
    one.close()
    other.close()
