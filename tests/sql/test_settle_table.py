"""The settle table of the design, cell by cell: every verb in every situation, by the single forms and by document."""

# Scenarios B04, B05, B06, B07.

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row

Settle = Callable[..., Row]
Answer = tuple[str, "str | None"]

VERBS = ("complete", "fail", "snooze", "release", "cancel")


def _element(attempt: Row, verb: str, **fields: Any) -> dict[str, Any]:
    needed: dict[str, Any] = {"snooze": {"delay": 60}, "fail": {"error": "boom"}}.get(verb, {})
    ids = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
    return {**ids, "verb": verb, **needed, **fields}


@pytest.fixture(params=["single form", "document"])
def settle(request: pytest.FixtureRequest, sql: Contract) -> Settle:
    """Settle an attempt by `settle(attempt, "snooze", delay=60)` and return the one row; durations are seconds."""

    def single_form(attempt: Row, verb: str, **fields: Any) -> Row:
        arguments = _element(attempt, verb, **fields)
        del arguments["verb"]
        for name in {"delay", "retry_after"} & arguments.keys():
            arguments[name] = timedelta(seconds=arguments[name])
        for name in {"result", "progress"} & arguments.keys():
            arguments[name] = Jsonb(arguments[name])
        function = getattr(sql, "cancel_attempt" if verb == "cancel" else verb)
        [row] = function(**arguments)
        return dict(row)

    def document(attempt: Row, verb: str, **fields: Any) -> Row:
        [row] = sql.settle(worker_id="w", settlements=Jsonb([_element(attempt, verb, **fields)]))
        return row

    return single_form if request.param == "single form" else document


def _answer(row: Row) -> Answer:
    return row["result"], row["status"]


# -- the fence holds --------------------------------------------------------------------------------------------

LAST: dict[str, Any] = {"max_attempts": 1}

#: way: verb, what it is given, options of the job, operator asked to cancel; result, status, outcome
WAYS: dict[str, tuple[str, dict[str, Any], dict[str, Any], bool, str, str, str | None]] = {
    "complete": ("complete", {}, {}, False, "ok", "succeeded", "success"),
    "fail": ("fail", {}, {}, False, "retry_scheduled", "queued", None),
    "fail the last time": ("fail", {}, LAST, False, "dead", "failed", "retry_exhausted"),
    "fail for good": ("fail", {"retryable": False}, {}, False, "dead", "failed", "non_retryable"),
    "snooze": ("snooze", {}, {}, False, "ok", "queued", None),
    "release": ("release", {}, {}, False, "ok", "queued", None),
    "cancel": ("cancel", {}, {}, False, "ok", "cancelled", "cancelled"),
    "complete, cancel asked": ("complete", {}, {}, True, "ok", "succeeded", "success"),
    "fail, cancel asked": ("fail", {}, {}, True, "ok", "cancelled", "cancelled"),
    "fail the last time, cancel asked": ("fail", {}, LAST, True, "ok", "cancelled", "cancelled"),
    "fail for good, cancel asked": ("fail", {"retryable": False}, {}, True, "ok", "cancelled", "cancelled"),
    "snooze, cancel asked": ("snooze", {}, {}, True, "ok", "cancelled", "cancelled"),
    "release, cancel asked": ("release", {}, {}, True, "ok", "cancelled", "cancelled"),
    "cancel, cancel asked": ("cancel", {}, {}, True, "ok", "cancelled", "cancelled"),
}
every_way = pytest.mark.parametrize("way", WAYS)
every_way_back = pytest.mark.parametrize("way", ["fail", "snooze", "release"])


def _start(sql: Contract, way: str) -> Row:
    """Bring a job to where the way begins: running, with the cancel request where the way has one."""
    _, _, options, cancel_asked, *_ = WAYS[way]
    attempt = sql.new_attempt(**options)
    if cancel_asked:
        [row] = sql.cancel_job(job_id=attempt["job_id"])
        assert row["result"] == "requested"
    return attempt


def _go(sql: Contract, settle: Settle, way: str) -> Row:
    """Settle an attempt in this way and return the attempt."""
    attempt = _start(sql, way)
    verb, fields, *_ = WAYS[way]
    settle(attempt, verb, **fields)
    return attempt


@every_way
def test_an_attempt_that_holds_the_fence_settles(sql: Contract, settle: Settle, way: str) -> None:
    verb, fields, _, _, result, status, outcome = WAYS[way]
    attempt = _start(sql, way)
    row = settle(attempt, verb, **fields)
    job = sql.job(attempt["job_id"])

    assert (row["job_id"], row["attempt_id"]) == (attempt["job_id"], attempt["attempt_id"])
    assert _answer(row) == (result, status)
    assert row["reason"] is None
    assert (row["scheduled_at"] is not None) == (status == "queued")
    assert (job["status"], job["outcome"], job["current_attempt_id"]) == (status, outcome, None)
    if status == "queued":
        assert job["scheduled_at"] == row["scheduled_at"]
    [history] = sql.job_history(job_id=attempt["job_id"])
    assert (history["attempt_id"], history["verb"], history["status"]) == (
        attempt["attempt_id"],
        verb,
        status,
    )


@every_way
def test_an_attempt_whose_lease_ran_out_settles_until_somebody_takes_it_back(
    sql: Contract, settle: Settle, way: str
) -> None:
    verb, fields, _, _, result, status, _ = WAYS[way]
    attempt = _start(sql, way)
    sql.run_out(attempt["job_id"])

    assert _answer(settle(attempt, verb, **fields)) == (result, status)
    assert sql.take_back() == []


# -- already settled --------------------------------------------------------------------------------------------


def _replays(settle: Settle, attempt: Row, verb: str, status: str) -> None:
    """All five verbs on a settled attempt: the same verb is a replay, any other a conflict, for ever."""
    same: Answer = ("already_settled", status)
    conflict: Answer = ("settle_conflict", status)
    table = {
        "complete": {
            "complete": same,
            "fail": conflict,
            "snooze": conflict,
            "release": conflict,
            "cancel": conflict,
        },
        "fail": {
            "complete": conflict,
            "fail": same,
            "snooze": conflict,
            "release": conflict,
            "cancel": conflict,
        },
        "snooze": {
            "complete": conflict,
            "fail": conflict,
            "snooze": same,
            "release": conflict,
            "cancel": conflict,
        },
        "release": {
            "complete": conflict,
            "fail": conflict,
            "snooze": conflict,
            "release": same,
            "cancel": conflict,
        },
        "cancel": {
            "complete": conflict,
            "fail": conflict,
            "snooze": conflict,
            "release": conflict,
            "cancel": same,
        },
    }
    assert {each: _answer(settle(attempt, each)) for each in table[verb]} == table[verb]


@every_way
def test_a_settled_attempt_stays_as_it_was_settled(sql: Contract, settle: Settle, way: str) -> None:
    attempt = _go(sql, settle, way)
    before = sql.job(attempt["job_id"])

    _replays(settle, attempt, WAYS[way][0], WAYS[way][5])
    assert sql.job(attempt["job_id"]) == before


@every_way_back
def test_a_settled_attempt_stays_so_while_a_later_one_runs(sql: Contract, settle: Settle, way: str) -> None:
    attempt = _go(sql, settle, way)
    sql.make_due(attempt["job_id"])
    later = sql.take()
    running = sql.job(attempt["job_id"])

    _replays(settle, attempt, way, "queued")
    assert later["job_id"] == attempt["job_id"]
    assert sql.job(attempt["job_id"]) == running


@every_way_back
def test_a_settled_attempt_stays_so_after_a_later_one_has_ended(
    sql: Contract, settle: Settle, way: str
) -> None:
    attempt = _go(sql, settle, way)
    sql.make_due(attempt["job_id"])
    settle(sql.take(), "complete")

    _replays(settle, attempt, way, "queued")
    assert sql.job(attempt["job_id"])["status"] == "succeeded"


@every_way_back
def test_a_replay_says_when_the_job_was_to_run_again(
    sql: Contract, settle: Settle, clock: Clock, way: str
) -> None:
    attempt = sql.new_attempt()
    first = settle(attempt, way)
    clock.forward(hours=2)

    assert settle(attempt, way) == {**first, "result": "already_settled"}


@pytest.mark.parametrize("verb", VERBS)
def test_a_replay_may_carry_other_arguments(sql: Contract, settle: Settle, verb: str) -> None:
    """The verb alone decides what is a replay; what was stored first stays."""
    attempt = sql.new_attempt()
    settle(attempt, verb)
    before = sql.job(attempt["job_id"]), sql.job_history(job_id=attempt["job_id"])
    other = {
        "complete": {"result": 2},
        "fail": {"error": "other", "retryable": False},
        "snooze": {"delay": 1},
        "release": {"delay": 1},
        "cancel": {"reason": "other"},
    }[verb]

    assert settle(attempt, verb, **other)["result"] == "already_settled"
    assert (sql.job(attempt["job_id"]), sql.job_history(job_id=attempt["job_id"])) == before


# -- lost -------------------------------------------------------------------------------------------------------


def _taken_back(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    sql.run_out(attempt["job_id"])
    [row] = sql.take_back()
    assert row["status"] == "queued"
    return attempt


def _taken_back_and_runs_again(sql: Contract) -> Row:
    attempt = _taken_back(sql)
    assert sql.take()["job_id"] == attempt["job_id"]
    return attempt


def _taken_back_and_done_by_another(sql: Contract) -> Row:
    attempt = _taken_back(sql)
    later = sql.take()
    sql.complete(job_id=later["job_id"], attempt_id=later["attempt_id"])
    return attempt


def _taken_back_as_poison(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    sql.run("update taskq.running set expiry_streak = 2")
    sql.run_out(attempt["job_id"])
    [row] = sql.take_back()
    assert row["status"] == "failed"
    return attempt


def _taken_back_out_of_attempts(sql: Contract) -> Row:
    attempt = sql.new_attempt(max_attempts=1)
    sql.run_out(attempt["job_id"])
    [row] = sql.take_back()
    assert row["status"] == "failed"
    return attempt


def _taken_back_and_cancelled(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    sql.cancel_job(job_id=attempt["job_id"])
    sql.run_out(attempt["job_id"])
    [row] = sql.take_back()
    assert row["status"] == "cancelled"
    return attempt


def _pruned(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
    sql.run("update taskq.finished set purge_at = taskq.clock()")
    assert sql.value("select taskq.prune()") == 1
    return attempt


def _of_an_unknown_job(sql: Contract) -> Row:
    return {"job_id": 10**15, "attempt_id": sql.new_attempt()["attempt_id"]}


def _never_given_to_the_job(sql: Contract) -> Row:
    attempt = sql.new_attempt()
    return {**attempt, "attempt_id": attempt["attempt_id"] + 1000}


def _of_another_running_job(sql: Contract) -> Row:
    one, other = sql.new_attempt(), sql.new_attempt()
    return {"job_id": one["job_id"], "attempt_id": other["attempt_id"]}


def _of_a_job_that_never_ran(sql: Contract) -> Row:
    return {"job_id": sql.new_job(), "attempt_id": 1}


def _of_a_job_cancelled_before_it_ran(sql: Contract) -> Row:
    job_id = sql.new_job()
    sql.cancel_job(job_id=job_id)
    return {"job_id": job_id, "attempt_id": 1}


@pytest.mark.parametrize(
    "became",
    [
        _taken_back,
        _taken_back_and_runs_again,
        _taken_back_and_done_by_another,
        _taken_back_as_poison,
        _taken_back_out_of_attempts,
        _taken_back_and_cancelled,
        _pruned,
        _of_an_unknown_job,
        _never_given_to_the_job,
        _of_another_running_job,
        _of_a_job_that_never_ran,
        _of_a_job_cancelled_before_it_ran,
    ],
)
def test_an_attempt_that_was_never_settled_and_does_not_run_is_lost(
    sql: Contract, settle: Settle, became: Callable[[Contract], Row]
) -> None:
    attempt = became(sql)
    before = sql.list_jobs()
    lost = {
        "job_id": attempt["job_id"],
        "attempt_id": attempt["attempt_id"],
        "result": "lost",
        "status": None,
        "scheduled_at": None,
        "reason": None,
    }

    assert {verb: settle(attempt, verb) for verb in VERBS} == {
        "complete": lost,
        "fail": lost,
        "snooze": lost,
        "release": lost,
        "cancel": lost,
    }
    assert sql.list_jobs() == before


def test_a_prefetched_job_handed_back_leaves_nothing_to_replay(sql: Contract, settle: Settle) -> None:
    """Its attempt is not recorded, so a replay of the release finds none."""
    attempt = sql.new_attempt()

    assert _answer(settle(attempt, "release", cause="not_started")) == ("ok", "queued")
    assert sql.job_history(job_id=attempt["job_id"]) == []
    assert _answer(settle(attempt, "release", cause="not_started")) == ("lost", None)


# -- several elements in one document ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("complete", "complete", [("ok", "succeeded"), ("already_settled", "succeeded")]),
        ("complete", "fail", [("ok", "succeeded"), ("settle_conflict", "succeeded")]),
        ("fail", "fail", [("retry_scheduled", "queued"), ("already_settled", "queued")]),
        ("fail", "complete", [("retry_scheduled", "queued"), ("settle_conflict", "queued")]),
        ("snooze", "snooze", [("ok", "queued"), ("already_settled", "queued")]),
        ("snooze", "release", [("ok", "queued"), ("settle_conflict", "queued")]),
        ("release", "release", [("ok", "queued"), ("already_settled", "queued")]),
        ("release", "cancel", [("ok", "queued"), ("settle_conflict", "queued")]),
        ("cancel", "cancel", [("ok", "cancelled"), ("already_settled", "cancelled")]),
        ("cancel", "complete", [("ok", "cancelled"), ("settle_conflict", "cancelled")]),
    ],
)
def test_the_first_of_two_elements_for_one_attempt_counts(
    sql: Contract, first: str, second: str, expected: list[Answer]
) -> None:
    attempt, bystander = sql.new_attempt(), sql.new_attempt()
    document = [_element(attempt, first), _element(bystander, "complete"), _element(attempt, second)]
    rows = sql.settle(worker_id="w", settlements=Jsonb(document))

    assert [_answer(row) for row in rows] == [expected[0], ("ok", "succeeded"), expected[1]]
    assert rows[0]["scheduled_at"] == rows[2]["scheduled_at"]
    assert len(sql.job_history(job_id=attempt["job_id"])) == 1


def test_a_stale_attempt_does_not_shadow_the_valid_one_of_its_job(sql: Contract) -> None:
    """Duplicates are by job and attempt, never by job alone (hard spot 4)."""
    stale = _taken_back(sql)
    valid = sql.take()
    document = [
        _element(stale, "fail"),
        _element(valid, "complete", result="mine"),
        _element(stale, "complete"),
    ]
    rows = sql.settle(worker_id="w", settlements=Jsonb(document))

    assert [_answer(row) for row in rows] == [("lost", None), ("ok", "succeeded"), ("lost", None)]
    assert sql.job(valid["job_id"])["result"] == "mine"


def test_a_settled_attempt_and_the_valid_one_of_its_job(sql: Contract) -> None:
    settled = sql.new_attempt()
    sql.release(job_id=settled["job_id"], attempt_id=settled["attempt_id"])
    valid = sql.take()
    document = [_element(settled, "release"), _element(settled, "complete"), _element(valid, "complete")]
    rows = sql.settle(worker_id="w", settlements=Jsonb(document))

    assert [_answer(row) for row in rows] == [
        ("already_settled", "queued"),
        ("settle_conflict", "queued"),
        ("ok", "succeeded"),
    ]


@pytest.mark.parametrize("with_another", [False, True], ids=["complete alone", "with another verb"])
def test_completes_that_count_and_completes_that_do_not(sql: Contract, with_another: bool) -> None:
    """Answers stand in the order of the document, and the first of two for one attempt counts."""
    stale, valid, other, third = _taken_back(sql), sql.take(), sql.new_attempt(), sql.new_attempt()
    document = [
        _element(third, "complete", result="first"),
        _element(stale, "complete"),
        _element(third, "complete", result="second"),
        _element(other, "complete", result="x" * 9000),
        _element(valid, "complete", result=None),
        {"job_id": None, "attempt_id": 1, "verb": "complete"},
        {"job_id": third["job_id"], "attempt_id": valid["attempt_id"], "verb": "complete"},
    ]
    if with_another:
        document.append(_element(stale, "snooze", delay=1))
    rows = sql.settle(worker_id="w", settlements=Jsonb(document))

    assert [_answer(row) for row in rows[:7]] == [
        ("ok", "succeeded"),
        ("lost", None),
        ("already_settled", "succeeded"),
        ("rejected", None),
        ("ok", "succeeded"),
        ("rejected", None),
        ("lost", None),
    ]
    assert [row["job_id"] for row in rows[:7]] == [element["job_id"] for element in document[:7]]
    assert sql.job(third["job_id"])["result"] == "first"
    assert sql.job(valid["job_id"])["result"] is None
    assert sql.job(other["job_id"])["status"] == "running"


# -- what burns the budget --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "fields", "status", "outcome", "failures", "delay"),
    [
        ("complete", {}, "succeeded", "success", 1, None),
        ("snooze", {"delay": 0.1}, "queued", None, 1, (0.1, 0.1)),
        ("snooze", {"delay": 366 * 86400}, "queued", None, 1, (366 * 86400, 366 * 86400)),
        ("release", {}, "queued", None, 1, (0, 0)),
        ("release", {"delay": 5}, "queued", None, 1, (5, 5)),
        ("release", {"delay": 5, "cause": "not_started"}, "queued", None, 1, (5, 5)),
        ("cancel", {}, "cancelled", "cancelled", 1, None),
        ("fail", {}, "queued", None, 2, (17, 23)),  # the second failure: 10 s * 2, +- 15 %
        ("fail", {"retry_after": 7}, "queued", None, 2, (7, 7)),
        ("fail", {"retry_after": 0}, "queued", None, 2, (0, 0)),
        ("fail", {"retryable": False}, "failed", "non_retryable", 2, None),
        ("fail", {"retryable": False, "retry_after": 7}, "failed", "non_retryable", 2, None),
    ],
)
def test_what_a_settle_does_to_the_budget(
    sql: Contract,
    settle: Settle,
    clock: Clock,
    verb: str,
    fields: dict[str, Any],
    status: str,
    outcome: str | None,
    failures: int,
    delay: tuple[float, float] | None,
) -> None:
    """The job has failed once and lost a lease; every settle of a job that was run ends the streak of lost leases."""
    attempt = sql.new_attempt(backoff=timedelta(seconds=10))
    sql.run("update taskq.running set failure_count = 1, expiry_streak = 1, attempt_count = 4")
    settle(attempt, verb, **fields)
    job = sql.job(attempt["job_id"])
    streak = 1 if fields.get("cause") == "not_started" else 0  # a suspect that nobody has run is still one

    assert (job["status"], job["outcome"]) == (status, outcome)
    assert (job["failure_count"], job["expiry_streak"], job["attempt_count"]) == (failures, streak, 4)
    assert job["snooze_count"] == (1 if verb == "snooze" else 0)
    if delay is not None:
        waits = (job["scheduled_at"] - clock.now).total_seconds()
        assert delay[0] <= waits <= delay[1]


@pytest.mark.parametrize(
    ("failures_before", "result", "status", "outcome"),
    [
        (0, "retry_scheduled", "queued", None),
        (1, "retry_scheduled", "queued", None),
        (2, "dead", "failed", "retry_exhausted"),
    ],
)
def test_a_failure_ends_the_job_when_the_budget_is_used_up(
    sql: Contract, settle: Settle, failures_before: int, result: str, status: str, outcome: str | None
) -> None:
    attempt = sql.new_attempt(max_attempts=3)
    sql.run("update taskq.running set failure_count = %s", failures_before)

    assert _answer(settle(attempt, "fail")) == (result, status)
    job = sql.job(attempt["job_id"])
    assert (job["outcome"], job["failure_count"]) == (outcome, failures_before + 1)


def test_snoozes_and_releases_never_use_up_the_budget(sql: Contract, settle: Settle) -> None:
    attempt = sql.new_attempt(max_attempts=1)
    for verb in ("snooze", "release") * 5:
        assert _answer(settle(attempt, verb)) == ("ok", "queued")
        sql.make_due(attempt["job_id"])
        attempt = sql.take()

    assert (attempt["attempt_count"], attempt["failure_count"]) == (11, 0)
    assert sql.job(attempt["job_id"])["snooze_count"] == 5


# -- leases that ran out ----------------------------------------------------------------------------------------


def _expire(sql: Contract, clock: Clock) -> Row:
    """Claim the job, let its lease run out, take it back, and return the row of the take-back."""
    attempt = sql.take()
    clock.forward(seconds=59)
    assert sql.take_back() == []
    clock.forward(seconds=1)
    [row] = sql.take_back()
    assert (row["attempt_id"], row["result"]) == (attempt["attempt_id"], "ok")
    return row


def test_the_third_lease_lost_in_a_row_is_poison(sql: Contract, clock: Clock) -> None:
    """First at once, second after a backoff of one failure, third the end; each burns one of the budget (B06)."""
    job_id = sql.new_job(backoff=timedelta(seconds=100), lease=timedelta(seconds=60), max_attempts=9)

    first = _expire(sql, clock)
    assert (first["status"], first["scheduled_at"]) == ("queued", clock.now)
    assert sql.job(job_id)["expiry_streak"] == sql.job(job_id)["failure_count"] == 1

    second = _expire(sql, clock)
    assert second["status"] == "queued"
    assert 85 <= (second["scheduled_at"] - clock.now).total_seconds() <= 115
    assert sql.job(job_id)["expiry_streak"] == sql.job(job_id)["failure_count"] == 2

    clock.forward(seconds=115)
    third = _expire(sql, clock)
    job = sql.job(job_id)
    assert (third["status"], third["scheduled_at"]) == ("failed", None)
    assert (job["status"], job["outcome"]) == ("failed", "poison")
    assert (job["expiry_streak"], job["failure_count"], job["attempt_count"]) == (3, 3, 3)


@pytest.mark.parametrize("verb", ["fail", "snooze", "release"])
def test_a_settle_of_a_worker_starts_the_count_of_lost_leases_anew(
    sql: Contract, clock: Clock, verb: str
) -> None:
    job_id = sql.new_job(backoff=timedelta(0), lease=timedelta(seconds=60), max_attempts=10)
    for _ in range(3):
        _expire(sql, clock)
        _expire(sql, clock)
        [row] = sql.settle(worker_id="w", settlements=Jsonb([_element(sql.take(), verb)]))
        assert row["status"] == "queued"
        sql.make_due(job_id)

    assert sql.job(job_id)["expiry_streak"] == 0


@pytest.mark.parametrize(
    ("cancel_asked", "streak_before", "failures_before", "status", "outcome", "failures"),
    [
        (True, 2, 4, "cancelled", "cancelled_after_expiry", 4),
        (True, 2, 0, "cancelled", "cancelled_after_expiry", 0),
        (True, 0, 4, "cancelled", "cancelled_after_expiry", 4),
        (True, 0, 0, "cancelled", "cancelled_after_expiry", 0),
        (False, 2, 4, "failed", "poison", 5),
        (False, 2, 0, "failed", "poison", 1),
        (False, 1, 4, "failed", "retry_exhausted", 5),
        (False, 0, 4, "failed", "retry_exhausted", 5),
        (False, 1, 3, "queued", None, 4),
        (False, 0, 0, "queued", None, 1),
    ],
)
def test_reasons_that_meet_at_a_take_back(
    sql: Contract,
    cancel_asked: bool,
    streak_before: int,
    failures_before: int,
    status: str,
    outcome: str | None,
    failures: int,
) -> None:
    """A cancel request goes first, then poison, then the budget."""
    attempt = sql.new_attempt(max_attempts=5)
    sql.run("update taskq.running set expiry_streak = %s, failure_count = %s", streak_before, failures_before)
    if cancel_asked:
        sql.cancel_job(job_id=attempt["job_id"], reason="enough")
    sql.run_out(attempt["job_id"])
    [row] = sql.take_back()
    job = sql.job(attempt["job_id"])

    assert row["status"] == job["status"] == status
    assert job["outcome"] == outcome
    assert (job["failure_count"], job["expiry_streak"]) == (failures, streak_before + 1)
    assert job["reason"] == {"cancelled": "enough", "failed": "the lease ran out", "queued": None}[status]
