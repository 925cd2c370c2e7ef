"""Interrupting a function in another thread: it arrives there, once, and nowhere else."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from taskq_sync import interrupts
from taskq_sync.errors import JobTimeout
from taskq_sync.interrupts import Guard, interruptible, uninterrupted

PATIENCE = 30.0


class Guarded:
    """A thread that runs a function under a guard; what came of it is left here."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.guard: Guard
        self.over = threading.Event()
        self.leave = threading.Event()
        self.leave.set()
        self.value: Any = None
        self.error: BaseException | None = None
        self.stray: BaseException | None = None
        self._function = function
        self._made = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        assert self._made.wait(PATIENCE)

    def _run(self) -> None:
        try:
            self.guard = Guard()
            self._made.set()
            try:
                self.value = self.guard.run(self._function)
            except BaseException as error:
                self.error = error
            self.over.set()
            while not self.leave.is_set():
                pass
            for _ in range(1000):  # where a stray one would arrive
                pass
        except BaseException as error:
            self.stray = error

    def interrupt(self) -> None:
        """Interrupt as soon as that is possible."""
        deadline = time.monotonic() + PATIENCE
        while not self.guard.interrupt(JobTimeout("too long")):
            assert time.monotonic() < deadline

    def join(self) -> None:
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert self.stray is None


def spin(until: threading.Event) -> None:
    deadline = time.monotonic() + PATIENCE
    while not until.is_set():
        assert time.monotonic() < deadline


@pytest.fixture
def release() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


def test_the_function_gets_the_error_with_its_message(release: threading.Event) -> None:
    guarded = Guarded(lambda: spin(release))
    guarded.interrupt()
    guarded.join()
    assert isinstance(guarded.error, JobTimeout)
    assert str(guarded.error) == "too long"
    copy = pickle.loads(pickle.dumps(guarded.error))
    assert (type(copy), str(copy)) == (JobTimeout, "too long")


def test_what_the_function_returns_or_raises_comes_out() -> None:
    assert Guard().run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        Guard().run(lambda: 1 // 0)


def test_a_function_is_interrupted_once(release: threading.Event) -> None:
    def swallow() -> str:
        try:
            spin(release)
        except JobTimeout:
            inside.set()
            spin(release)
        return "swallowed"

    inside = threading.Event()
    guarded = Guarded(swallow)
    guarded.interrupt()
    assert inside.wait(PATIENCE)
    assert not guarded.guard.interrupt(JobTimeout("again"))
    release.set()
    guarded.join()
    assert guarded.value == "swallowed"


def test_nothing_is_sent_before_and_after(release: threading.Event) -> None:
    guarded = Guarded(lambda: 1)
    guarded.join()
    assert not guarded.guard.interrupt(JobTimeout("too late"))
    assert not Guard().interrupt(JobTimeout("too early"))


def test_an_uninterrupted_block_is_left_alone(release: threading.Event) -> None:
    trace: list[str] = []
    inside, exposed = threading.Event(), threading.Event()

    def work() -> None:
        with uninterrupted():
            inside.set()
            spin(release)
            trace.append("safe")
            try:
                with interruptible():
                    exposed.set()
                    spin(threading.Event())
            finally:
                trace.append("left")

    guarded = Guarded(work)
    assert inside.wait(PATIENCE)
    assert not guarded.guard.interrupt(JobTimeout("not here"))
    release.set()
    assert exposed.wait(PATIENCE)
    guarded.interrupt()
    guarded.join()
    assert isinstance(guarded.error, JobTimeout)
    assert trace == ["safe", "left"]


def test_the_blocks_mean_nothing_where_nobody_can_interrupt() -> None:
    with uninterrupted(), interruptible():
        pass


def test_an_interrupt_under_way_at_the_end_is_waited_for(
    release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The function ends after somebody has decided to interrupt it, and before that is done."""
    raise_in = interrupts._raise_in

    def dawdle(thread: int, kind: type[BaseException] | None) -> None:
        if kind is not None:
            guarded.leave.clear()
            release.set()
            assert not guarded.over.wait(0.2)
        raise_in(thread, kind)
        guarded.leave.set()

    monkeypatch.setattr(interrupts, "_raise_in", dawdle)
    guarded = Guarded(lambda: release.wait(PATIENCE))
    guarded.interrupt()
    guarded.join()
    assert isinstance(guarded.error, JobTimeout)


def test_an_interrupt_at_the_very_end_strays_nowhere() -> None:
    """B67, without the waiting: 500 functions that end at the moment when they are interrupted."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    ends = {"value": 0, "error": 0}
    try:
        for round_ in range(500):
            spins = round_ % 50
            go = threading.Event()

            def brief(go: threading.Event = go, spins: int = spins) -> int:
                go.set()
                for _ in range(spins):
                    pass
                return 1

            guarded = Guarded(brief)
            go.wait(PATIENCE)
            sent = guarded.guard.interrupt(JobTimeout("now"))
            guarded.join()
            if guarded.error is None:
                assert guarded.value == 1
                ends["value"] += 1
            else:
                assert sent
                assert isinstance(guarded.error, JobTimeout)
                ends["error"] += 1
    finally:
        sys.setswitchinterval(before)
    assert sum(ends.values()) == 500
