"""The process that runs jobs.

::

    from taskq_sync.worker import Worker

    sys.exit(Worker(tq, slots=16).run())

The order of reading: `worker` (the parts), `claimer`, `slots`, `runner`, `settler`, `heartbeat` (the way of
a job through the process), `isolation`, `child` (its way through a child process), `beat_process`,
`beat_child` (beats by a child process), `shutdown` (the end).
"""

from taskq_sync.worker.application import Application
from taskq_sync.worker.config import WorkerConfig
from taskq_sync.worker.summary import Summary
from taskq_sync.worker.worker import Worker

__all__ = ["Application", "Summary", "Worker", "WorkerConfig"]
