"""The limit of a concurrency key. What a claim makes of it is in test_concurrency_keys.py."""

from __future__ import annotations

from typing import Any

import pytest

from kit.contract import Clock, Contract, refused

LIMITS = "select key, max_running, updated_at from taskq.concurrency_limits"


def test_returns_key_and_max_running(sql: Contract) -> None:
    assert sql.columns("set_concurrency_limit", key="k", max_running=2) == ["key", "max_running"]


@pytest.mark.parametrize("max_running", [0, 1, 2, 1_000_000])
def test_stores_the_limit(sql: Contract, clock: Clock, max_running: int) -> None:
    assert sql.set_concurrency_limit(key="k", max_running=max_running) == [
        {"key": "k", "max_running": max_running}
    ]
    assert sql.rows(LIMITS) == [{"key": "k", "max_running": max_running, "updated_at": clock.now}]


def test_replaces_the_limit(sql: Contract, clock: Clock) -> None:
    sql.set_concurrency_limit(key="k", max_running=2)
    clock.forward(seconds=1)
    for _ in range(2):
        assert sql.set_concurrency_limit(key="k", max_running=3) == [{"key": "k", "max_running": 3}]

    assert sql.rows(LIMITS) == [{"key": "k", "max_running": 3, "updated_at": clock.now}]


def test_null_brings_the_default_back(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=2)
    for _ in range(2):
        assert sql.set_concurrency_limit(key="k", max_running=None) == [{"key": "k", "max_running": 1}]

    assert sql.rows(LIMITS) == []


def test_leaves_an_audit_row(sql: Contract) -> None:
    sql.set_concurrency_limit(key="k", max_running=2, actor="ann", reason="bigger machine")

    assert sql.rows("select actor, verb, target, reason, detail from taskq.audit") == [
        {
            "actor": "ann",
            "verb": "set_concurrency_limit",
            "target": "key k",
            "reason": "bigger machine",
            "detail": {"max_running": 2},
        }
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key": None}, "p_key must be 1 to 255 bytes"),
        ({"key": ""}, "p_key must be 1 to 255 bytes"),
        ({"key": "é" * 128}, "p_key must be 1 to 255 bytes"),
        ({"max_running": -1}, 'max_running -1 of key "k" is outside 0 to 1000000'),
        ({"max_running": 1_000_001}, 'max_running 1000001 of key "k" is outside 0 to 1000000'),
    ],
)
def test_refuses_what_is_out_of_bounds(sql: Contract, arguments: dict[str, Any], message: str) -> None:
    with refused("TQ422", message):
        sql.set_concurrency_limit(**{"key": "k", "max_running": 1, **arguments})
    assert sql.rows(LIMITS) == []


# -- patterns ---------------------------------------------------------------------------------------------------


def test_a_pattern_is_the_limit_of_each_key_that_begins_so(sql: Contract) -> None:
    sql.set_concurrency_limit(key="user:*", max_running=2)
    for key in ("user:1", "user:2", "use"):
        for _ in range(3):
            sql.new_job(concurrency_key=key)
    claimed = [row["concurrency_key"] for row in sql.claim(queues=["q"], worker_id="w", limit=100)]

    assert claimed == ["user:1", "user:1", "user:2", "user:2", "use"]


def test_the_limit_of_the_key_goes_before_and_then_the_longest_pattern(sql: Contract) -> None:
    for key, limit in {"*": 1, "user:*": 2, "user:vip*": 3, "user:vip1": 0}.items():
        sql.set_concurrency_limit(key=key, max_running=limit)

    def limit_of(key: str) -> int:
        return int(sql.value("select max_running from taskq.key_limits(array[%s])", key))

    assert [limit_of(key) for key in ("x", "user:7", "user:vip7", "user:vip1")] == [1, 2, 3, 0]


def test_a_raised_pattern_brings_back_what_it_held(sql: Contract) -> None:
    sql.set_concurrency_limit(key="user:*", max_running=0)
    jobs = {sql.new_job(concurrency_key=f"user:{n}") for n in range(3)}
    other = sql.new_job(concurrency_key="other")
    assert [row["job_id"] for row in sql.claim(queues=["q"], worker_id="w", limit=100)] == [other]
    sql.set_concurrency_limit(key="user:*", max_running=1)

    assert {row["job_id"] for row in sql.claim(queues=["q"], worker_id="w", limit=100)} == jobs


def test_characters_of_like_mean_themselves(sql: Contract) -> None:
    sql.set_concurrency_limit(key="a%_*", max_running=5)

    assert [
        sql.value("select max_running from taskq.key_limits(array[%s])", key) for key in ("a%_b", "axyz")
    ] == [5, 1]


def test_null_says_which_limit_holds_then(sql: Contract) -> None:
    sql.set_concurrency_limit(key="user:*", max_running=2)
    sql.set_concurrency_limit(key="user:7", max_running=5)

    assert sql.set_concurrency_limit(key="user:7", max_running=None) == [{"key": "user:7", "max_running": 2}]
    assert sql.set_concurrency_limit(key="user:*", max_running=None) == [{"key": "user:*", "max_running": 1}]
