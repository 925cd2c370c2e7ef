"""The verdict over the answers of a stress run: it passes what can be, and names what cannot."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from races.stress.ledger import (
    Answer,
    Attempt,
    Cancel,
    Deed,
    Enqueued,
    Ledger,
    Limit,
    Look,
    Pause,
    Pruned,
    Record,
    Worked,
)
from races.stress.verdict import Final, Standing, Verdict

READY = Standing("ready", "queued", None, None, None)


class Story:
    """Records of statements that follow each other, each in a second of its own unless told otherwise."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.jobs: dict[int, Standing] = {}
        self.attempts: dict[int, tuple[str, str]] = {}
        self.worked: tuple[int, ...] = ()
        self._seconds = itertools.count(1)

    def tell(self, kind: Callable[..., Record], *, asked: float | None = None, **fields: Any) -> None:
        start = float(next(self._seconds)) if asked is None else asked
        deed = Deed(decided=start, known=start + 0.5)
        self.ledger.write([kind(asked=start, answered=start + 0.5, deed=deed, **fields)])

    def enqueue(self, job_id: int, status: str = "created", key: str | None = None, **more: Any) -> None:
        self.tell(Enqueued, job_id=job_id, status=status, queue="q", unique_key=key, **more)
        self.jobs.setdefault(job_id, READY)

    def claim(self, job_id: int, fence: int, *, asked: float | None = None, **changes: Any) -> None:
        fields: dict[str, Any] = {
            "batch": fence,
            "queue": "q",
            "key": None,
            "attempt_count": 1,
            "failure_count": 0,
            "max_attempts": 2,
            "expiry_streak": 0,
        }
        self.tell(Attempt, asked=asked, job_id=job_id, attempt_id=fence, **{**fields, **changes})
        self.jobs[job_id] = Standing("running", "running", None, fence, None)

    def answer(
        self, job_id: int, fence: int, verb: str, result: str, status: str | None, **more: Any
    ) -> None:
        self.tell(Answer, job_id=job_id, attempt_id=fence, verb=verb, result=result, status=status, **more)
        if result in ("ok", "retry_scheduled", "dead"):
            if status == "queued":
                self.jobs[job_id], self.attempts[fence] = READY, (verb, status)
            else:
                self.jobs[job_id] = Standing("finished", str(status), "any", fence, verb)

    def cancel(self, job_id: int, result: str, status: str) -> None:
        self.tell(Cancel, job_id=job_id, result=result, status=status)
        if result == "cancelled":
            self.jobs[job_id] = Standing("finished", "cancelled", "cancelled", None, None)

    def look(self, function: str, fence: int, state: str, **more: Any) -> None:
        self.tell(Look, function=function, job_id=1, attempt_id=fence, state=state, **more)

    def findings(self) -> list[str]:
        final = Final(jobs=self.jobs, attempts=self.attempts, worked=self.worked, stored=len(self.jobs))
        return Verdict(self.ledger, final).findings()


@pytest.fixture
def story() -> Story:
    """One job, enqueued and claimed under fence 10; it may fail once."""
    begun = Story()
    begun.enqueue(1)
    begun.claim(1, 10)
    return begun


def test_passes_the_life_of_a_job(story: Story) -> None:
    story.look("heartbeat", 10, "ok", asked_to_cancel=False)
    story.answer(1, 10, "fail", "retry_scheduled", "queued")
    story.answer(1, 10, "fail", "already_settled", "queued")
    story.answer(1, 10, "complete", "settle_conflict", "queued")
    story.look("heartbeat", 10, "lost")
    story.claim(1, 11, attempt_count=2, failure_count=1)
    story.answer(1, 99, "complete", "lost", None)
    story.answer(1, 11, "fail", "dead", "failed")
    story.look("attempt_state", 11, "settled", status="failed")
    story.cancel(1, "already_ended", "failed")

    assert story.findings() == []


def test_passes_a_take_back_and_a_cancel(story: Story) -> None:
    story.answer(1, 10, "take_back", "ok", "queued")
    story.answer(1, 10, "complete", "lost", None)
    story.claim(1, 11, attempt_count=2, failure_count=1, expiry_streak=1)
    story.cancel(1, "requested", "running")
    story.look("heartbeat", 11, "ok", asked_to_cancel=True)
    story.answer(1, 11, "snooze", "ok", "cancelled")

    assert story.findings() == []


def test_passes_what_may_have_happened_in_either_order(story: Story) -> None:
    story.tell(Cancel, asked=20.0, job_id=1, result="requested", status="running")
    story.tell(
        Answer, asked=20.1, job_id=1, attempt_id=10, verb="fail", result="retry_scheduled", status="queued"
    )
    story.jobs[1], story.attempts[10] = READY, ("fail", "queued")

    assert story.findings() == []


@pytest.mark.parametrize(
    ("verb", "result", "status"),
    [
        ("complete", "ok", "queued"),
        ("complete", "ok", "cancelled"),
        ("complete", "lost", None),
        ("complete", "already_settled", "succeeded"),
        ("fail", "ok", "queued"),
        ("fail", "dead", "failed"),
        ("fail", "ok", "cancelled"),
        ("snooze", "ok", "failed"),
        ("snooze", "rejected", None),
        ("cancel", "ok", "queued"),
        ("take_back", "ok", "failed"),
    ],
)
def test_finds_an_answer_that_the_table_does_not_have(
    story: Story, verb: str, result: str, status: str
) -> None:
    story.answer(1, 10, verb, result, status)

    assert story.findings() != []


@pytest.mark.parametrize(
    ("verb", "result", "status"),
    [
        ("complete", "ok", "succeeded"),
        ("complete", "lost", None),
        ("complete", "settle_conflict", "succeeded"),
        ("complete", "already_settled", "cancelled"),
        ("fail", "already_settled", "succeeded"),
        ("take_back", "ok", "queued"),
    ],
)
def test_finds_a_wrong_answer_to_who_comes_second(story: Story, verb: str, result: str, status: str) -> None:
    story.answer(1, 10, "complete", "ok", "succeeded")
    standing = story.jobs[1]
    story.answer(1, 10, verb, result, status)
    story.jobs[1] = standing
    story.attempts.clear()

    assert story.findings() != []


def test_finds_an_answer_about_an_end_that_came_later(story: Story) -> None:
    story.answer(1, 10, "fail", "settle_conflict", "succeeded")
    story.answer(1, 10, "complete", "ok", "succeeded")

    assert story.findings() != []


def test_finds_a_job_that_went_on_although_a_cancel_was_requested(story: Story) -> None:
    story.cancel(1, "requested", "running")
    story.answer(1, 10, "fail", "retry_scheduled", "queued")

    assert story.findings() != []


def test_finds_a_job_that_was_claimed_although_it_was_cancelled(story: Story) -> None:
    story.answer(1, 10, "release", "ok", "queued")
    story.cancel(1, "cancelled", "cancelled")
    story.claim(1, 11, attempt_count=2)

    assert any("claimed later" in each for each in story.findings())


def test_finds_a_job_that_was_claimed_twice(story: Story) -> None:
    story.claim(1, 11, attempt_count=2)

    assert any("was claimed after None" in each for each in story.findings())


def test_finds_a_fence_that_did_not_grow(story: Story) -> None:
    story.answer(1, 10, "release", "ok", "queued")
    story.claim(1, 9, attempt_count=2)

    assert any("in the order of their fences" in each for each in story.findings())


def test_finds_failures_that_were_not_counted(story: Story) -> None:
    story.answer(1, 10, "fail", "retry_scheduled", "queued")
    story.claim(1, 11, attempt_count=2, failure_count=0)

    assert any("failures of" in each for each in story.findings())


def test_finds_a_job_that_is_missing(story: Story) -> None:
    story.enqueue(2)
    del story.jobs[2]

    assert story.findings() == ["2 enqueued, but 1 stored and 0 pruned"]
    story.tell(Pruned, jobs=1)
    assert story.findings() == []


def test_finds_a_job_whose_enqueue_rolled_back(story: Story) -> None:
    undone = Enqueued(
        asked=9.0, answered=9.5, deed=Deed(), job_id=2, status="created", queue="q", unique_key=None
    )
    story.ledger.undo([undone])
    story.jobs[2] = READY

    assert "job 2 is there, but its enqueue rolled back" in story.findings()


def test_finds_a_job_at_another_place_than_its_last_answer_says(story: Story) -> None:
    story.answer(1, 10, "complete", "ok", "succeeded")
    story.jobs[1] = READY

    assert any("stands at" in each for each in story.findings())


def test_finds_an_attempt_without_history(story: Story) -> None:
    story.answer(1, 10, "release", "ok", "queued")
    story.attempts.clear()

    assert story.findings() == ["attempt 10: history None, answers ('release', 'queued')"]


def test_finds_a_key_over_its_limit() -> None:
    story = Story()
    for job_id in (1, 2):
        story.enqueue(job_id)
        story.claim(job_id, 10 + job_id, key="k")
    assert any("key k: 1 may run" in each for each in story.findings())

    raised = Limit(asked=0.0, answered=0.0, deed=Deed(known=0.0), key="k", max_running=2)
    story.ledger.write([raised])
    assert story.findings() == []


def test_passes_a_claim_that_may_have_come_before_the_first_limit() -> None:
    story = Story()
    story.enqueue(1)
    story.claim(1, 10, key="k")
    story.tell(Limit, asked=story.ledger.attempts[10].asked, key="k", max_running=0)

    assert story.findings() == []


def test_finds_two_of_a_key_in_one_claim() -> None:
    story = Story()
    for job_id in (1, 2):
        story.enqueue(job_id)
        story.claim(job_id, 10 + job_id, key="k", batch=1, asked=5.0)

    assert any("0 ran when 2 were claimed" in each for each in story.findings())


def test_finds_a_claim_from_a_paused_queue() -> None:
    story = Story()
    story.enqueue(1)
    story.tell(Pause, queue="q", paused=True)
    story.claim(1, 10)
    assert any("paused queue" in each for each in story.findings())

    story.tell(Pause, asked=story.ledger.attempts[10].asked, queue="q", paused=False)
    assert story.findings() == []


def test_finds_two_live_jobs_of_one_unique_key() -> None:
    story = Story()
    story.enqueue(1, key="k")
    story.enqueue(2, key="k")

    assert len(story.findings()) == 1


def test_finds_a_holder_that_had_ended_and_one_that_never_was() -> None:
    story = Story()
    story.enqueue(1, key="k")
    story.enqueue(1, "existed", key="k")
    story.cancel(1, "cancelled", "cancelled")
    assert story.findings() == []

    story.enqueue(1, "existed", key="k")
    assert len(story.findings()) == 1
    story.tell(Enqueued, job_id=77, status="existed", queue="q", unique_key="k")
    assert len(story.findings()) == 2


def test_passes_a_key_that_counts_after_the_end_and_finds_one_that_counts_too_long() -> None:
    story = Story()
    story.enqueue(1, key="k", unique_for=3.0)
    story.cancel(1, "cancelled", "cancelled")
    story.enqueue(1, "existed", key="k")
    assert story.findings() == []

    story.enqueue(1, "running", key="k", unique_mode="replace")
    assert len(story.findings()) == 1
    story.enqueue(1, "existed", key="k")
    assert len(story.findings()) == 2


def test_passes_a_key_that_is_given_up_at_the_start() -> None:
    story = Story()
    story.enqueue(1, key="w1")
    story.enqueue(2, key="w1")

    assert story.findings() == []


def test_finds_a_replaced_job_where_nobody_asked_for_it() -> None:
    story = Story()
    story.enqueue(1, key="k")
    story.enqueue(1, "replaced", key="k", unique_mode="replace")
    assert story.findings() == []

    story.enqueue(1, "replaced", key="k")
    assert len(story.findings()) == 1


def test_passes_failures_that_start_anew_only_where_the_job_was_replaced() -> None:
    story = Story()
    story.enqueue(1, key="k")
    story.claim(1, 10)
    story.answer(1, 10, "fail", "retry_scheduled", "queued")
    story.claim(1, 11, attempt_count=2, failure_count=0)
    assert len(story.findings()) == 1

    story = Story()
    story.enqueue(1, key="k")
    story.claim(1, 10)
    story.answer(1, 10, "fail", "retry_scheduled", "queued")
    story.enqueue(1, "replaced", key="k", unique_mode="replace")
    story.claim(1, 11, attempt_count=2, failure_count=0)
    assert story.findings() == []


@pytest.mark.parametrize(
    ("function", "state", "more"),
    [
        ("heartbeat", "ok", {"asked_to_cancel": False}),
        ("attempt_state", "running", {}),
        ("attempt_state", "lost", {}),
        ("attempt_state", "settled", {"status": "failed"}),
    ],
)
def test_finds_a_wrong_look_at_an_attempt_that_has_ended(
    story: Story, function: str, state: str, more: dict[str, Any]
) -> None:
    story.answer(1, 10, "complete", "ok", "succeeded")
    story.look(function, 10, state, **more)

    assert len(story.findings()) == 1


@pytest.mark.parametrize(
    ("function", "state", "more"),
    [
        ("heartbeat", "lost", {}),
        ("heartbeat", "ok", {"asked_to_cancel": True}),
        ("attempt_state", "settled", {"status": "succeeded"}),
    ],
)
def test_finds_a_wrong_look_at_an_attempt_that_runs(
    story: Story, function: str, state: str, more: dict[str, Any]
) -> None:
    story.look(function, 10, state, **more)

    assert len(story.findings()) == 1


def test_finds_work_without_its_completion(story: Story) -> None:
    story.worked = (10,)
    assert len(story.findings()) == 2

    story.tell(Worked, attempt_id=10)
    story.answer(1, 10, "complete", "ok", "succeeded")
    assert story.findings() == []
    story.worked = (10, 10)
    assert story.findings() == ["work of attempt 10 is stored 2 times"]
