"""The slots: who runs what, and how many are free."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kit.claimed import claimed_job
from kit.waiting import PATIENCE, eventually
from taskq_sync.clock import monotonic
from taskq_sync.worker.attempts import LiveAttempt, Stage
from taskq_sync.worker.slots import Slots


class Bench:
    """Two slots whose handlers wait at a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.order: list[int] = []
        self.hungry = threading.Semaphore(0)
        self.ended: list[BaseException | None] = []
        self.slots = Slots(
            2,
            name=lambda part: f"test-{part}",
            run=self.run,
            hungry=self.hungry.release,
            ended=lambda name, error: self.ended.append(error),
        )

    def run(self, attempt: LiveAttempt) -> None:
        self.order.append(attempt.fence)
        assert self.gate.wait(PATIENCE)

    def close(self) -> None:
        self.gate.set()
        self.slots.stop()
        assert self.slots.join(PATIENCE)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.slots.start()
    yield made
    made.close()


def attempts(*fences: int) -> list[LiveAttempt]:
    return [LiveAttempt(claimed_job(attempt_id=fence), sent_at=monotonic()) for fence in fences]


def test_idle_slots_ask_for_work(bench: Bench) -> None:
    for _ in range(2):
        assert bench.hungry.acquire(timeout=PATIENCE)


def test_jobs_start_in_the_order_in_which_they_are_put(bench: Bench) -> None:
    bench.gate.set()
    bench.slots.put(attempts(*range(1, 50)))
    eventually(lambda: bench.slots.ran == 49, "all are run")
    assert sorted(bench.order) == list(range(1, 50))
    assert bench.slots.in_flight == 0


def test_counts_what_is_in_flight_until_its_slot_is_free(bench: Bench) -> None:
    bench.slots.put(attempts(1, 2, 3))
    eventually(lambda: len(bench.slots.running()) == 2, "two are run")
    assert bench.slots.in_flight == 3
    bench.gate.set()
    eventually(lambda: bench.slots.in_flight == 0, "all are run")


def test_an_attempt_that_somebody_else_took_is_passed_over(bench: Bench) -> None:
    given = attempts(1, 2, 3, 4)
    given[2].take(Stage.ENDED)
    bench.gate.set()
    bench.slots.put(given)
    eventually(lambda: bench.slots.in_flight == 0, "the queue is empty")
    assert sorted(bench.order) == [1, 2, 4]
    assert bench.slots.ran == 3


def test_asks_for_more_when_half_is_used_up(bench: Bench) -> None:
    for _ in range(2):
        assert bench.hungry.acquire(timeout=PATIENCE)
    bench.slots.put(attempts(*range(1, 11)), refill_before=8)
    eventually(lambda: len(bench.slots.running()) == 2, "two are run")
    assert not bench.hungry.acquire(blocking=False)
    bench.gate.set()
    assert bench.hungry.acquire(timeout=PATIENCE)


def test_says_where_a_running_handler_is(bench: Bench) -> None:
    bench.slots.put(attempts(7))
    eventually(bench.slots.running, "it is run")
    [(attempt, stack)] = bench.slots.running()
    assert attempt.fence == 7
    eventually(lambda: "self.gate.wait" in stack(), "it waits at the gate")


def test_ends_after_what_was_put_before(bench: Bench) -> None:
    bench.gate.set()
    bench.slots.put(attempts(1, 2, 3))
    bench.slots.stop()
    assert bench.slots.join(PATIENCE)
    assert bench.slots.ended
    assert bench.ended == [None, None]
    assert sorted(bench.order) == [1, 2, 3]


def test_stop_before_start_does_no_harm() -> None:
    slots = Bench().slots
    assert slots.ended
    slots.stop()
    assert slots.join(0)


def test_a_slot_that_dies_is_reported(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[tuple[str, BaseException | None]] = []

    def broken(attempt: LiveAttempt) -> None:
        raise KeyError("a defect")

    slots = Slots(
        1,
        name=lambda part: f"test-{part}",
        run=broken,
        hungry=lambda: None,
        ended=lambda name, error: reported.append((name, error)),
    )
    slots.start()
    slots.put(attempts(1))
    assert slots.join(PATIENCE)
    [(name, error)] = reported
    assert name == "test-slot-1"
    assert isinstance(error, KeyError)
