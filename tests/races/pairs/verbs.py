"""The table of the verbs: how each is called, the stages at which it touches the job, and whether it waits."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen
from psycopg.types.json import Jsonb

from kit.contract import Row
from races.pairs.stages import PLAIN, STAGES, Subject
from races.sessions import VERBS as SETTLEMENTS
from races.sessions import Session, settlement

#: Where a unique key matters, and the stages at which one enqueue stands for all.
_NAMED = ("queued", "waiting", "running", "started", "failed", "over")
_HELD = ("ordered", "full", "held", "freed")
_QUEUED = ("queued", "waiting", *_HELD, "expired")
_RUNNING = ("running", "started")
_ENDED = ("failed", "over")


@frozen(kw_only=True)
class Verb:
    """A row of the table.

    *passes_by* is what the call answers when it goes round what somebody has locked, as far as it matters; None = it
    waits instead. *may_wait* tells a call that does both. *moves* tells that the job stands elsewhere after it, where
    other calls touch it. *ahead* is how far the clock of its session is, for what happens to a job in time.
    """

    name: str
    call: Callable[[Session, Subject], list[Row]]
    stages: tuple[str, ...]
    passes_by: list[Row] | None = None
    may_wait: bool = False
    moves: bool = False
    ahead: str = ""

    def passed_by(self, answer: list[Row]) -> bool:
        """Tell whether this is the answer of a call that has gone round the job."""
        if self.passes_by is None or len(answer) != len(self.passes_by):
            return False
        return all(
            expected.items() <= row.items() for row, expected in zip(answer, self.passes_by, strict=True)
        )


def _request(name: str, **options: object) -> Row:
    return {"task": "t", "payload": {"by": name}, "concurrency_key": "k", "ttl": "30 min", **options}


def _enqueue(name: str, stages: tuple[str, ...] = _NAMED, **options: object) -> Verb:
    request = {"queue": "q", **_request(name, **options)}
    return Verb(name=name, call=lambda session, _: session.enqueue(**request), stages=stages)


_BATCH = [
    _request("enqueue_many", unique_key="v"),
    _request("enqueue_many", unique_key="u", unique_mode="replace"),
]
_ENQUEUES = [
    _enqueue("enqueue", unique_key="u"),
    _enqueue("enqueue_waiting", unique_key="u", unique_scope="waiting"),
    _enqueue(
        "enqueue_replace",
        (*_NAMED, *_HELD, "overtaken", "expired"),
        unique_key="u",
        unique_mode="replace",
        delay="5 min",
    ),
    _enqueue(
        "enqueue_replace_keep_schedule", unique_key="u", unique_mode="replace_keep_schedule", delay="5 min"
    ),
    _enqueue("enqueue_ordered", ("ordered",), ordered=True),
    Verb(
        name="enqueue_many",
        call=lambda session, _: session.enqueue_many(queue="q", jobs=Jsonb(_BATCH)),
        stages=_NAMED,
    ),
]


def _settle(verb: str) -> Verb:
    return Verb(
        name=verb,
        call=lambda session, job: session.settle(**settlement(job.attempt, verb=verb)),
        stages=_RUNNING,
        moves=True,
    )


def _make_room(session: Session, job: Subject) -> list[Row]:
    assert job.occupier is not None
    return session.settle(**settlement(job.occupier, verb="complete"))


_WORKERS = [
    Verb(
        name="claim",
        call=lambda session, _: session.claim(queues=["q"], worker_id="w", limit=10),
        stages=(*_QUEUED, "overtaken", "paused"),
        passes_by=[],
        moves=True,
    ),
    Verb(
        name="heartbeat",
        call=lambda session, job: session.heartbeat(
            worker_id="w",
            job_ids=[job.job_id],
            attempt_ids=[job.attempt_id],
            lease="2 min",
            progress={str(job.job_id): {"beat": 1}},
        ),
        stages=_RUNNING,
        passes_by=[{"state": "busy", "lease_expires_at": None, "progress_stored": False}],
    ),
    *(_settle(verb) for verb in SETTLEMENTS),
    Verb(name="make_room", call=_make_room, stages=("full", "held")),
    Verb(
        name="attempt_state",
        call=lambda session, job: session.attempt_state(job_id=job.job_id, attempt_id=job.attempt_id),
        stages=_RUNNING,
    ),
]


def _limit(name: str, key: str, max_running: int) -> Verb:
    return Verb(
        name=name,
        call=lambda session, _: session.set_concurrency_limit(key=key, max_running=max_running),
        stages=("queued", "running", *_HELD),
    )


_OPERATORS = [
    Verb(
        name="cancel_job",
        call=lambda session, job: session.cancel_job(job_id=job.job_id, reason="why"),
        moves=True,
        stages=(*_QUEUED, "overtaken", *_RUNNING, *_ENDED),
    ),
    Verb(
        name="redrive",
        call=lambda session, job: session.redrive(job_id=job.job_id),
        stages=("queued", "running", *_ENDED),
        passes_by=[{"result": "key_taken"}],
        may_wait=True,
        moves=True,
    ),
    Verb(
        name="purge_queue",
        call=lambda session, _: session.purge_queue(queue="q"),
        stages=_QUEUED,
        passes_by=[],
        moves=True,
    ),
    _limit("close_key", "k", 0),
    _limit("raise_key", "k", 2),
    _limit("raise_pattern", "k*", 3),
    Verb(
        name="pause_queue",
        call=lambda session, _: session.pause_queue(queue="q"),
        stages=("queued", "paused", "freed"),
    ),
    Verb(name="resume_queue", call=lambda session, _: session.resume_queue(queue="q"), stages=("paused",)),
]

_HOUSEKEEPING = [
    Verb(
        name="take_back",
        call=lambda session, _: session.take_back(),
        stages=_RUNNING,
        passes_by=[],
        moves=True,
    ),
    Verb(
        name="expire_ttl",
        call=lambda session, _: session.expire_ttl(),
        stages=(*_QUEUED, "overtaken"),
        passes_by=[{"expire_ttl": 0}],
        moves=True,
        ahead="1 hour",
    ),
    Verb(
        name="age",
        call=lambda session, _: session.age(),
        stages=("overtaken",),
        passes_by=[{"age": 0}],
        ahead="20 min",
    ),
    Verb(
        name="prune",
        call=lambda session, _: session.prune(),
        stages=_ENDED,
        passes_by=[{"prune": 0}],
        moves=True,
    ),
]

VERBS = {verb.name: verb for verb in (*_ENQUEUES, *_WORKERS, *_OPERATORS, *_HOUSEKEEPING)}


def _seconds(stage: str, first: Verb) -> list[str]:
    """Return the verbs that may come second: those that touch the job, or do where the first has moved it."""
    anywhere = stage in PLAIN and first.moves
    return [
        verb.name
        for verb in VERBS.values()
        if stage in verb.stages or (anywhere and verb.name != "make_room")
    ]


#: Stage and first call, which touches the job there -> the second calls.
PAIRS = {
    (stage, verb.name): _seconds(stage, verb)
    for stage in STAGES
    for verb in VERBS.values()
    if stage in verb.stages
}
