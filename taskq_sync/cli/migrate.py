"""`taskq-sync migrate`."""

from __future__ import annotations

import click

from taskq_sync.cli.errors import CommandFailed
from taskq_sync.cli.output import as_json, print_json
from taskq_sync.cli.target import Target, takes_target


@click.command()
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if there is something to do.")
@click.option(
    "--sql", "as_sql", is_flag=True, help="Print the SQL for an empty database, and connect to none."
)
@as_json
@takes_target
def migrate(target: Target, check: bool, as_sql: bool, as_json: bool) -> None:
    """Install the schema, or bring it up to date.

    Works in one transaction: all of it happens, or nothing. Any number of these may run at once, and a run that
    finds nothing to do changes nothing.
    """
    if check and as_sql:
        raise click.UsageError("--check and --sql exclude each other")
    if as_sql:
        click.echo(target.schema.script(), nl=False)
    elif check:
        _check(target, as_json)
    else:
        _migrate(target, as_json)


def _migrate(target: Target, as_json: bool) -> None:
    with target.open() as session:
        done = target.schema.migrate(session.connection)
    if as_json:
        print_json(
            {
                "schema": target.schema.name,
                "changed": done.changed,
                "before": done.before,
                "version": done.version,
            }
        )
    elif not done.changed:
        click.echo(f"schema {target.schema.name} is up to date at {done.version}")
    elif done.before is None:
        click.echo(f"schema {target.schema.name} is installed at {done.version}")
    else:
        click.echo(f"schema {target.schema.name} is migrated from {done.before} to {done.version}")


def _check(target: Target, as_json: bool) -> None:
    schema = target.schema
    with target.open() as session:
        state = schema.state(session.connection)
    if as_json:
        print_json(
            {
                "schema": schema.name,
                "installed": state.version,
                "min_client": state.min_client,
                "package": schema.version,
                "up_to_date": state.up_to_date,
            }
        )
        if not state.up_to_date:
            raise click.exceptions.Exit(1)
    elif state.up_to_date:
        click.echo(f"schema {schema.name} is up to date at {state.version}")
    else:
        is_now = f"is at {state.version}" if state.installed else "is not installed"
        raise CommandFailed(
            f"schema {schema.name} {is_now}, not as taskq-sync {schema.version} has it: run `taskq-sync migrate`"
        )
