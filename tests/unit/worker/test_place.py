"""What comes after a process that has ended, and how a supervisor judges the end of all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from attrs import define

from taskq_sync.worker.supervisor import place as places
from taskq_sync.worker.supervisor.place import LONGEST_PAUSE, STEADY_AFTER, Place
from taskq_sync.worker.supervisor.supervisor import worst
from taskq_sync.worker.worker import EXIT_JOBS_FAILED


@define
class FakeProcess:
    """A process whose life the test decides."""

    pid: int
    serves_since: float | None = None
    spent: str | None = None
    refused: bool = False
    code: int | None = None
    stops: int = 0

    def hear(self) -> None: ...

    def stop(self) -> None:
        self.stops += 1

    def close(self) -> None: ...


class Stage:
    """A place, a clock that the test moves on, and the processes that were started."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.started: list[FakeProcess] = []
        self.hopeless: Callable[[Place, bool], bool] = lambda place, refused: False
        self.no_room = False
        self.place = Place(0, self._start, lambda place, refused: self.hopeless(place, refused))
        self.place.due_at = self.now

    def _start(self, index: int) -> Any:
        if self.no_room:
            raise OSError("no room")
        self.started.append(FakeProcess(pid=100 + len(self.started)))
        return self.started[-1]

    def begin(self, *, serves: bool = True) -> FakeProcess:
        """Let a process start that is due."""
        before = len(self.started)
        self.place.look()
        assert len(self.started) == before + 1, "nothing was due"
        process = self.started[-1]
        process.serves_since = self.now if serves else None
        return process

    def end(self, code: int) -> float:
        """Let the process end, and return the seconds until the next one is due."""
        self.started[-1].code = code
        self.place.look()
        return self.place.due_at - self.now

    def pass_pause(self) -> None:
        self.now = self.place.due_at


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr(places, "monotonic", lambda: made.now)
    return made


def test_pauses_double_from_death_to_death_up_to_a_minute(stage: Stage) -> None:
    pauses = []
    for _ in range(9):
        stage.begin()
        pauses.append(stage.end(-9))
        stage.pass_pause()
    for pause, expected in zip(pauses, [1, 2, 4, 8, 16, 32, 60, 60, 60], strict=True):
        assert 0.85 * expected <= pause <= 1.15 * expected
    assert max(pauses) <= 1.15 * LONGEST_PAUSE


def test_nothing_starts_before_the_pause_is_over(stage: Stage) -> None:
    stage.begin()
    stage.end(1)
    stage.now = stage.place.due_at - 0.001
    stage.place.look()
    assert len(stage.started) == 1


def test_a_process_that_has_served_for_a_while_dies_for_the_first_time(stage: Stage) -> None:
    for _ in range(5):
        stage.begin()
        stage.end(1)
        stage.pass_pause()
    stage.begin()
    stage.now += STEADY_AFTER
    assert stage.end(1) < 1.2


def test_one_that_took_long_to_die_before_it_served_does_not(stage: Stage) -> None:
    for _ in range(5):
        stage.begin()
        stage.end(1)
        stage.pass_pause()
    stage.begin(serves=False)
    stage.now += STEADY_AFTER
    assert stage.end(1) > 10


@pytest.mark.parametrize("code", [0, 3, 4])
def test_a_spent_process_is_replaced_at_once(stage: Stage, code: int) -> None:
    for _ in range(3):
        stage.begin().spent = "it has run 10 jobs"
        assert stage.end(code) == 0


def test_jobs_that_failed_in_a_spent_process_count_at_the_end(stage: Stage) -> None:
    """Its successor, which may find nothing to do, does not make up for them."""
    stage.begin().spent = "it has run 10 jobs"
    stage.end(EXIT_JOBS_FAILED)
    stage.begin()
    stage.end(0)
    assert (stage.place.left, stage.place.code) == (True, EXIT_JOBS_FAILED)


@pytest.mark.parametrize("code", [1, -9])
def test_a_spent_process_that_dies_all_the_same_counts_as_dead(stage: Stage, code: int) -> None:
    stage.begin().spent = "it has run 10 jobs"
    assert stage.end(code) > 0.8


@pytest.mark.parametrize("code", [0, 4])
def test_a_process_that_ended_as_it_was_to_is_not_replaced(stage: Stage, code: int) -> None:
    stage.begin()
    assert stage.end(code) == math.inf
    assert (stage.place.left, stage.place.code) == (True, code)


def test_where_there_is_no_hope_the_place_is_left_with_the_code(stage: Stage) -> None:
    asked: list[tuple[int, int, bool]] = []

    def hopeless(place: Place, refused: bool) -> bool:
        asked.append((place.code, place.failed_starts, refused))
        return len(asked) == 3

    stage.hopeless = hopeless
    for code, refused in ((5, False), (69, False), (7, True)):
        process = stage.begin(serves=False)
        process.refused = refused
        stage.end(code)
        if not stage.place.left:
            stage.pass_pause()
    assert asked == [(5, 1, False), (69, 1, False), (7, 2, True)], "a silent database is no failed start"
    assert (stage.place.left, stage.place.code) == (True, 7)


def test_a_system_without_room_for_a_process_is_tried_again(stage: Stage) -> None:
    stage.no_room = True
    stage.place.look()
    assert (stage.place.failed_starts, stage.place.code, stage.place.left) == (1, 1, False)
    stage.no_room = False
    stage.pass_pause()
    stage.begin()


def test_nothing_starts_after_a_stop(stage: Stage) -> None:
    stage.begin()
    stage.end(1)
    stage.place.stop()
    assert (stage.place.left, stage.place.code) == (True, 0)
    stage.pass_pause()
    stage.place.look()
    assert len(stage.started) == 1


@pytest.mark.parametrize(
    ("serves", "code", "counts"),
    [(True, 0, 0), (True, 3, 3), (True, -9, -9), (False, -15, 0), (False, 69, 69)],
)
def test_a_stop_waits_for_the_process_and_keeps_its_code(
    stage: Stage, serves: bool, code: int, counts: int
) -> None:
    process = stage.begin(serves=serves)
    stage.place.stop()
    stage.place.look()
    assert (process.stops, stage.place.left) == (1, False)
    stage.end(code)
    assert (stage.place.left, stage.place.code) == (True, counts)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 0], 0),
        ([0, 4], 4),
        ([4, 69], 69),
        ([0, 69], 69),
        ([69, 2], 2),
        ([2, 3, 0], 3),
        ([3, 7], 7),
        ([7, 1, 3], 1),
        ([0, -9], 1),
        ([], 0),
    ],
)
def test_the_worst_exit_code_counts(codes: list[int], expected: int) -> None:
    assert worst(codes) == expected
    assert worst(reversed(codes)) == expected
