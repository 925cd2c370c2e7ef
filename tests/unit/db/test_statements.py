"""The list of SQL statements."""

from __future__ import annotations

import re

import pytest

from taskq_sync.db.statements import Statements
from taskq_sync.errors import ConfigError

ALL = {name: text for name, text in vars(Statements()).items() if name not in ("schema", "channel", "listen")}


@pytest.mark.parametrize("name", ALL)
class TestEachStatement:
    def test_calls_the_function_of_its_name(self, name: str) -> None:
        assert f"taskq.{name.removesuffix('_plain')}(" in ALL[name]

    def test_names_its_columns(self, name: str) -> None:
        assert "*" not in ALL[name]

    def test_casts_every_parameter_to_a_qualified_type(self, name: str) -> None:
        text = ALL[name]

        assert len(re.findall(r"%\(\w+\)s::pg_catalog\.\w+", text)) == text.count("%")
        assert re.findall(r"::(?!pg_catalog\.)", text) == []

    def test_hands_parameters_over_by_name(self, name: str) -> None:
        arguments = re.findall(r"%\((\w+)\)s", ALL[name])

        assert all(re.search(rf"p_(?:wakes_at|{argument}) => ", ALL[name]) for argument in arguments)


def test_another_schema_is_quoted_everywhere() -> None:
    other = Statements("My-Queue.x")

    assert other.channel == '"My-Queue.x".wake'
    assert other.listen == 'listen """My-Queue.x"".wake"'
    for name in ALL:
        text = getattr(other, name)
        assert f'"My-Queue.x".{name.removesuffix("_plain")}(' in text
        assert "taskq" not in text


def test_the_usual_schema_needs_no_quotes() -> None:
    assert Statements().channel == "taskq.wake"
    assert Statements().listen == 'listen "taskq.wake"'


def test_refuses_a_name_that_may_not_be_a_schema() -> None:
    with pytest.raises(ConfigError):
        Statements("a'b")
