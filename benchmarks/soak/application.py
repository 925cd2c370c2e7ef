"""The program that the workers run: `taskq-sync worker --app benchmarks.soak.application:tq`."""

from __future__ import annotations

from benchmarks.soak.tasks import register
from taskq_sync import TaskQ

tq = TaskQ()
register(tq)
