"""The page about the command line names every command and every option, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from kit.pages import ROOT
from taskq_sync.cli import main

#: The page explains these once, for all commands.
_EVERYWHERE = {"--dsn", "--schema", "--help", "--version"}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(main))


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The text below each heading."""
    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    parts = re.split(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_every_command_has_a_section(sections):
    assert [name for name in COMMANDS if name not in sections] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_in_its_table(sections, name):
    options = {option for param in COMMANDS[name].params for option in param.opts if option.startswith("--")}
    documented = set(re.findall(r"^\| `(--[a-z-]+)` \|", sections[name], flags=re.MULTILINE))
    assert documented - _EVERYWHERE == options - _EVERYWHERE


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_explains_itself(name):
    silent = [
        param.name for param in COMMANDS[name].params if isinstance(param, click.Option) and not param.help
    ]
    assert silent == []
