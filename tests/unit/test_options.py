"""The options of a job: their checks, and how a call's go over a task's."""

# Scenarios B39, B52, B59.

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskq_sync.errors import InvalidInput
from taskq_sync.options import JobOptions, OptionValues, check_name

NOON = datetime(2026, 2, 3, 12, tzinfo=timezone.utc)
FIELDS = [each.name for each in attrs.fields(JobOptions)]


def test_the_fields_are_the_parameters_of_the_sql_function(sql_root: Path) -> None:
    text = (sql_root / "functions/producer/enqueue.sql").read_text()
    parameters = re.findall(r"^  p_(\w+) ", text, re.MULTILINE)

    assert sorted(parameters) == sorted(["queue", "task", "payload", *FIELDS, "skip_wake"])


def test_the_fields_are_the_properties_of_a_request_in_bulk(sql_root: Path) -> None:
    text = (sql_root / "types/new_job.sql").read_text()
    fields = re.findall(r"^  (\w+) ", text, re.MULTILINE)

    assert fields == ["task", "payload", *FIELDS]


def test_the_keyword_arguments_are_the_fields() -> None:
    assert list(OptionValues.__annotations__) == FIELDS


def test_seconds_become_timedelta() -> None:
    options = JobOptions(delay=1.5, backoff=0, backoff_max=60, lease=30, ttl=timedelta(days=1))

    assert options.delay == timedelta(seconds=1.5)
    assert options.backoff == timedelta(0)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"priority": 40000}, "priority must be -32768 to 32767"),
        ({"priority": True}, "priority must be an int"),
        ({"max_attempts": 0}, "max_attempts must be 1 to 100000"),
        ({"max_attempts": 2.0}, "max_attempts must be an int"),
        ({"delay": timedelta(days=367)}, "delay must be 0:00:00 to 366 days"),
        ({"delay": -1}, "delay must not be negative"),
        ({"delay": "1"}, "delay must be seconds or a timedelta"),
        ({"lease": 0.01}, "lease must be"),
        ({"lease": 90000}, "lease must be"),
        ({"ttl": 0}, "ttl must be"),
        ({"ttl": timedelta(days=367)}, "ttl must be"),
        ({"backoff": timedelta(days=400)}, "backoff must be"),
        ({"unique_key": ""}, "unique_key must have 1 to 255 bytes"),
        ({"unique_key": "é" * 128}, "unique_key must have 1 to 255 bytes, it has 256"),
        ({"concurrency_key": 7}, "concurrency_key must be a str"),
        ({"unique_key": "a\x00"}, r"holds \\x00"),
        ({"concurrency_key": "\udce9"}, r"holds \\udce9"),
        ({"scheduled_at": datetime(2026, 2, 3)}, "has no time zone: use an aware datetime"),
        ({"scheduled_at": NOON.replace(year=1969)}, "is earlier than 1970"),
        ({"scheduled_at": "2026-02-03"}, "scheduled_at must be a datetime"),
        ({"headers": [1]}, "headers must be a mapping"),
        ({"unique_mode": "skip"}, "unique_mode must be keep, replace or replace_keep_schedule, not 'skip'"),
        ({"unique_scope": "running"}, "unique_scope must be live or waiting, not 'running'"),
        ({"unique_for": 0}, "unique_for must be"),
        ({"unique_for": timedelta(days=367)}, "unique_for must be"),
        ({"delay": 1, "scheduled_at": NOON}, "either delay or scheduled_at"),
    ],
)
def test_refuses_by_name_and_value(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        JobOptions(**values)


def test_what_is_set_goes_over_what_is_below() -> None:
    below = JobOptions(priority=1, max_attempts=3)

    assert JobOptions(priority=2).merged_over(below) == JobOptions(priority=2, max_attempts=3)
    assert JobOptions().merged_over(below) == below


def test_a_zero_is_set() -> None:
    assert JobOptions(priority=0, backoff=0).merged_over(JobOptions(priority=5, backoff=9)) == JobOptions(
        priority=0, backoff=0
    )


def test_a_delay_goes_over_a_time_and_a_time_over_a_delay() -> None:
    assert JobOptions(delay=5).merged_over(JobOptions(scheduled_at=NOON)) == JobOptions(delay=5)
    assert JobOptions(scheduled_at=NOON).merged_over(JobOptions(delay=5)) == JobOptions(scheduled_at=NOON)


@pytest.mark.parametrize("name", ["", "é" * 61, "a\x00", "a\n", "\x7f", None, 7])
def test_refuses_a_bad_name(name: object) -> None:
    with pytest.raises(InvalidInput, match="queue"):
        check_name(name, "queue")


def test_takes_names_with_any_other_character() -> None:
    check_name("mail/%s {0} '\" 🐘", "queue")


def test_no_field_is_forgotten_when_merging() -> None:
    values: dict[str, Any] = {
        "priority": 1, "scheduled_at": NOON, "unique_key": "u", "concurrency_key": "c", "max_attempts": 2,
        "backoff": 1, "backoff_max": 2, "lease": 3, "ttl": 4, "headers": {"a": 1},
        "unique_mode": "replace", "unique_scope": "waiting", "unique_for": 5, "ordered": True,
    }  # fmt: skip

    assert JobOptions(**values).merged_over(JobOptions()) == JobOptions(**values)
    assert {*values, "delay"} == set(FIELDS)


@pytest.mark.parametrize(
    ("values", "seconds"),
    [
        ({}, 0),
        ({"unique_for": 60}, 0),
        ({"unique_key": "u"}, math.inf),
        ({"unique_key": "u", "unique_mode": "replace"}, math.inf),
        ({"unique_key": "u", "unique_scope": "waiting"}, 0),
        ({"unique_key": "u", "unique_scope": "waiting", "unique_for": 60}, 60),
    ],
)
def test_may_be_sent_again_while_the_key_holds_the_two_together(
    values: dict[str, Any], seconds: float
) -> None:
    assert JobOptions(**values).repeatable_for == seconds
