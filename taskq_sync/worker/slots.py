"""The slots: threads that run handlers, one job at a time each.

Jobs are handed over one by one through a queue that all slots share, so a job behind a long one is started by
whichever slot is free. Between two jobs a busy slot takes no lock that Python code could hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial

from taskq_sync.clock import Deadline
from taskq_sync.worker.attempts import LiveAttempt
from taskq_sync.worker.threads import Empty, Lock, Service, SimpleQueue


class Mark(Enum):
    """What travels in the queue besides attempts."""

    REFILL = "refill"  # about half of what was claimed ahead is used up
    END = "end"  # for one slot: nothing follows


class Slot:
    """One thread, and what it is doing. All fields but `stuck` are written by the thread and read by others.

    A slot that is `stuck` ends after its job: another one has taken its place. The job counts as run.

    Counters instead of a shared number: adding to one's own needs no lock.
    """

    __slots__ = ("attempt", "passed", "ran", "service", "stuck")

    def __init__(self) -> None:
        self.attempt: LiveAttempt | None = None
        self.ran = 0
        self.passed = 0  # attempts that were in the queue but taken by somebody else
        self.stuck = False
        self.service: Service

    @property
    def done(self) -> int:
        """How many attempts it has run, or is stuck in."""
        return self.ran + self.stuck


class Slots:
    """*size* slots and the queue before them.

    `run` is called in a slot with an attempt that nobody else has; it must not raise. It returns whether the slot
    was given up meanwhile: then its thread ends. `hungry` is called by
    a slot that finds the queue empty, and when a refill is due: it must only set an event.
    """

    def __init__(
        self,
        size: int,
        *,
        name: Callable[[str], str],
        run: Callable[[LiveAttempt], bool],
        hungry: Callable[[], None],
        ended: Callable[[str, BaseException | None], None],
    ) -> None:
        """*name* makes the name of a thread; *ended* is called by each as its last act."""
        self._run = run
        self._hungry = hungry
        self._queue: SimpleQueue[LiveAttempt | Mark] = SimpleQueue()
        self._put = 0
        self._name = name
        self._tell_ended = ended
        self._size = size
        self._made = 0
        self._gone = 0  # what the slots that were given up and have ended count for
        self._lock = (
            Lock()
        )  # held to change the list, which is replaced as a whole, so that readers need no lock
        self._slots: Sequence[Slot] = [self._make() for _ in range(size)]

    def __len__(self) -> int:
        return self._size

    def start(self) -> None:
        """Start the threads."""
        for slot in self._slots:
            slot.service.start()

    def give_up_on(self, attempt: LiveAttempt) -> str:
        """The slot that runs *attempt* is stuck in it; return where its thread is."""
        for slot in self._slots:
            if slot.attempt is attempt:
                slot.stuck = True
                return slot.service.stack()
        return ""

    def add_thread(self) -> None:
        """Start another slot in the place of one that was given up."""
        slot = self._make()
        with self._lock:
            self._slots = [*self._slots, slot]
        slot.service.start()

    @property
    def stuck(self) -> int:
        """How many threads are stuck."""
        return sum(slot.stuck for slot in self._slots)

    def put(self, attempts: Sequence[LiveAttempt], *, refill_before: int = 0) -> None:
        """Hand over *attempts*, in this order; for the claimer only.

        When only the last *refill_before* of them are left, `hungry` is called.
        """
        mark_at = len(attempts) - refill_before if refill_before else -1
        self._put += len(attempts)
        put = self._queue.put
        for position, attempt in enumerate(attempts):
            if position == mark_at:
                put(Mark.REFILL)
            put(attempt)

    def stop(self) -> None:
        """Let each slot end after the job it runs and what is in the queue. Does not block."""
        for _ in range(self._size):
            self._queue.put(Mark.END)

    def join(self, timeout: float | None = None) -> bool:
        """Wait up to *timeout* seconds for the threads; return whether all have ended."""
        deadline = Deadline.never() if timeout is None else Deadline.after(timeout)
        for slot in self._slots:
            slot.service.join(deadline.timeout)
        return self.ended

    @property
    def ran(self) -> int:
        """How many attempts the slots have run since the start."""
        return self._gone + sum(slot.done for slot in self._slots)

    @property
    def in_flight(self) -> int:
        """How many attempts were put and are not done with; never too low. For the claimer only.

        Below the number of slots, each further attempt finds one that is free.
        """
        # First what is gone: a slot that goes meanwhile must not be counted twice.
        return self._put - self._gone - sum(slot.done + slot.passed for slot in self._slots)

    @property
    def ended(self) -> bool:
        """Whether no thread runs."""
        return all(slot.service.ended for slot in self._slots)

    @property
    def drained(self) -> bool:
        """Whether no thread runs but stuck ones."""
        return all(slot.service.ended or slot.stuck for slot in self._slots)

    def busy(self) -> list[LiveAttempt]:
        """Return the attempts that are being run, without the stuck ones."""
        seen = [slot.attempt for slot in self._slots if not slot.stuck]
        return [attempt for attempt in seen if attempt is not None]

    def running(self) -> list[tuple[LiveAttempt, Callable[[], str]]]:
        """Return the attempts that are being run, each with a way to ask where its thread is."""
        seen = [(slot.attempt, slot.service.stack) for slot in self._slots]
        return [(attempt, stack) for attempt, stack in seen if attempt is not None]

    def _serve(self, slot: Slot) -> None:
        queue, run, hungry = self._queue, self._run, self._hungry
        while True:
            try:
                entry = queue.get_nowait()
            except Empty:
                hungry()
                entry = queue.get()
            if isinstance(entry, Mark):
                if entry is Mark.END:
                    break
                hungry()
            elif entry.take():
                slot.attempt = entry
                given_up = run(entry)
                slot.attempt = None
                if given_up:
                    return self._leave(slot)
                slot.ran += 1
            else:
                slot.passed += 1
            del entry  # no slot keeps the last job alive while it waits for the next

    def _make(self) -> Slot:
        self._made += 1
        slot = Slot()
        slot.service = Service(self._name(f"slot-{self._made}"), partial(self._serve, slot), self._tell_ended)
        return slot

    def _leave(self, slot: Slot) -> None:
        """Forget a slot that was given up and has ended after all."""
        with self._lock:
            self._slots = [each for each in self._slots if each is not slot]
            self._gone += slot.ran + 1 + slot.passed
