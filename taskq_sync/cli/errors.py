"""How a command fails: with one sentence on stderr that says what to do."""

from __future__ import annotations

from typing import IO, Any

import click

from taskq_sync.errors import TaskQError


class CommandFailed(click.ClickException):
    """A command could not do what it was asked; exits with 1."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the sentence."""
        click.echo(f"taskq-sync: {self.format_message()}", file=file, err=file is None)


class CommandGroup(click.Group):
    """A group whose commands turn the library's errors into sentences.

    Every other exception is a defect and keeps its traceback.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except TaskQError as error:
            raise CommandFailed(" ".join(str(error).split())) from error
        except KeyboardInterrupt:
            click.echo("taskq-sync: interrupted", err=True)
            ctx.exit(130)
