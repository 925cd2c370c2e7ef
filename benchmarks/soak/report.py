"""What comes out of a run: one object, and the sentences that say why it is not good."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import asdict, frozen

from benchmarks.figures import Machine
from benchmarks.soak.checker import EXAMPLES, Findings
from benchmarks.soak.gauge import Growth
from benchmarks.soak.workers import EXPECTED_EXITS


@frozen(kw_only=True)
class Report:
    """The figures of one run; `benchmarks/README.md` says what each means.

    *settled_after* is the time in seconds from the last enqueue to the last settle, None when jobs were left.
    """

    machine: Machine
    seed: int
    seconds: float
    settled_after: float | None
    enqueued: int
    existed: int
    unknown: int
    findings: Findings
    growth: Mapping[str, Growth]
    kills: int
    restarts: Mapping[str, int]
    exits: Mapping[int, int]

    def to_json(self) -> str:
        """Return the report as one JSON object in one line."""
        return json.dumps(self.figures())

    def figures(self) -> dict[str, Any]:
        """Return the figures by name."""
        found = self.findings
        counts = {name: len(ids) for name, ids in found.wrong.items()}
        first = ("lost", "settled_twice", "failed_unasked")
        return {
            "enqueued": self.enqueued,
            **{name: counts[name] for name in first},
            "started_twice": found.started_twice,
            **{name: asdict(growth) for name, growth in self.growth.items()},
            **{name: count for name, count in counts.items() if name not in first},
            "integrity": list(found.integrity),
            "existed": self.existed,
            "unknown": self.unknown,
            "unknown_made": found.unknown_made,
            "kills": self.kills,
            "restarts": dict(self.restarts),
            "exits": {str(code): count for code, count in sorted(self.exits.items())},
            "seconds": round(self.seconds, 1),
            "jobs_per_second": round(self.enqueued / self.seconds, 1),
            "settled_after": None if self.settled_after is None else round(self.settled_after, 1),
            "seed": self.seed,
            **asdict(self.machine),
        }

    def problems(self, max_growth: float) -> Iterator[str]:
        """Return what is not as it should be; a figure may have grown by *max_growth* percent."""
        for name, ids in self.findings.wrong.items():
            if ids:
                yield f"{name} is {len(ids)}: jobs {', '.join(map(str, ids[:EXAMPLES]))}"
        yield from self.findings.stories
        for problem in self.findings.integrity[:EXAMPLES]:
            yield f"check_integrity(): {problem}"
        for name, growth in self.growth.items():
            if growth.percent > max_growth:
                yield f"{name} has grown from {growth.start} to {growth.end}, by {growth.percent} %"
        for code, count in self.exits.items():
            if code not in EXPECTED_EXITS:
                yield f"a worker ended by itself with exit code {code}, {count} times"
