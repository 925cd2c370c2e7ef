"""The marks of a job on the records of the log, and the two forms of a line."""

# Scenario B61.

from __future__ import annotations

import json
import logging
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kit.claimed import claimed_job
from taskq_sync.logs import JobLogFilter, JsonFormatter, current_job


@pytest.fixture
def inside() -> Iterator[None]:
    """The handler of a job runs here."""
    token = current_job.set(claimed_job(job_id=12, attempt_count=3, payload_json='{"secret": 1}'))
    yield
    current_job.reset(token)


def record(message: str = "hello", **members: Any) -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "shop", "levelname": "INFO", "levelno": logging.INFO, "msg": message, **members}
    )
    assert JobLogFilter().filter(made)
    return made


def line(made: logging.LogRecord) -> dict[str, Any]:
    text = JsonFormatter().format(made)
    assert "\n" not in text
    parsed = json.loads(text, parse_constant=pytest.fail)
    assert isinstance(parsed, dict)
    return parsed


@pytest.mark.usefixtures("inside")
def test_a_record_in_a_handler_has_its_job() -> None:
    made = record()
    assert (made.job_id, made.job_task, made.job_queue) == (12, "mail.welcome", "mail")  # type: ignore[attr-defined]
    assert (made.job_attempt, made.job_fence) == (3, 70)  # type: ignore[attr-defined]
    shown = logging.Formatter("%(job)s%(message)s").format(made)
    assert shown == "[job 12 mail.welcome attempt 3] hello"


def test_a_record_elsewhere_has_none_and_fits_the_same_format() -> None:
    made = record()
    assert made.job_id is None  # type: ignore[attr-defined]
    assert logging.Formatter("%(job)s%(message)s").format(made) == "hello"


@pytest.mark.usefixtures("inside")
def test_what_a_record_says_of_itself_stays() -> None:
    made = record(job_id=99, job="mine ")
    JobLogFilter().filter(made)
    assert (made.job_id, made.job) == (99, "mine ")  # type: ignore[attr-defined]


@pytest.mark.usefixtures("inside")
def test_a_thread_of_the_handler_does_not_know_the_job() -> None:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(record().job_id))  # type: ignore[attr-defined]
    thread.start()
    thread.join()
    assert seen == [None]


@pytest.mark.usefixtures("inside")
def test_the_payload_goes_nowhere() -> None:
    """A record may be pickled and sent away."""
    made = record()
    assert b"secret" not in pickle.dumps(made.__dict__)
    assert "secret" not in str(line(made))


@pytest.mark.usefixtures("inside")
def test_a_line_of_json() -> None:
    assert line(record("hello %s", args=("you",), created=1772366400.5)) == {
        "time": "2026-03-01T12:00:00.500+00:00",
        "level": "INFO",
        "logger": "shop",
        "message": "hello you",
        "job_id": 12,
        "task": "mail.welcome",
        "queue": "mail",
        "attempt": 3,
        "fence": 70,
    }


def test_a_line_of_json_outside_of_a_job_has_no_fields_of_one() -> None:
    assert set(line(record())) == {"time", "level", "logger", "message"}


def test_an_exception_is_one_text() -> None:
    try:
        raise ValueError("no\nsuch user")
    except ValueError:
        made = record(exc_info=sys.exc_info(), stack_info="Stack:\n  here")
    shown = line(made)
    assert shown["exception"].startswith("Traceback")
    assert shown["exception"].endswith("ValueError: no\nsuch user")
    assert shown["stack"] == "Stack:\n  here"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(7, 7), ({"a": [1]}, {"a": [1]}), (float("nan"), "nan"), (OSError("x"), "x"), ("\udcff", "\udcff")],
)
def test_what_a_program_adds_is_kept_in_some_form(value: object, shown: object) -> None:
    assert line(record(user=value))["extra"] == {"user": shown}


class Awkward:
    """A value of the program that breaks whoever looks at it."""

    def __str__(self) -> str:
        raise RuntimeError("not now")

    __repr__ = __str__


def test_an_extra_that_has_no_text_does_not_cost_the_line() -> None:
    shown = line(record(shape=Awkward(), number=3))
    assert shown["message"] == "hello"
    assert shown["extra"] == {"shape": "<Awkward without a text>", "number": 3}


def test_what_a_record_says_of_itself_is_kept_in_some_form_too() -> None:
    assert line(record(job_id=OSError("x")))["job_id"] == "x"
