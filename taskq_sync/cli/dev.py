"""`taskq-sync dev`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from taskq_sync.cli.application import takes_application
from taskq_sync.cli.target import Target
from taskq_sync.embedded import EmbeddedServer
from taskq_sync.logs import FORMATS

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@click.command()
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: default_folder(),
    help="Where the server keeps its data. Default: /var/lib/taskq-sync/dev for root, else "
    "$XDG_STATE_HOME/taskq-sync/dev.",
)
@click.option("--schema", metavar="NAME", help="The schema of the jobs, else TASKQ_SCHEMA, else taskq.")
@click.option(
    "--slots", type=click.IntRange(1, 1000), default=8, show_default=True, help="Slots of the worker."
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="How the worker writes its log: as text, or as one JSON object a line.",
)
@takes_application
def dev(
    folder: Path, schema: str | None, slots: int, log_format: str, app: str | None, imports: tuple[str, ...]
) -> None:
    """Run a database for development, and a worker for your tasks.

    Starts a PostgreSQL server in a folder (it comes with the extra embedded), brings the schema up to date and
    prints the DSN. With --app or --import it runs a worker. Ctrl-C or SIGTERM stops both, the worker first; the
    data stays for the next time.
    """
    stop = _Stop()
    with stop.listening(), EmbeddedServer(folder) as server:
        target = Target(server.dsn, schema)
        with target.open() as session:
            target.schema.migrate(session.connection)
        click.echo(f"TASKQ_DSN={server.dsn}")
        if app is None and not imports:
            click.echo("no worker without --app or --import; Ctrl-C stops the database", err=True)
            stop.wait()
        elif not stop.requested:
            sys.exit(_run_worker(stop, target, _worker_options(app, imports, slots, log_format)))


def default_folder() -> Path:
    """Return where the development server keeps its data unless told otherwise."""
    if os.geteuid() == 0:
        # The account of root's server could not enter /root.
        return Path("/var/lib/taskq-sync/dev")
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "taskq-sync" / "dev"


class _Stop:
    """Signals to stop: remembered, and passed on to the worker process while there is one."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._undelivered: deque[int] = deque()

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._receive) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def wait(self) -> None:
        self._event.wait()

    def pass_on_to(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._deliver()

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._undelivered.append(number)
        self._event.set()
        self._deliver()

    def _deliver(self) -> None:
        # A handler may come between any two steps here. A signal is taken once, so the worker never sees one of
        # ours twice: it would not wait for its handlers any more.
        while self._process is not None and self._undelivered:
            with contextlib.suppress(IndexError):
                self._process.send_signal(self._undelivered.popleft())


def _run_worker(stop: _Stop, target: Target, options: list[str]) -> int:
    """Run the worker in a process of its own, so that the server is stopped in any case, and return its exit code."""
    process = subprocess.Popen(
        [sys.executable, "-m", "taskq_sync", "worker", *options],
        env={**os.environ, "TASKQ_DSN": target.dsn_option or "", "TASKQ_SCHEMA": target.schema.name},
        # The terminal sends Ctrl-C to all of a group: the worker would take ours for the second one, and not wait.
        start_new_session=True,
    )
    stop.pass_on_to(process)
    code = process.wait()
    return code if code >= 0 else 128 - code


def _worker_options(app: str | None, imports: tuple[str, ...], slots: int, log_format: str) -> list[str]:
    options = ["--slots", str(slots), "--log-format", log_format]
    if app is not None:
        options += ["--app", app]
    if imports:
        options += ["--import", ",".join(imports)]
    return options
