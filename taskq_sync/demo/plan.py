"""Which jobs the demo enqueues: one for each file of the library, and a few for what the library does not show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from taskq_sync.demo.library import Module
from taskq_sync.model import JobRequest
from taskq_sync.task import ContextTask

#: A file in so many snoozes once, and another one fails once, before it is read.
EVERY = 50

#: No worker serves this queue.
UNSERVED = "nobody"

_DO_NOT_PARSE = {
    "unclosed.py": "def broken(:\n",
    "not_text.py": "x = '\0'\n",
}


@frozen(kw_only=True)
class Extras:
    """The jobs that the demo adds; what each is to show is what the field is called."""

    do_not_parse: Sequence[Path]
    missing: Path


def write_extras(folder: Path) -> Extras:
    """Write the demo's own files into *folder*."""
    for name, source in _DO_NOT_PARSE.items():
        (folder / name).write_text(source, encoding="utf-8")
    return Extras(do_not_parse=[folder / name for name in _DO_NOT_PARSE], missing=folder / "missing.py")


def requests(task: ContextTask[..., Module], files: Sequence[Path], extras: Extras) -> Iterator[JobRequest]:
    """Return all jobs but the one that an operator will cancel."""
    for number, path in enumerate(files):
        first = {1: "snooze", 2: "retry"}.get(number % EVERY)
        yield task.job(path=str(path)) if first is None else task.job(path=str(path), first=first)
    for path in extras.do_not_parse:
        yield task.job(path=str(path))
    yield task.using(max_attempts=2).job(path=str(extras.missing))
    yield task.job(path=str(extras.missing), first="cancel")
    yield task.using(queue=UNSERVED, ttl=0.1).job(path=str(extras.missing))


def withdrawn(task: ContextTask[..., Module], extras: Extras) -> JobRequest:
    """Return the job that an operator will cancel: it is not due before that."""
    return task.using(delay=3600).job(path=str(extras.missing))
