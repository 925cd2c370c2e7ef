"""Which jobs there are, one after another: the same for the same seed.

Most take no time at all, a few up to 5 s. So three processes with 8 slots each have room for 200 jobs/s: on average
less than half of the slots are busy, and the rest is for the jobs that come again and for catching up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from attrs import frozen

from benchmarks.soak.tasks import KINDS
from taskq_sync import JobRequest
from taskq_sync.task import ContextTask

#: Of 100 jobs, and the seconds that the handlers of these take: from, to.
_SECONDS = ((70.0, 0.0, 0.0), (20.0, 0.0, 0.05), (8.5, 0.05, 0.3), (1.0, 0.3, 1.0), (0.5, 1.0, 5.0))

#: Of 100 jobs, so many have a concurrency key, one of these keys, and are short.
_KEYED, _KEYS = 2.0, 10

#: Of 100 jobs, so many have a unique key, one of these.
_UNIQUE, _UNIQUE_KEYS = 3.0, 10


@frozen
class Order:
    """The job with this *number*, which is also in its payload."""

    number: int
    request: JobRequest


def orders(seed: int, tasks: Mapping[str, ContextTask[..., Any]]) -> Iterator[Order]:
    """Return the jobs without end, numbered from 1."""
    chance = random.Random(f"mix {seed}")
    number = 0
    while True:
        number += 1
        [kind] = chance.choices(KINDS, [each.share for each in KINDS])
        [(_, low, high)] = chance.choices(_SECONDS, [share for share, _, _ in _SECONDS])
        seconds = round(chance.uniform(low, high), 3)
        percent, key = chance.uniform(0, 100), chance.random()
        sender = tasks[kind.name]
        if percent < _KEYED:
            seconds = min(seconds, 0.05)
            request = sender.using(concurrency_key=f"key {int(key * _KEYS)}").job(
                number=number, seconds=seconds
            )
        elif percent < _KEYED + _UNIQUE:
            unique_key = f"unique {int(key * _UNIQUE_KEYS)}"
            request = sender.using(unique_key=unique_key).job(number=number, seconds=seconds)
        else:
            request = sender.job(number=number, seconds=seconds)
        yield Order(number, request)
