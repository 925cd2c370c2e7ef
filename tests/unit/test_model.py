"""The rows of the contract, and the verdicts that end attempts."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from kit.claimed import claimed_job
from taskq_sync.model import EnqueueResult, Verdict


def test_a_result_says_whether_the_job_is_new() -> None:
    assert EnqueueResult("created", 7).created
    assert not EnqueueResult("existed", 7).created


class TestClaimedJob:
    def test_parses_its_json_when_asked(self) -> None:
        job = claimed_job(payload_json='{"a": 1.0}', headers_json='{"trace": "x"}', progress_json="[2]")

        assert job.payload == {"a": 1.0}
        assert job.headers == {"trace": "x"}
        assert job.progress == [2]

    def test_without_headers_and_progress_has_none(self) -> None:
        assert claimed_job().headers == {}
        assert claimed_job().progress is None

    def test_does_not_show_its_payload(self) -> None:
        assert "secret" not in repr(claimed_job(payload_json='{"password": "secret"}'))

    def test_knows_its_last_attempt(self) -> None:
        assert not claimed_job(failure_count=3, max_attempts=5).last_attempt
        assert claimed_job(failure_count=4, max_attempts=5).last_attempt


@pytest.mark.parametrize(
    ("verdict", "members"),
    [
        (Verdict.complete(7, 70), {}),
        (Verdict.complete(7, 70, result_json='{"n": 1.0}'), {"result": {"n": 1.0}}),
        (Verdict.fail(7, 70, error="boom"), {"error": "boom"}),
        (
            Verdict.fail(
                7, 70, error="x", retryable=False, retry_after=timedelta(seconds=1.5), progress_json="[1]"
            ),
            {"error": "x", "retryable": False, "retry_after": "1.500000 seconds", "progress": [1]},
        ),
        (
            Verdict.snooze(7, 70, delay=timedelta(minutes=1), reason="quota", progress_json="2"),
            {"delay": "60.000000 seconds", "reason": "quota", "progress": 2},
        ),
        (
            Verdict.release(7, 70, cause="not_started"),
            {"delay": "0.000000 seconds", "cause": "not_started"},
        ),
        (Verdict.cancel(7, 70), {}),
        (Verdict.cancel(7, 70, reason="left"), {"reason": "left"}),
    ],
    ids=lambda value: getattr(value, "verb", ""),
)
def test_a_verdict_is_written_without_absent_members(verdict: Verdict, members: dict[str, object]) -> None:
    assert json.loads(verdict.document()) == {
        "job_id": 7,
        "attempt_id": 70,
        "verb": verdict.verb,
        **members,
    }


def test_a_verdict_can_always_be_stored_whatever_the_error_says() -> None:
    document = Verdict.fail(7, 70, error="\x00\udce9" + "x" * 100_000).document()

    error = json.loads(document)["error"]
    assert error.startswith("\\x00\\udce9")
    assert len(error.encode()) <= 8192


def test_the_numbers_of_a_result_are_kept_as_they_are_written() -> None:
    assert '"result":1.0' in Verdict.complete(7, 70, result_json="1.0").document()
