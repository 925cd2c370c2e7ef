"""The command line takes any text in any option: it ends with a documented code and a sentence, never a traceback.

And whatever a job or a worker holds, what is printed of it obeys nobody: no control character, no markup.
"""

# Scenarios B59, B64.

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import hypothesis.strategies as st
import pytest
from hypothesis import given

from input.examples import few
from input.values import HOSTILE
from kit.command import InProcess, Result
from kit.contract import Connection, Contract
from taskq_sync.cli import main
from taskq_sync.cli.parameters import duration, instant, json_object, names, size, weighted_names

_DSNS = [
    "host=/nowhere connect_timeout=x", "host=/nowhere connect_timeout=1.5", "host=/nowhere connect_timeout=",
    "host=/nowhere connect_timeout=99999999999999999999", "host=/nowhere port=x", "host=/a,/b port=1,2,3",
    "postgresql://[::1", "host=/nowhere sslmode=x", "service=none", "dbname='", "host=/no user=\x00",
    "host=/no user=\udcff", "nonsense", "\x1b[2J",
]  # fmt: skip
_MODULES = [
    "a..b", ".a", "a.", ".", "..", ":", "a:", ":b", "os:path", "json:x.y", "json:", "a b", "é.ü", "os.path",
    "a\x00b:tq", "a\x00:b", "\udcff", "json:\udcff", "\x1b[2J", "json:\x00",
]  # fmt: skip
_ODD = [
    "9" * 400, "9" * 400 + "TB", "9" * 400 + "d", "9" * 5_000, "a:" + "9" * 5_000, "\u0663", "\u0663s",
    "-", "--", "-x", "a\x00b", "\udcff", "1e5", "inf", "nan", "a:9999999999", "a,b,,c", "0001-01-01T00:00+14:00",
]  # fmt: skip
_WORDS = [
    *[
        each
        for kind in ("text", "jsonb", "bigint", "interval", "timestamp with time zone")
        for each in HOSTILE[kind]
    ],
    *_DSNS,
    *_MODULES,
    *_ODD,
]
#: NUL cannot be an argument of any program.
_word = st.sampled_from([each for each in _WORDS if each is not None and "\x00" not in each]) | st.text(
    st.characters(exclude_characters="\x00"), max_size=30
)

#: Options that end a command before it has read the others.
_LEFT_ALONE = {"help", "version"}


def _commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Return every command, with the words that lead to it."""
    for name, command in main.commands.items():
        if isinstance(command, click.Group):
            yield from (((name, inner), each) for inner, each in command.commands.items())
        else:
            yield (name,), command


COMMANDS = dict(_commands())
#: They start servers, processes or handlers. Their words are read, and that is all.
READ_ONLY = {("demo",), ("dev",), ("worker",)}


def _words_of(command: click.Command) -> st.SearchStrategy[list[str]]:
    """Draw arguments for *command*, with hostile values in some of its options."""

    def chosen(options: list[click.Parameter]) -> st.SearchStrategy[list[str]]:
        parts = [
            st.just([each.opts[0]])
            if isinstance(each, click.Option) and each.is_flag
            else _word.map(lambda word, name=each.opts[0]: [f"{name}={word}"])  # type: ignore[misc]
            for each in options
        ]
        return st.tuples(*parts).map(lambda given: [word for words in given for word in words])

    options = [
        each for each in command.params if isinstance(each, click.Option) and each.name not in _LEFT_ALONE
    ]
    arguments = [each for each in command.params if isinstance(each, click.Argument)]
    given_options = st.lists(st.sampled_from(options), max_size=3, unique=True).flatmap(chosen)
    given_arguments = st.tuples(*(_word for _ in arguments)).map(
        lambda given: ["--", *given] if given else []
    )
    return st.tuples(given_options, given_arguments | st.lists(_word, max_size=3)).map(
        lambda parts: [*parts[0], *parts[1]]
    )


@pytest.fixture
def command_line(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    """The command line on the database of the test, from an empty folder."""
    for name in ("DATABASE_URL", "TASKQ_SCHEMA"):
        monkeypatch.setenv(name, "")  # so that it is put back: the options of a command may set it
        monkeypatch.delenv(name)
    monkeypatch.setenv("TASKQ_DSN", dsn)
    monkeypatch.chdir(tmp_path)
    return InProcess()


def check(done: Result) -> None:
    """See that a command has ended as documented."""
    assert done.code in (0, 1, 2, 69), done
    assert done.code == 0 or done.err.strip() or done.out.strip(), done
    assert "Traceback" not in done.err
    # what click says of words that it does not understand has these words in it
    for text in (done.out, "" if done.code == 2 else done.err):
        assert all(each.isprintable() or each == "\n" for each in text), ascii(text)


@pytest.mark.parametrize("words", sorted(COMMANDS.keys() - READ_ONLY))
def test_any_words_end_with_a_documented_code_and_a_sentence(
    command_line: InProcess, dsn: str, words: tuple[str, ...]
) -> None:
    @few
    @given(_words_of(COMMANDS[words]))
    def try_one(given_words: list[str]) -> None:
        # an option of the command line goes into the environment, for the program that it loads
        done = command_line.run(*words, *given_words, env={"TASKQ_DSN": dsn, "TASKQ_SCHEMA": None})
        check(done)
        if done.code == 0 and "--json" in given_words and "--sql" not in given_words:
            json.loads(done.out)

    try_one()


@pytest.mark.parametrize("words", sorted(READ_ONLY))
def test_any_words_of_a_long_command_are_read_or_refused(words: tuple[str, ...]) -> None:
    @few
    @given(_words_of(COMMANDS[words]))
    def try_one(given_words: list[str]) -> None:
        try:
            COMMANDS[words].make_context(words[-1], given_words, resilient_parsing=False)
        except click.ClickException as error:
            assert error.exit_code == 2
            assert error.format_message()

    try_one()


@pytest.mark.parametrize("read", [duration, instant, json_object, names, size, weighted_names])
def test_a_type_of_an_option_reads_any_text_or_refuses_it(read: Callable[[str], Any]) -> None:
    convert = click.types.FuncParamType(read)

    @few
    @given(_word)
    def try_one(word: str) -> None:
        try:
            convert(word)
        except click.BadParameter as error:
            assert error.message

    for each in filter(None, _WORDS):
        try_one.hypothesis.inner_test(each)  # type: ignore[attr-defined]
    try_one()


@pytest.mark.parametrize("word", _DSNS, ids=ascii)
def test_an_odd_dsn_ends_with_a_sentence(command_line: InProcess, word: str) -> None:
    done = command_line.run("status", "--dsn", word)
    check(done)
    assert done.code in (1, 69)
    assert done.err.startswith("taskq-sync: ")


@pytest.mark.parametrize("option", ["--app", "--import"])
@pytest.mark.parametrize("word", _MODULES, ids=ascii)
def test_an_odd_name_of_a_module_ends_with_a_sentence(
    command_line: InProcess, option: str, word: str
) -> None:
    done = command_line.run("enqueue", "t", option, word)
    check(done)
    assert done.code == 1
    assert done.err.startswith("taskq-sync: ")


# -- what jobs and workers hold -----------------------------------------------------------------------------------

_NASTY = "\x1b]0;x\x07\x1b[2J\x9b31m\u202e[bold red]x[/] [/] \\[b]\r\n\tend\u2028\ufeff"
_DEEP = "[" * 3_000 + "]" * 3_000
#: JSON that PostgreSQL holds and Python does not read, or not as it is.
_UNREADABLE = {
    "too deep": f'{{"a": {_DEEP}}}',
    "too many digits": '{"a": %s}' % ("9" * 5_000),
    "beyond a float": '{"a": 1%s.5}' % ("0" * 400),
    "more digits than a float": '{"a": 0.12345678901234567890123456789}',
    "control characters": json.dumps({"a\x7f\x9b\u202e": _NASTY}, ensure_ascii=False),
}


@pytest.fixture
def sql(conn: Connection) -> Contract:
    """The functions of the schema, called as its owner."""
    return Contract(conn)


def _looks(job_id: int) -> list[tuple[str, ...]]:
    return [
        *[("jobs", "list"), ("jobs", "list", "--json"), ("jobs", "show", str(job_id))],
        *[("jobs", "show", str(job_id), "--json"), ("queues", "list"), ("queues", "list", "--json")],
        *[("workers", "list"), ("workers", "list", "--json"), ("status",), ("status", "--json")],
    ]


@pytest.mark.parametrize("color", ["0", "1"])
def test_nothing_that_a_job_or_a_worker_holds_is_obeyed_by_a_terminal(
    command_line: InProcess, sql: Contract, monkeypatch: pytest.MonkeyPatch, color: str
) -> None:
    if color == "1":
        monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal, where markup would show
    queue = "[red]q[/red] \\[x] \u202e"
    payload = {_NASTY: _NASTY}
    job_id = sql.new_job(
        queue=queue,
        task=f"{queue}t",
        payload=payload,
        headers=payload,
        unique_key=_NASTY,
        concurrency_key=_NASTY,
    )
    attempt = sql.take(queue, worker=_NASTY)
    sql.fail(job_id=job_id, attempt_id=attempt["attempt_id"], error=_NASTY, retryable=False)
    sql.announce(
        worker_id=_NASTY, info={"host": _NASTY, "state": _NASTY, "version": _NASTY, "queues": [_NASTY]}
    )
    for words in _looks(job_id):
        done = command_line.run(*words)
        assert (done.code, done.err) == (0, ""), words
        text = done.out
        if color == "1":  # of the headings
            text = text.replace("\x1b[1m", "").replace("\x1b[0m", "")
        assert all(each.isprintable() or each == "\n" for each in text), (words, ascii(text))
        if words[:2] == ("jobs", "show"):
            assert "[bold red]x[/]" in text


@pytest.mark.parametrize("payload", _UNREADABLE.values(), ids=_UNREADABLE.keys())
def test_json_that_python_does_not_read_is_shown_all_the_same(
    command_line: InProcess, sql: Contract, payload: str
) -> None:
    job_id = sql.new_job(payload=payload)
    fence = sql.value("select attempt_id from taskq.claim('{q}', 'w')")
    stored = sql.value("select payload::text from taskq.jobs")
    document = f'[{{"job_id": {job_id}, "attempt_id": {fence}, "verb": "complete", "result": {payload}}}]'
    sql.run("select taskq.settle('w', %s::jsonb)", document)
    for words in _looks(job_id):
        done = command_line.run(*words)
        assert (done.code, done.err) == (0, ""), words
        assert all(each.isprintable() or each == "\n" for each in done.out), words
        if words == ("jobs", "show", str(job_id), "--json"):
            again = done.out.partition('"payload": ')[2].partition("\n")[0].removesuffix(",")
            assert sql.value("select %s::jsonb::text", again) == stored
