"""How long a run may search and shrink, what it has done, and the shortest script that has failed."""

from __future__ import annotations

import time
from collections import Counter

from attrs import define, field

from model.script import Script


class TimeIsUp(BaseException):
    """The run has had its time. No error, so that Hypothesis does not take it for a finding."""


@define
class Watch:
    """Search for *seconds*; what is found after some of them is shrunk in a quarter of them more, at most."""

    seconds: float
    started_at: float = field(factory=time.monotonic)
    calls: Counter[str] = field(factory=Counter)
    seeds: int = 0
    failed: Script | None = None
    shortest: Script | None = None
    problem: str = ""
    is_over: bool = False

    @property
    def passed(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self.started_at

    def look(self) -> None:
        """Raise TimeIsUp when it is; Hypothesis may make an error of its own of it."""
        limit = self.seconds if self.shortest is None else self.seconds * 1.25
        if self.passed > limit:
            self.is_over = True
            raise TimeIsUp

    def step(self, function: str) -> None:
        """Count a call, if there is time for it."""
        self.look()
        self.calls[function] += 1

    def found(self, error: Exception, script: Script) -> None:
        """Keep the error, if no shorter script has failed."""
        self.failed = script
        if self.shortest is None or script.statements <= self.shortest.statements:
            self.shortest, self.problem = script, f"{type(error).__name__}: {error}"

    def __str__(self) -> str:
        total = self.calls.total()
        return f"{total} calls in {self.passed:.0f} s, {total / self.passed:.0f}/s: {dict(self.calls)}"
