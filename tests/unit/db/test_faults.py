"""What an error of the database means."""

# Scenario B64: the class of an error says too little.

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg import errors as pg

from taskq_sync.db import faults
from taskq_sync.errors import (
    BrokenInvariant,
    ConfigError,
    DatabaseUnavailable,
    InvalidInput,
    JobNotFound,
    QueueFull,
    SchemaError,
    TaskQError,
    WrongState,
)


def driver_error(state: str | None, kind: type[psycopg.Error] = psycopg.DatabaseError) -> psycopg.Error:
    error = kind("the server said so\nLINE 1: ...")
    error.sqlstate = state
    return error


class Reported(psycopg.DatabaseError):
    """An error as the server reports one, with its fields."""

    def __init__(self, state: str, message: str, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = state
        self._diag = SimpleNamespace(message_primary=message, message_detail=detail, message_hint=hint)

    @property
    def diag(self) -> Any:
        return self._diag


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("TQ001", JobNotFound),
        ("TQ409", WrongState),
        ("TQ422", InvalidInput),
        ("TQ429", QueueFull),
        ("TQ500", BrokenInvariant),
        ("TQ501", SchemaError),
    ],
)
def test_a_state_of_the_contract_has_a_class(state: str, kind: type[TaskQError]) -> None:
    error = faults.translate(Reported(state, "job 7 is gone", hint="Look again."), "get_job")

    assert type(error) is kind
    assert (error.message, error.hint, error.sqlstate) == ("job 7 is gone", "Look again.", state)


@pytest.mark.parametrize(("detail", "depth"), [("depth 1000", 1000), ("", None), (None, None)])
def test_a_full_queue_tells_its_depth(detail: str | None, depth: int | None) -> None:
    error = faults.translate(Reported("TQ429", "full", detail=detail), "enqueue")

    assert isinstance(error, QueueFull)
    assert error.depth == depth


def test_a_bad_element_is_named_by_its_ordinal() -> None:
    error = faults.translate(Reported("TQ422", "no", detail="ordinal 12"), "enqueue_many")

    assert isinstance(error, InvalidInput)
    assert error.ordinal == 12


def test_the_error_of_another_driver_is_understood_by_its_state() -> None:
    psycopg2_error = Exception("no job 7")
    psycopg2_error.pgcode = "TQ001"  # type: ignore[attr-defined]
    sqlalchemy_error = Exception("(psycopg.Error) no job 7 [SQL: ...]")
    sqlalchemy_error.orig = Reported("TQ001", "no job 7")  # type: ignore[attr-defined]

    for error in (psycopg2_error, sqlalchemy_error):
        understood = faults.contract_error(error)
        assert type(understood) is JobNotFound
        assert understood.message == "no job 7"


def test_an_error_of_somebody_else_is_not_ours() -> None:
    assert faults.contract_error(ValueError()) is None
    assert faults.contract_error(driver_error("40001")) is None


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (driver_error("42883"), SchemaError, "taskq-sync migrate"),
        (driver_error("3F000"), SchemaError, "taskq-sync migrate"),
        (driver_error("42501"), SchemaError, "grant the role USAGE"),
        (driver_error("26000"), ConfigError, "pooled=True"),
        (driver_error("42P05"), ConfigError, "pooled=True"),
        (driver_error("54000", pg.ProgramLimitExceeded), InvalidInput, "could not claim"),
        (driver_error("22P02"), InvalidInput, "could not claim"),
        (driver_error("57014"), DatabaseUnavailable, "could not claim: the server said so"),
        (driver_error("53300"), DatabaseUnavailable, ""),
        (driver_error("ZZ999"), BrokenInvariant, ""),
        (driver_error(None, psycopg.OperationalError), DatabaseUnavailable, ""),
        (driver_error(None, psycopg.ProgrammingError), ConfigError, ""),
        (driver_error(None, psycopg.DataError), InvalidInput, ""),
    ],
)
def test_other_errors_say_what_could_not_be_done(
    error: psycopg.Error, kind: type[TaskQError], words: str
) -> None:
    translated = faults.translate(error, "claim")

    assert type(translated) is kind
    assert words in str(translated)
    assert "LINE 1" not in str(translated)


@pytest.mark.parametrize(
    ("error", "fault", "transient"),
    [
        (driver_error(None, psycopg.OperationalError), True, True),
        (driver_error(None, psycopg.InterfaceError), True, True),
        (driver_error("08006"), True, True),
        (driver_error("57P01", pg.AdminShutdown), True, True),
        (driver_error("25006"), True, True),
        (driver_error("25P03"), True, True),
        (driver_error("40001"), False, True),
        (driver_error("40P01"), False, True),
        (driver_error("55P03"), False, True),
        (driver_error("57014", pg.QueryCanceled), False, True),
        (driver_error("53300", psycopg.OperationalError), False, True),
        (driver_error("54000", psycopg.OperationalError), False, False),
        (driver_error("23505"), False, False),
        (driver_error("28P01", psycopg.OperationalError), False, False),
        (driver_error("3D000", psycopg.OperationalError), False, False),
        (DatabaseUnavailable("no"), True, True),
        (ValueError(), False, False),
    ],
)
def test_is_judged_by_its_state_and_not_by_its_class(
    error: BaseException, fault: bool, transient: bool
) -> None:
    assert faults.is_connection_fault(error) is fault
    assert faults.is_transient(error) is transient


@pytest.mark.parametrize(
    "words",
    [
        'FATAL:  password authentication failed for user "x"',
        "fe_sendauth: no password supplied",
        'FATAL:  database "x" does not exist',
        'FATAL:  role "x" does not exist',
        'FATAL:  no pg_hba.conf entry for host "127.0.0.1"',
        "server does not support SSL, but SSL was required",
    ],
)
def test_a_refused_login_does_not_pass(words: str) -> None:
    assert not faults.is_transient(psycopg.OperationalError(f"connection failed: {words}"))
