"""Unique keys beyond `keep`: what a second request does to the holder, and how long a key counts."""

# Scenarios B31, B32, B35, B36.

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from kit.contract import Clock, Contract, Row, refused

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


def again(sql: Contract, **arguments: Any) -> tuple[str, int]:
    """Ask for the key `k` once more and return the answer."""
    [row] = sql.enqueue(**{"queue": "q", "task": "t", "unique_key": "k", **arguments})
    return row["status"], row["job_id"]


def many(sql: Contract, *jobs: Row) -> list[tuple[str, int]]:
    rows = sql.enqueue_many(queue="q", jobs=Jsonb([{"task": "t", **job} for job in jobs]))
    return [(row["status"], row["job_id"]) for row in rows]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            {"unique_key": "k", "unique_mode": "overwrite"},
            'unique_mode must be keep, replace or replace_keep_schedule, not "overwrite"',
        ),
        ({"unique_key": "k", "unique_scope": "all"}, 'unique_scope must be live or waiting, not "all"'),
        ({"unique_key": "k", "unique_for": timedelta(0)}, "is outside 0 to 366 days"),
        ({"unique_key": "k", "unique_for": timedelta(days=367)}, "is outside 0 to 366 days"),
        ({"unique_mode": "replace"}, "need a unique_key"),
        ({"unique_scope": "waiting"}, "need a unique_key"),
        ({"unique_for": HOUR}, "need a unique_key"),
    ],
)
def test_refuses_what_cannot_be(sql: Contract, arguments: Row, why: str) -> None:
    with refused("TQ422", why):
        sql.enqueue(queue="q", task="t", **arguments)


class TestReplace:
    def test_gives_a_waiting_job_the_new_request(self, sql: Contract, clock: Clock) -> None:
        holder = sql.new_job(unique_key="k", payload={"n": 1}, delay=HOUR, ttl=HOUR, headers={"a": 1})
        request = {
            "task": "u",
            "payload": {"n": 2},
            "priority": 3,
            "delay": MINUTE,
            "concurrency_key": "c",
            "max_attempts": 9,
            "backoff": MINUTE,
            "backoff_max": HOUR,
            "lease": MINUTE,
            "ttl": DAY,
            "headers": {"b": 2},
        }
        before = sql.job(holder)

        assert again(sql, unique_mode="replace", **request) == ("replaced", holder)

        expected = sql.job(sql.new_job(unique_key="other", **request))
        assert sql.job(holder) == {
            **expected, "id": holder, "unique_key": "k", "created_at": before["created_at"]
        }  # fmt: skip

    def test_moves_the_time_which_is_a_debounce(self, sql: Contract, clock: Clock) -> None:
        holder = sql.new_job(unique_key="k", delay=MINUTE)
        clock.forward(seconds=30)
        again(sql, unique_mode="replace", delay=MINUTE)

        assert sql.job(holder)["scheduled_at"] == clock.now + MINUTE

    def test_keeps_the_time_if_asked_to_which_is_a_throttle(self, sql: Contract, clock: Clock) -> None:
        holder = sql.new_job(unique_key="k", delay=MINUTE, payload={"n": 1})
        due = clock.now + MINUTE
        clock.forward(seconds=30)

        answer = again(sql, unique_mode="replace_keep_schedule", delay=HOUR, payload={"n": 2}, ttl=HOUR)

        assert answer == ("replaced", holder)
        job = sql.job(holder)
        assert (job["scheduled_at"], job["expires_at"], job["payload"]) == (due, due + HOUR, {"n": 2})

    def test_leaves_a_running_job_as_it_is_and_says_so(self, sql: Contract) -> None:
        attempt = sql.new_attempt(unique_key="k", payload={"n": 1})

        assert again(sql, unique_mode="replace", payload={"n": 2}) == ("running", attempt["job_id"])
        assert sql.job(attempt["job_id"])["payload"] == {"n": 1}

    def test_starts_the_budget_anew_and_drops_the_checkpoint_but_not_the_history(self, sql: Contract) -> None:
        attempt = sql.new_attempt(unique_key="k", max_attempts=2)
        sql.fail(
            job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="x", progress={"at": 7},
            retry_after=HOUR,
        )  # fmt: skip
        again(sql, unique_mode="replace", max_attempts=2)

        [ready] = sql.rows("select failure_count, attempt_count, progress from taskq.ready")
        assert ready == {"failure_count": 0, "attempt_count": 1, "progress": None}
        assert len(sql.job_history(job_id=attempt["job_id"])) == 1

    def test_takes_a_job_off_hold_and_frees_the_key_it_had(self, sql: Contract) -> None:
        sql.new_job(concurrency_key="c")
        held = sql.new_job(concurrency_key="c", unique_key="k")
        sql.claim(queues=["q"], worker_id="w", limit=10)
        assert sql.value("select hold from taskq.ready where id = %s", held) == "key"

        again(sql, unique_mode="replace", concurrency_key="d")

        assert sql.take()["job_id"] == held

    def test_wakes_who_sleeps(self, sql: Contract, heard) -> None:
        sql.new_job(unique_key="k", delay=HOUR)
        heard()
        again(sql, unique_mode="replace")

        assert heard() == ["q"]

    def test_the_last_of_a_batch_counts(self, sql: Contract) -> None:
        first, second, third = many(
            sql,
            *({"unique_key": "k", "unique_mode": "replace", "payload": {"n": n}} for n in range(3)),
        )
        assert [status for status, _ in (first, second, third)] == ["created", "replaced", "replaced"]
        assert sql.take()["payload"] == {"n": 2}
        assert {job_id for _, job_id in (first, second, third)} == {first[1]}

    def test_a_batch_may_hold_every_mode(self, sql: Contract) -> None:
        waiting = sql.new_job(unique_key="waiting", delay=HOUR)
        running = sql.new_attempt(unique_key="running")["job_id"]
        found = many(
            sql,
            {"unique_key": "new", "unique_mode": "replace"},
            {"unique_key": "running", "unique_mode": "replace"},
            {},
            {"unique_key": "waiting"},
            {"unique_key": "waiting", "unique_mode": "replace_keep_schedule"},
        )

        assert [status for status, _ in found] == ["created", "running", "created", "existed", "replaced"]
        assert [job_id for _, job_id in found][1::2] == [running, waiting]

    def test_a_rollback_takes_it_back(self, sql: Contract) -> None:
        holder = sql.new_job(unique_key="k", payload={"n": 1})
        before = sql.job(holder)
        with sql.conn.transaction(force_rollback=True):
            again(sql, unique_mode="replace", payload={"n": 2}, priority=5)

        assert sql.job(holder) == before


class TestScopeWaiting:
    def test_makes_a_follower_once_the_holder_has_been_started(self, sql: Contract) -> None:
        holder = sql.new_job(unique_key="k", unique_scope="waiting")
        assert again(sql, unique_scope="waiting") == ("existed", holder)
        sql.take()

        status, follower = again(sql, unique_scope="waiting")

        assert (status, follower > holder) == ("created", True)
        assert again(sql, unique_scope="waiting") == ("existed", follower)

    @pytest.mark.parametrize("verb", ["snooze", "release"])
    def test_a_job_that_goes_back_takes_its_key_again(self, sql: Contract, verb: str) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_scope="waiting")
        getattr(sql, verb)(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], delay=HOUR)

        assert again(sql, unique_scope="waiting") == ("existed", attempt["job_id"])
        sql.make_due(attempt["job_id"])
        sql.take()
        assert again(sql, unique_scope="waiting")[0] == "created"

    def test_a_job_that_goes_back_is_queued_without_a_key_that_its_follower_has(self, sql: Contract) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_scope="waiting")
        _, follower = again(sql, unique_scope="waiting", delay=HOUR)
        sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

        assert again(sql, unique_scope="waiting") == ("existed", follower)
        assert sql.take()["job_id"] == attempt["job_id"]
        assert again(sql, unique_scope="waiting") == ("existed", follower)

    def test_a_retry_and_its_follower_are_claimed_together_and_hold_nobody_up(self, sql: Contract) -> None:
        """B31: whatever a key has become, it is no matter of the claim, which could fail at each poll."""
        attempt = sql.new_attempt(unique_key="k", unique_scope="waiting", backoff=HOUR)
        _, follower = again(sql, unique_scope="waiting", delay=HOUR)
        sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom")
        others = [sql.new_job() for _ in range(5)]
        sql.make_due(attempt["job_id"])
        sql.make_due(follower)

        claimed = sql.claim(queues=["q"], worker_id="w", limit=10)

        assert {row["job_id"] for row in claimed} == {attempt["job_id"], follower, *others}
        assert again(sql, unique_scope="waiting")[0] == "created"

    def test_a_retry_is_no_duplicate_of_itself(self, sql: Contract) -> None:
        """B36."""
        attempt = sql.new_attempt(unique_key="k", backoff=timedelta(0))
        for _ in range(3):
            sql.fail(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"], error="boom")
            assert again(sql) == ("existed", attempt["job_id"])
            attempt = sql.take()

    def test_a_taken_back_job_takes_its_key_again(self, sql: Contract) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_scope="waiting")
        sql.run_out(attempt["job_id"])
        sql.take_back()

        assert again(sql, unique_scope="waiting") == ("existed", attempt["job_id"])

    @pytest.mark.parametrize("followed", [False, True])
    def test_the_end_of_the_holder_leaves_the_follower_its_key(self, sql: Contract, followed: bool) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_scope="waiting")
        follower = again(sql, unique_scope="waiting")[1] if followed else None
        sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

        status, job_id = again(sql, unique_scope="waiting")

        assert (status, job_id == follower) == (("existed", True) if followed else ("created", False))

    def test_a_live_job_that_took_a_free_key_holds_it_while_it_runs(self, sql: Contract) -> None:
        sql.new_attempt(unique_key="k", unique_scope="waiting")
        _, follower = again(sql)
        assert sql.take()["job_id"] == follower

        assert again(sql, unique_scope="waiting") == ("existed", follower)

    def test_replace_rewrites_the_scope(self, sql: Contract) -> None:
        holder = sql.new_job(unique_key="k")
        again(sql, unique_mode="replace", unique_scope="waiting")
        sql.take()

        assert again(sql)[1] != holder

    def test_a_batch_takes_free_keys_and_new_ones(self, sql: Contract) -> None:
        sql.enqueue_many(
            queue="q",
            jobs=Jsonb(
                [{"task": "t", "unique_key": f"{n}", "unique_scope": "waiting"} for n in range(0, 200, 2)]
            ),
        )
        sql.claim(queues=["q"], worker_id="w", limit=200)
        found = many(sql, *({"unique_key": f"{n}", "unique_scope": "waiting"} for n in reversed(range(200))))

        assert {status for status, _ in found} == {"created"}
        assert sql.value("select count(*) from taskq.unique_keys where not free") == 200

    def test_what_it_leaves_behind_is_pruned(self, sql: Contract, clock: Clock) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_scope="waiting")
        sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
        clock.forward(days=3)
        sql.prune()

        assert sql.value("select count(*) from taskq.unique_keys") == 0

    def test_a_caller_that_kept_the_holder_from_being_started_wakes_who_looked(
        self, sql: Contract, heard
    ) -> None:
        """Its transaction may have been open for long; an autocommit call was too short to matter."""
        holder = sql.new_job(unique_key="k", unique_scope="waiting")
        heard()
        assert again(sql, unique_scope="waiting", skip_wake=True) == ("existed", holder)
        assert heard() == []
        assert again(sql, unique_scope="waiting") == ("existed", holder)
        assert heard() == ["q"]


class TestFor:
    @pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
    def test_counts_until_then_whatever_the_job_does(self, sql: Contract, clock: Clock, end: str) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_for=HOUR)
        fence = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
        if end == "complete":
            sql.complete(**fence)
        elif end == "fail":
            sql.fail(**fence, error="x", retryable=False)
        else:
            sql.cancel_attempt(**fence)
        clock.forward(minutes=59)
        for mode in ("keep", "replace"):
            assert again(sql, unique_mode=mode) == ("existed", attempt["job_id"])
        clock.forward(minutes=1)

        status, job_id = again(sql)

        assert (status, job_id > attempt["job_id"]) == ("created", True)
        assert again(sql) == ("existed", job_id)

    def test_counts_as_long_as_the_job_lives_where_that_is_longer(self, sql: Contract, clock: Clock) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_for=MINUTE)
        clock.forward(hours=1)
        assert again(sql) == ("existed", attempt["job_id"])
        sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

        assert again(sql)[0] == "created"

    def test_counts_when_the_job_was_cancelled_before_it_started(self, sql: Contract, clock: Clock) -> None:
        holder = sql.new_job(unique_key="k", unique_for=HOUR)
        sql.cancel_job(job_id=holder)

        assert again(sql) == ("existed", holder)
        clock.forward(hours=1)
        assert again(sql)[0] == "created"

    def test_retention_waits_for_it(self, sql: Contract, clock: Clock) -> None:
        cancelled = sql.new_job(unique_key="c", unique_for=timedelta(days=30))
        sql.cancel_job(job_id=cancelled)
        attempt = sql.new_attempt(unique_key="k", unique_for=timedelta(days=30))
        sql.complete(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])
        clock.forward(days=29)
        assert sql.value("select taskq.prune()") == 0
        assert again(sql) == ("existed", attempt["job_id"])
        clock.forward(days=1)

        assert sql.value("select taskq.prune()") == 2
        assert sql.value("select count(*) from taskq.unique_keys") == 0

    def test_with_scope_waiting_counts_as_long_as_the_longer_of_both(
        self, sql: Contract, clock: Clock
    ) -> None:
        holder = sql.new_attempt(unique_key="k", unique_for=HOUR, unique_scope="waiting")["job_id"]
        assert again(sql) == ("existed", holder)
        clock.forward(hours=1)

        assert again(sql)[0] == "created"

    def test_a_replace_meets_a_holder_of_scope_waiting_that_has_begun(
        self, sql: Contract, clock: Clock
    ) -> None:
        attempt = sql.new_attempt(unique_key="k", unique_for=HOUR, unique_scope="waiting")
        fence = {"job_id": attempt["job_id"], "attempt_id": attempt["attempt_id"]}
        assert again(sql, unique_mode="replace") == ("running", attempt["job_id"])
        assert (
            many(sql, {"unique_key": "k", "unique_mode": "replace"}, {"unique_key": "l"})[0][0] == "running"
        )
        sql.complete(**fence)

        assert again(sql, unique_mode="replace") == ("existed", attempt["job_id"])

    def test_repeated_replacing_does_not_prolong_what_created_at_says(
        self, sql: Contract, clock: Clock
    ) -> None:
        holder = sql.new_job(unique_key="k", unique_for=HOUR)
        clock.forward(minutes=30)
        again(sql, unique_mode="replace")
        attempt = sql.take()
        sql.complete(job_id=holder, attempt_id=attempt["attempt_id"])
        clock.forward(minutes=30)

        assert again(sql)[0] == "created"


class TestDepth:
    def test_refuses_what_would_make_a_bounded_queue_too_deep(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=3)
        for _ in range(3):
            sql.new_job()
        with refused("TQ429", 'queue "q" is full: 3 jobs wait, its max_depth is 3', hint="max_depth"):
            sql.enqueue(queue="q", task="t")
        sql.take()

        assert sql.new_job()

    def test_counts_delayed_and_held_jobs_too(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=3)
        for _ in range(2):
            sql.new_job(concurrency_key="c")
        sql.claim(queues=["q"], worker_id="w", limit=10)
        sql.new_job(delay=HOUR)
        sql.new_job(delay=HOUR)

        with refused("TQ429", "3 jobs wait"):
            sql.enqueue(queue="q", task="t")

    def test_counts_no_other_queue(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=1)
        for queue in ("p", "r"):
            sql.new_job(queue=queue)

        assert sql.new_job()

    def test_a_duplicate_is_welcome_in_a_full_queue(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=1)
        holder = sql.new_job(unique_key="k")

        assert again(sql) == ("existed", holder)
        assert again(sql, unique_mode="replace") == ("replaced", holder)

    def test_a_batch_is_stored_whole_or_not_at_all(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=3)
        sql.new_job(unique_key="k")
        with refused(
            "TQ429", 'queue "q" has no room for 3 more jobs: 1 wait, its max_depth is 3', hint="caught up"
        ):
            many(sql, {}, {}, {"unique_key": "n"})
        assert sql.value("select count(*) from taskq.jobs") == 1

        assert [status for status, _ in many(sql, {}, {"unique_key": "k"}, {})] == [
            "created",
            "existed",
            "created",
        ]

    def test_a_batch_that_never_fits_is_told_so(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=2)
        with refused("TQ429", "has no room for 3 more jobs: 0 wait", hint="fewer jobs in one call"):
            many(sql, {}, {}, {})

    def test_a_retry_is_never_refused(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=1)
        attempt = sql.new_attempt()
        sql.new_job()
        [answer] = sql.release(job_id=attempt["job_id"], attempt_id=attempt["attempt_id"])

        assert answer["result"] == "ok"

    def test_the_bound_can_be_taken_away(self, sql: Contract) -> None:
        sql.set_queue(queue="q", max_depth=1)
        sql.new_job()
        sql.set_queue(queue="q", reset=["max_depth"])

        assert sql.new_job()
