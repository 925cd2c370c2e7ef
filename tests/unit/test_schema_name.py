"""The name of the schema and the rewriting of SQL for it."""

# Scenario B75.

from __future__ import annotations

import pytest

from taskq_sync.db.schema_name import check_schema_name, quoted, rewrite
from taskq_sync.errors import ConfigError


@pytest.mark.parametrize("name", ["taskq", "My-Queue", "user", "1q", "x.job", "_", "a" * 48, "PG", "Taskq"])
def test_accepts_letters_digits_and_three_signs(name):
    assert check_schema_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a" * 49,
        "o'brien",
        'a"b',
        "a$$b",
        "p%s{0}",
        "schéma",
        "pg_q",
        "PG_q",
        "a b",
        "taskq\n",
        "a/b",
        "a;b",
    ],
)
def test_refuses_every_other_name_with_the_rule(name):
    with pytest.raises(ConfigError, match="a name has 1 to 48 letters"):
        check_schema_name(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("taskq", "taskq"),
        ("taskq_b2", "taskq_b2"),
        ("Taskq", '"Taskq"'),
        ("jobs", '"jobs"'),
        ("user", '"user"'),
        ("1q", '"1q"'),
        ("taskq.b", '"taskq.b"'),
    ],
)
def test_quotes_unless_no_keyword_can_ever_be_meant(name, expected):
    assert quoted(name) == expected


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("select taskq.clock()", 'select "My-Queue".clock()'),
        ("taskq.a,taskq.b", '"My-Queue".a,"My-Queue".b'),
        ("perform pg_notify('taskq.wake', x)", "perform pg_notify('\"My-Queue\".wake', x)"),
        ("create schema taskq;", 'create schema "My-Queue";'),
        ("create schema if not exists taskq;", 'create schema if not exists "My-Queue";'),
        (
            "revoke all on all tables in schema taskq from x",
            'revoke all on all tables in schema "My-Queue" from x',
        ),
        ("mytaskq.x taskq_sync.y taskq schema taskqs", "mytaskq.x taskq_sync.y taskq schema taskqs"),
    ],
)
def test_rewrites_the_token_and_nothing_that_resembles_it(sql, expected):
    assert rewrite(sql, "My-Queue") == expected
    assert rewrite(sql, "taskq") == sql
