"""The child process that beats: when it goes ahead by itself, and what it says; canned answers, no database."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest

from kit.claimed import claimed_job
from kit.waiting import PATIENCE, eventually
from taskq_sync.clock import monotonic
from taskq_sync.errors import DatabaseUnavailable
from taskq_sync.model import Beat
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.beat_child import BeatChild
from taskq_sync.worker.beat_messages import Answer, answer_of, attempt_to_plain
from taskq_sync.worker.channel import Channel
from taskq_sync.worker.lease import Leased


class CannedCall:
    """Answers each beat with `state`, or fails."""

    def __init__(self) -> None:
        self.state = "ok"
        self.fails = False
        self.beats: list[dict[int, str | None]] = []

    def connect(self) -> None: ...

    def send(self, held: Sequence[Leased], checkpoints: Mapping[int, str]) -> list[Beat]:
        self.beats.append({each.fence: checkpoints.get(each.fence) for each in held})
        if self.fails:
            raise DatabaseUnavailable("away")
        return [
            Beat(each.job_id, each.fence, self.state, False, None, each.fence in checkpoints or None)
            for each in held
        ]

    def failed(self, error: Exception) -> float:
        return 0.01

    def close(self) -> None: ...


class Bench:
    """A child in a thread, and the worker's end of its channel."""

    def __init__(self, stall_limit: float = 600.0) -> None:
        ours, theirs = socket.socketpair()
        self.channel = Channel(ours, timeout=PATIENCE)
        self._theirs = Channel(theirs)
        self.call = CannedCall()
        child = BeatChild(self._theirs, cast(Any, self.call), parent=os.getppid(), stall_limit=stall_limit)
        self._thread = threading.Thread(target=child.serve, name="test-beat-child")
        self._thread.start()
        assert self.hear() == {"answers": [], "asked": False}  # it has connected

    def hold(self, *fences: int, beat: float = 0.02) -> None:
        """Have attempts held whose next beat is due so many seconds from now."""
        for fence in fences:
            job = claimed_job(attempt_id=fence, job_id=fence)
            self.channel.send({"hold": [attempt_to_plain(LiveAttempt(job, sent_at=monotonic(), beat=beat))]})

    def hear(self) -> dict[str, Any]:
        message = self.channel.receive(PATIENCE)
        assert message is not None
        return message

    def wait_for_beats(self, number: int) -> None:
        before = len(self.call.beats)
        eventually(lambda: len(self.call.beats) >= before + number, "it beats")

    def end(self) -> None:
        self.channel.send({"end": True})
        self._thread.join(PATIENCE)
        self.channel.close()
        self._theirs.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    made.end()


def test_beats_by_itself_when_nobody_asks_in_time(bench: Bench) -> None:
    bench.hold(1, 2)
    bench.wait_for_beats(3)
    assert set(bench.call.beats[-1]) == {1, 2}


def test_says_once_what_it_has_done_by_itself_until_it_hears_of_the_worker(bench: Bench) -> None:
    """A worker that stands still for hours must not find a full socket, nor the child one that blocks."""
    bench.hold(1)
    assert len(bench.hear()["answers"]) == 1
    bench.wait_for_beats(5)
    assert bench.channel.receive(0) is None
    bench.channel.send({"sign": True})
    [answer] = bench.hear()["answers"]
    assert answer_of(answer).beat.attempt_id == 1


def test_says_once_that_the_database_is_away_until_it_hears_of_the_worker(bench: Bench) -> None:
    bench.call.fails = True
    bench.hold(1)
    assert bench.hear() == {"failed": "away"}
    bench.wait_for_beats(5)
    assert bench.channel.receive(0) is None
    bench.channel.send({"noted": True})
    assert bench.hear() == {"failed": "away"}
    bench.call.fails = False


def test_a_checkpoint_goes_with_the_beat_that_is_asked_for_and_only_once(bench: Bench) -> None:
    bench.hold(1, beat=20.0)
    bench.channel.send({"ask": {"1": '{"done": 1}'}})
    message = bench.hear()
    [answer] = [answer_of(each) for each in message["answers"]]
    assert message["asked"]
    assert (answer.checkpoint, answer.beat.progress_stored) == ('{"done": 1}', True)
    bench.channel.send({"ask": {}})
    bench.hear()
    assert bench.call.beats == [{1: '{"done": 1}'}, {1: None}]


def test_an_ask_is_answered_though_nothing_is_held(bench: Bench) -> None:
    bench.channel.send({"ask": {}})
    assert bench.hear() == {"answers": [], "asked": True}
    assert bench.call.beats == []


def test_what_is_dropped_lost_or_past_its_limit_is_not_beaten(bench: Bench) -> None:
    bench.hold(1, 2, 3, beat=20.0)
    bench.channel.send({"drop": [1]})
    bench.channel.send({"limit": [2, monotonic()]})
    bench.call.state = "lost"
    for _ in range(2):
        bench.channel.send({"ask": {}})
        bench.hear()
    assert bench.call.beats == [{3: None}]


def test_says_that_it_has_stopped_when_no_sign_comes_and_goes_on_when_one_does() -> None:
    bench = Bench(stall_limit=0.2)
    bench.hold(1)
    while "stalled" not in bench.hear():
        pass
    before = len(bench.call.beats)
    bench.channel.send({"sign": True})
    eventually(lambda: len(bench.call.beats) > before, "it beats again")
    bench.end()


def test_what_became_of_a_checkpoint_is_not_lost_behind_a_later_answer() -> None:
    stored = Answer(Beat(1, 1, "ok", False, None, True), 5.0, "text")
    later = Answer(Beat(1, 1, "ok", True, None, None), 6.0, None)
    assert later.over(stored) == Answer(Beat(1, 1, "ok", True, None, True), 6.0, "text")
    assert later.over(None) == later
    newer = Answer(Beat(1, 1, "ok", False, None, False), 6.0, "newer")
    assert newer.over(stored) == newer


def test_it_beats_on_while_nobody_reads_what_it_has_to_say(bench: Bench) -> None:
    """A handler may keep the interpreter to itself just when the answers for many attempts are under way."""
    bench.hold(*range(1, 2001))
    bench.channel.send({"ask": {str(fence): json.dumps("x" * 2000) for fence in range(1, 2001)}})
    bench.wait_for_beats(5)
