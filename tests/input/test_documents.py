"""JSON documents of anything: what is wrong in one element is said of that element, and touches no other."""

# Scenarios B27, B59, B64.

from __future__ import annotations

import json
import re
from typing import Any

import hypothesis.strategies as st
import psycopg
import pytest
from hypothesis import given

from input.examples import few, many
from input.values import HOSTILE, LOPSIDED, json_values
from input.world import World, check_refusal

_SPANS = [each for each in HOSTILE["interval"] if each is not None]
_INSTANTS = [each for each in HOSTILE["timestamp with time zone"] if each is not None]
_TEXTS = [each for each in HOSTILE["text"] if each is not None and len(each) < 1_000]


class Raw(str):
    """JSON that Python would write in another way."""


_ODD_NUMBERS = [
    Raw(each) for each in ("1e400", "-1e400", "1e-400", "-0", "-0.0", "1E+2", "0.1e1", "1e131000")
]
_odd = st.sampled_from(
    [*_ODD_NUMBERS, 2**31, 2**63, -(2**63) - 1, 1.5, "NaN", "7", " 7 ", "", "true", [], {}, [1], {"a": 1}]
)
_number = st.integers(-3, 2**33) | _odd
_text = st.sampled_from(_TEXTS) | _odd
_span = st.sampled_from([*_SPANS, *LOPSIDED]) | st.integers(-1, 100) | st.floats(0, 1e9) | _odd
_instant = st.sampled_from(_INSTANTS) | _odd
_flag = st.booleans() | _odd
_ANYTHING = json_values | _odd


def dumps(value: Any) -> str:
    """Return *value* as JSON, `Raw` as it is."""
    text = json.dumps(value, default=str)
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, list):
        return "[" + ",".join(map(dumps, value)) + "]"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{dumps(item)}" for name, item in value.items()) + "}"
    return text


def _mutated(good: dict[str, Any], properties: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Draw *good* with up to three of its properties, or others, gone wrong; rarely something else altogether."""

    def change(names: list[str]) -> st.SearchStrategy[dict[str, Any]]:
        return st.fixed_dictionaries({name: properties[name] for name in names}).map(
            lambda bad: {**good, **bad}
        )

    changed = st.lists(st.sampled_from(sorted(properties)), max_size=3, unique=True).flatmap(change)
    unknown = st.builds(lambda name, value: {**good, name: value}, st.text(max_size=20), json_values)
    return st.one_of(changed, changed, changed, unknown, _ANYTHING)


_PROPERTIES: dict[str, st.SearchStrategy[Any]] = {
    "task": _text,
    "payload": _ANYTHING,
    "priority": _number,
    "scheduled_at": _instant,
    "delay": _span,
    "unique_key": _text,
    "concurrency_key": _text,
    "max_attempts": _number,
    "backoff": _span,
    "backoff_max": _span,
    "lease": _span,
    "ttl": _span,
    "headers": _ANYTHING,
    "unique_mode": st.sampled_from(["keep", "replace", "replace_keep_schedule", "REPLACE"]) | _odd,
    "unique_scope": st.sampled_from(["live", "waiting"]) | _odd,
    "unique_for": _span,
    "ordered": _flag,
}
_job = _mutated({"task": "t"}, _PROPERTIES)


def test_enqueue_many_stores_all_jobs_or_names_the_bad_one(world: World) -> None:
    function = world.functions["enqueue_many"]

    @many
    @given(st.lists(_job, min_size=1, max_size=4))
    def try_one(jobs: list[Any]) -> None:
        arguments = {"p_queue": "q", "p_jobs": dumps(jobs)}
        if not world.is_readable("jsonb", arguments["p_jobs"]):
            return
        with world.trial():
            try:
                rows = world.call(function, arguments)
            except psycopg.Error as error:
                check_refusal(function, dict.fromkeys(["p_jobs", *_PROPERTIES]), error)
                found = re.match(r"the job at ordinal (\d+)", error.diag.message_primary or "")
                if found:
                    assert error.diag.message_detail == f"ordinal {found[1]}"
                    assert int(found[1]) < len(jobs)
                world.conn.execute("rollback to call")
                assert world.read_digest() == world.digest
            else:
                assert len(rows) == len(jobs)
                world.live_on()

    try_one()


@pytest.mark.parametrize("document", ["null", "7", '"[]"', "{}", "true", '{"task": "t"}'])
def test_a_document_that_is_no_array_is_refused(world: World, document: str) -> None:
    for name, arguments in (
        ("enqueue_many", {"p_queue": "q", "p_jobs": document}),
        ("settle", {"p_worker_id": "w", "p_settlements": document}),
    ):
        with (
            world.trial(),
            pytest.raises(psycopg.Error, match="must be a JSON array of objects, not") as caught,
        ):
            world.call(world.functions[name], arguments)
        assert caught.value.sqlstate == "TQ422"


def _size(world: World, document: str) -> int:
    return int(world.sql.value("select octet_length(%s::jsonb::text)", document))


def _settlement(world: World) -> st.SearchStrategy[Any]:
    """Draw an element that is about any attempt but the target's."""
    others = world.sql.rows("select id, attempt_id from taskq.running where task <> 'target'")
    good = {"job_id": world.neighbour["id"], "attempt_id": world.neighbour["attempt_id"], "verb": "complete"}
    ids = [each["id"] for each in others]
    fences = [each["attempt_id"] for each in others]
    return _mutated(
        good,
        {
            "job_id": st.sampled_from([*ids, *map(str, ids), None, 0, -1]) | _odd,
            "attempt_id": st.sampled_from([*fences, *map(str, fences), None, 0, -1]) | _odd,
            "verb": st.sampled_from(
                ["complete", "fail", "snooze", "release", "cancel", "take_back", "Complete"]
            )
            | _odd,
            "result": _ANYTHING,
            "error": _text,
            "retryable": _flag,
            "retry_after": _span,
            "delay": _span,
            "reason": _text,
            "cause": _text,
            "progress": _ANYTHING,
            "fault": _text,
        },
    )


def test_settle_rejects_the_bad_elements_and_settles_the_others(world: World) -> None:
    function = world.functions["settle"]
    good = {"job_id": world.target["id"], "attempt_id": world.target["attempt_id"], "verb": "complete"}

    @many
    @given(st.lists(_settlement(world), max_size=4), st.integers(0, 4))
    def try_one(elements: list[Any], place: int) -> None:
        document = dumps([*elements[:place], good, *elements[place:]])
        if not world.is_readable("jsonb", document):
            return
        with world.trial():
            answers = world.sql.rows(
                "select result, status, reason from taskq.settle('w', %s::jsonb)", document
            )
            assert len(answers) == len(elements) + 1
            own = answers.pop(min(place, len(elements)))
            assert (own["result"], own["status"]) == ("ok", "succeeded")
            for each in answers:
                assert (each["result"] == "rejected") == (each["reason"] is not None), each
                assert len(each["reason"] or "") <= 700
            world.live_on()

    try_one()
    assert function.sqlstates == {"TQ422"}


def test_a_beat_renews_whatever_is_told_of_checkpoints(world: World) -> None:
    job_id = str(world.target["id"])
    documents = st.dictionaries(st.sampled_from([job_id, "0", "", "x"]) | st.text(max_size=9), _ANYTHING)

    @few
    @given(documents | _ANYTHING)
    def try_one(progress: Any) -> None:
        document = dumps(progress)
        if not world.is_readable("jsonb", document):
            return
        with world.trial():
            try:
                [answer] = world.sql.rows(
                    "select state, progress_stored from taskq.heartbeat('w', array[%s::bigint], array[%s::bigint], "
                    "p_progress => %s::jsonb)",
                    job_id,
                    world.target["attempt_id"],
                    document,
                )
            except psycopg.Error as error:
                assert not isinstance(progress, dict)
                check_refusal(world.functions["heartbeat"], {"p_progress": None}, error)
            else:
                assert answer["state"] == "ok"
                assert (answer["progress_stored"] is not None) == (job_id in progress)
                world.live_on()

    try_one()


_info = st.dictionaries(
    st.sampled_from(["queues", "state", "host", "pid", "slots", "version", "announce_every"])
    | st.text(max_size=9),
    _ANYTHING
    | st.lists(_text, max_size=4)
    | st.sampled_from(["\u0663", "٣.٣", "9" * 30, "1.5", "30x5", "007"]),
    max_size=5,
)


def test_a_worker_may_say_anything_of_itself(world: World) -> None:
    @few
    @given(_info | _ANYTHING)
    def try_one(info: Any) -> None:
        document = dumps(info)
        if not world.is_readable("jsonb", document):
            return
        size = _size(world, document)
        with world.trial():
            try:
                world.call(world.functions["announce"], {"p_worker_id": "w", "p_info": document})
            except psycopg.Error as error:
                check_refusal(world.functions["announce"], {"p_info": None}, error)
                assert not isinstance(info, dict) or size > 8192
            else:
                world.live_on()

    try_one()


def test_any_result_and_any_checkpoint_is_kept_as_it_is(world: World) -> None:
    @few
    @given(json_values | _odd)
    def try_one(value: Any) -> None:
        document = dumps(value)
        arguments = {"p_job_id": str(world.target["id"]), "p_attempt_id": str(world.target["attempt_id"])}
        with world.trial():
            if _size(world, document) <= 2048:
                world.call(world.functions["fail"], {**arguments, "p_error": "x", "p_progress": document})
                stored = "select progress = %s::jsonb from taskq.ready where task = 'target'"
                assert world.sql.value(stored, document)
                world.conn.execute("rollback to call")
            [answer] = world.call(world.functions["complete"], {**arguments, "p_result": document})
            assert ("rejected" in answer) == (_size(world, document) > 8192)
            if "rejected" not in answer:
                stored = "select result = %s::jsonb from taskq.finished where task = 'target'"
                assert world.sql.value(stored, document)

    try_one()
