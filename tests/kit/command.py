"""Running the command line: as a process of its own, the way a user does, or in this process, which is fast."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import frozen
from click.testing import CliRunner

from taskq_sync.cli import main

#: Seconds; a command that takes longer hangs.
PATIENCE = 120.0


@frozen
class Result:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output, which must be one JSON document."""
        assert self.code == 0, self.err
        return json.loads(self.out)


class CommandLine:
    """The installed `taskq-sync` in *folder*, with nothing of our environment that names a database.

    *dsn* goes into TASKQ_DSN unless it is None.
    """

    def __init__(self, folder: Path, dsn: str | None) -> None:
        self.folder = folder
        self._env = {
            name: value for name, value in os.environ.items() if not name.startswith(("PG", "TASKQ_"))
        }
        self._env.pop("DATABASE_URL", None)
        self._env["PYTHONWARNINGS"] = "error"
        if dsn is not None:
            self._env["TASKQ_DSN"] = dsn

    def run(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> Result:
        """Run a command to its end."""
        with self.start(*arguments, env=env) as process:
            out, err = process.communicate(stdin, timeout=PATIENCE)
        return Result(process.returncode, out, err)

    def check(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> str:
        """Run a command that must succeed without a word on stderr, and return what it printed."""
        done = self.run(*arguments, stdin=stdin, env=env)
        assert (done.code, done.err) == (0, ""), done
        return done.out

    @contextmanager
    def start(self, *arguments: str, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
        """Start a command, in a process group of its own; one that still runs at the end of the block is killed."""
        script = Path(sys.executable).with_name("taskq-sync")
        process = subprocess.Popen(
            [script, *arguments],
            cwd=self.folder,
            env={**self._env, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()


class InProcess:
    """The command line within this process: for what needs no signal, no exit and no second interpreter."""

    def run(
        self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None, charset: str = "utf-8"
    ) -> Result:
        """Run a command to its end. An exception that would be a traceback is raised."""
        done = CliRunner(env=env, charset=charset).invoke(main, arguments, input=stdin)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Result(done.exit_code, done.stdout, done.stderr)

    def check(self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None) -> str:
        """Run a command that must succeed without a word on stderr, and return what it printed."""
        done = self.run(*arguments, stdin=stdin, env=env)
        assert (done.code, done.err) == (0, ""), done
        return done.out


def interrupt_group(process: subprocess.Popen[str]) -> None:
    """Do what Ctrl-C at a terminal does."""
    os.killpg(process.pid, signal.SIGINT)
