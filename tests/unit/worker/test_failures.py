"""The text kept of an exception."""

# Scenarios B59, B61, B63, B64.

from __future__ import annotations

import os

import pytest

from taskq_sync.worker.failures import describe, headline


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_begins_with_type_and_message_and_shows_where_it_was_raised() -> None:
    text = describe(raised(ValueError("no such user")))
    assert text.startswith("ValueError: no such user\n")
    assert "test_failures.py" in text
    assert "raise error" in text


class OddError(Exception):
    __module__ = "shop.errors"


def test_names_the_module_of_a_type_that_is_no_builtin() -> None:
    assert headline(OddError("odd")) == "shop.errors.OddError: odd"


def test_an_exception_without_message_is_its_type() -> None:
    assert describe(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_shows_the_cause() -> None:
    try:
        try:
            raise KeyError("user_id")
        except KeyError as error:
            raise ValueError("bad row") from error
    except ValueError as error:
        text = describe(error)
    assert text.startswith("ValueError: bad row")
    assert "KeyError: 'user_id'" in text


@pytest.mark.parametrize(
    ("message", "shown"),
    [("bad\x00byte", "bad\\x00byte"), (os.fsdecode(b"caf\xe9.txt"), "caf\\udce9.txt")],
)
def test_escapes_what_postgresql_cannot_store(message: str, shown: str) -> None:
    text = describe(raised(OSError(message)))
    assert shown in text
    text.encode("utf-8")


def test_escapes_also_in_names_and_notes() -> None:
    error = type("Odd", (Exception,), {"__module__": "shop\udce9", "__qualname__": "Odd\x00Error"})("bad")
    error.__notes__ = ["noted\x00here", "\udce9"]
    text = describe(raised(error))
    assert text.startswith("shop\\udce9.Odd\\x00Error: bad\n")
    assert "\x00" not in text
    text.encode("utf-8")


def test_survives_an_exception_whose_str_raises() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "its __str__ raised RuntimeError" in describe(raised(Hostile()))


def test_survives_an_exception_whose_str_ends_the_process() -> None:
    class Hostile(Exception):
        def __str__(self) -> str:
            raise SystemExit(1)

    assert "its __str__ raised SystemExit" in describe(raised(Hostile()))


def test_cuts_the_middle_and_keeps_head_and_tail() -> None:
    text = describe(raised(ValueError("é" * 3_000_000 + "the end")))
    assert len(text.encode()) <= 8192
    assert text.startswith("ValueError: éé")
    assert text.endswith("the end")


def test_a_deep_recursion_shows_the_innermost_frames_only() -> None:
    def dive() -> None:
        dive()

    with pytest.raises(RecursionError) as caught:
        dive()
    text = describe(caught.value)
    assert text.startswith("RecursionError")
    assert text.count("in dive") <= 20
    assert len(text.encode()) <= 8192


def test_leaves_out_the_frames_of_this_package() -> None:
    from taskq_sync.clock import as_duration

    with pytest.raises(ValueError, match="negative") as caught:
        as_duration(-1, "delay")
    caught.value.__traceback__ = caught.value.__traceback__.tb_next if caught.value.__traceback__ else None
    assert "clock.py" not in describe(caught.value)
