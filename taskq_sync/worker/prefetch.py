"""How many jobs to claim beyond the slots that are free: enough to keep the slots busy, and no more.

With handlers that take seconds, nothing is claimed ahead. With handlers that take microseconds, a claim per
job would cost more than the job, so a claim brings what the slots are expected to run in `HORIZON`.
"""

from __future__ import annotations

#: Jobs are claimed ahead for so many seconds of work. Well below the second after which they are handed back.
HORIZON = 0.25

#: The most that one claim may ask for; the schema has the same cap.
CLAIM_LIMIT = 1000

#: The most that may be held in all beyond the slots, so that verdicts cannot pile up without bound.
HELD_LIMIT = 4 * CLAIM_LIMIT

#: From one claim to the next the number grows by at most this factor: one fast job proves little.
GROWTH = 4

#: No claiming ahead for so many seconds after a job that must not wait, so that the next of its kind finds a
#: slot.
HOLD_OFF = 1.0


class Prefetch:
    """The decisions of the claimer about numbers. Belongs to its thread; knows no clock and does nothing.

    `target` is how many jobs may wait for a slot at this moment.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self.target = 0
        self._finished = 0
        self._since = 0.0
        self._hold_off_until = 0.0

    def room(self, *, in_flight: int, held: int, now: float) -> int:
        """Return for how many jobs to ask now, 0 = do not claim.

        *in_flight* are claimed jobs that no slot has finished, *held* also those whose verdict is on its
        way. While every slot is busy and more than half of the target still waits, a claim would bring too
        little.
        """
        target = 0 if now < self._hold_off_until else self.target
        waiting = in_flight - self._slots
        if waiting >= target or (waiting > 0 and 2 * waiting > target):
            return 0
        return max(0, min(target - waiting, CLAIM_LIMIT, self._slots + HELD_LIMIT - held))

    def claimed(self, *, finished: int, now: float) -> None:
        """A claim was answered *now*, and the slots have *finished* so many jobs since they were started.

        What they finished since the claim before says how many they will finish in the horizon.
        """
        rate = (finished - self._finished) / max(now - self._since, 0.001)
        self._finished, self._since = finished, now
        self.target = round(min(rate * HORIZON, GROWTH * max(self.target, self._slots), CLAIM_LIMIT))

    def met_unbuffered(self, now: float) -> None:
        """A job that must not wait found no free slot."""
        self._hold_off_until = now + HOLD_OFF

    def overestimated(self) -> None:
        """Jobs had to be handed back because no slot started them in time."""
        self.target = 0
