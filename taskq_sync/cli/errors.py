"""How a command fails: with one sentence on stderr that says what to do."""

from __future__ import annotations

from typing import IO, Any

import click

from taskq_sync.cli.output import shown
from taskq_sync.errors import DatabaseUnavailable, TaskQError

#: EX_UNAVAILABLE of sysexits.h; a worker that finds no database at its start ends with it too.
EXIT_UNAVAILABLE = 69


class CommandFailed(click.ClickException):
    """A command could not do what it was asked; exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(f"taskq-sync: {shown(self.format_message())}", file=file, err=file is None)


class DatabaseSilent(CommandFailed):
    """The database did not answer; exits with 69, as the service managers of Unix know it."""

    exit_code = EXIT_UNAVAILABLE


class CommandGroup(click.Group):
    """A group whose commands turn the library's errors into sentences.

    Every other exception is a defect and keeps its traceback.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except TaskQError as error:
            kind = DatabaseSilent if isinstance(error, DatabaseUnavailable) else CommandFailed
            raise kind(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            click.echo("taskq-sync: interrupted", err=True)
            ctx.exit(130)
