"""The values that go to and come from the functions of the schema; one class per row type.

All are frozen; the two that come and go for every job of a batch are named tuples, which take half to two thirds of
the time to make. Instants are aware datetimes of the database's clock and are never compared with the local
one. JSON travels as text and is parsed when somebody looks at it: a claim of a hundred jobs must not pay
for payloads that their handlers read later, in other threads. What Python does not hold of it is a `PayloadError`
then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, Union, cast

from attrs import field, frozen

from taskq_sync import jsontext
from taskq_sync.clock import interval_text
from taskq_sync.errors import InvalidInput
from taskq_sync.options import JobOptions
from taskq_sync.text import cut

JsonValue = Union[None, bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]"]
"""What `json.loads` returns."""

MAX_ERROR_BYTES = 8192


def _parse(text: str | None) -> JsonValue:
    return None if text is None else cast(JsonValue, jsontext.read(text))


def _parse_object(text: str) -> dict[str, JsonValue]:
    return cast("dict[str, JsonValue]", jsontext.read(text))


def _texts(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


@frozen
class EnqueueResult:
    """The answer to one enqueue."""

    status: str
    """What became of the request:

    - `created`: the job `job_id` is new.
    - `existed`: the job `job_id` holds the unique key, and is unchanged.
    - `replaced`: the job `job_id` holds the unique key, had not been started, and has this request now.
    - `running`: the job `job_id` holds the unique key and has been started, so it is unchanged; what should have
      replaced its request is not stored.
    """

    job_id: int

    @property
    def created(self) -> bool:
        """Whether this call made the job."""
        return self.status == "created"

    @property
    def accepted(self) -> bool:
        """Whether a job has this request now: it was created with it, or it was replaced by it."""
        return self.status in ("created", "replaced")


@frozen(kw_only=True)
class JobRequest:
    """One job to be enqueued: made by `task.job(...)`, taken by `tq.enqueue_many`.

    The payload is already validated and written as JSON text.
    """

    queue: str
    task: str
    payload_json: str
    options: JobOptions = field(factory=JobOptions)

    def __attrs_post_init__(self) -> None:
        options = self.options
        if not options.given:
            return
        about_the_key = (options.unique_mode, options.unique_scope, options.unique_for)
        if options.unique_key is None and about_the_key != (None, None, None):
            raise InvalidInput(
                f"a job of {self.task} has a unique_mode, unique_scope or unique_for and no unique_key",
                hint="give it a key: using(unique_key=...), or unique=True on the task",
            )
        if options.ordered and options.concurrency_key is None:
            raise InvalidInput(
                f"a job of {self.task} is ordered and has no concurrency_key",
                hint="say among which jobs: concurrency=... on the task, or using(concurrency_key=...)",
            )


@frozen(slots=False)
class ClaimedJob:
    """One job under lease, as `claim` returns it. SQL: functions/worker/claim.sql.

    Without slots, because so many fields are set faster in a dict: 0.8 us against 1.7.
    """

    job_id: int
    attempt_id: int
    """The fence: greater for every later attempt of the job."""
    queue: str
    task: str
    payload_json: str = field(repr=False)
    headers_json: str | None = field(repr=False)
    progress_json: str | None = field(repr=False)
    priority: int
    attempt_count: int
    """Claims so far, this one included."""
    failure_count: int
    max_attempts: int
    expiry_streak: int
    """Attempts in a row that ended by an expired lease; above 0 the job is a suspect."""
    scheduled_at: datetime
    created_at: datetime
    lease: timedelta
    lease_expires_at: datetime
    concurrency_key: str | None

    @property
    def payload(self) -> dict[str, JsonValue]:
        """The payload, parsed anew at each access."""
        return _parse_object(self.payload_json)

    @property
    def headers(self) -> dict[str, JsonValue]:
        """The headers, empty when there are none."""
        return {} if self.headers_json is None else _parse_object(self.headers_json)

    @property
    def progress(self) -> JsonValue:
        """The checkpoint of the attempts before, or None."""
        return _parse(self.progress_json)

    @property
    def suspect(self) -> bool:
        """Whether the attempt before ended by an expired lease: the job may have killed its worker."""
        return self.expiry_streak > 0

    @property
    def last_attempt(self) -> bool:
        """Whether a failure of this attempt ends the job."""
        return self.failure_count + 1 >= self.max_attempts


@frozen
class Job:
    """One job wherever it stands, as the view `job_view` shows it. SQL: views/job_view.sql."""

    id: int
    queue: str
    task: str
    status: str
    """`blocked`, `queued`, `running`, `succeeded`, `failed` or `cancelled`."""
    outcome: str | None
    """Why it ended: `success`, `retry_exhausted`, `non_retryable`, `poison`, `cancelled`, ..."""
    payload_json: str = field(repr=False)
    headers_json: str | None = field(repr=False)
    priority: int
    unique_key: str | None
    concurrency_key: str | None
    max_attempts: int
    backoff: timedelta
    backoff_max: timedelta
    lease: timedelta
    ttl: timedelta | None
    created_at: datetime
    scheduled_at: datetime | None
    expires_at: datetime | None
    hold: str | None
    """Why a queued job cannot be claimed, or None."""
    attempt_count: int
    failure_count: int
    expiry_streak: int
    snooze_count: int
    progress_json: str | None = field(repr=False)
    current_attempt_id: int | None
    worker_id: str | None
    claimed_at: datetime | None
    lease_expires_at: datetime | None
    cancel_requested_at: datetime | None
    result_json: str | None = field(repr=False)
    error: str | None
    reason: str | None
    finished_at: datetime | None
    purge_at: datetime | None
    parent_job_id: int | None
    root_job_id: int | None
    enqueued_by: str
    ordered: bool

    @property
    def payload(self) -> dict[str, JsonValue]:
        """The payload, parsed anew at each access."""
        return _parse_object(self.payload_json)

    @property
    def headers(self) -> dict[str, JsonValue]:
        """The headers, empty when there are none."""
        return {} if self.headers_json is None else _parse_object(self.headers_json)

    @property
    def progress(self) -> JsonValue:
        """The last checkpoint, or None."""
        return _parse(self.progress_json)

    @property
    def result(self) -> JsonValue:
        """What a succeeded job returned, or None."""
        return _parse(self.result_json)

    @property
    def ended(self) -> bool:
        """Whether the job is succeeded, failed or cancelled."""
        return self.status in ("succeeded", "failed", "cancelled")


@frozen
class Attempt:
    """One claim of a job, running or ended. SQL: functions/observer/job_history.sql."""

    attempt_id: int
    worker_id: str | None
    claimed_at: datetime | None
    ended_at: datetime | None
    """None while it runs."""
    verb: str | None
    """What the worker asked for, or `take_back`."""
    status: str | None
    """Where that put the job."""
    outcome: str | None
    error: str | None
    reason: str | None
    scheduled_at: datetime | None


@frozen
class PollHint:
    """Whether it is worth polling a queue. SQL: functions/worker/poll_hint.sql."""

    queue: str
    state: str
    """`ready`, `empty` or `paused`."""
    next_due_at: datetime | None
    due_in: timedelta | None
    """How long until `next_due_at`, measured by the database; negative when it has passed."""


@frozen
class Beat:
    """What one heartbeat did for one attempt. SQL: functions/worker/heartbeat.sql."""

    job_id: int
    attempt_id: int
    state: str
    """`ok`, `busy` (the row was locked: ask again) or `lost`."""
    cancel_requested: bool
    lease_expires_at: datetime | None
    progress_stored: bool | None
    """None when no checkpoint was sent; False when it was too large."""


class Settled(NamedTuple):
    """What became of one verdict. SQL: functions/worker/settle.sql."""

    job_id: int
    attempt_id: int
    result: str
    """`ok`, `retry_scheduled`, `dead`, `already_settled`, `settle_conflict`, `lost` or `rejected`."""
    status: str | None
    """Where the attempt landed."""
    scheduled_at: datetime | None
    reason: str | None
    """Why it was rejected."""


class Verdict(NamedTuple):
    """How one attempt is to end: an element of the document that `settle` takes.

    Make one by the class methods, named after the verbs. `result_json` and `progress_json` are JSON as text
    (see `codec.to_json`), None for none; `error` and the reasons may be any text, it is made storable and
    cut.
    """

    job_id: int
    attempt_id: int
    verb: str
    members: Mapping[str, str]
    """The other properties, each already as JSON."""

    @property
    def is_bare(self) -> bool:
        """Whether it says that the job is done, and nothing else."""
        return self.verb == "complete" and not self.members

    @classmethod
    def complete(cls, job_id: int, attempt_id: int, *, result_json: str | None = None) -> Verdict:
        """The job is done."""
        return cls(job_id, attempt_id, "complete", {} if result_json is None else {"result": result_json})

    @classmethod
    def fail(
        cls,
        job_id: int,
        attempt_id: int,
        *,
        error: str,
        retryable: bool = True,
        retry_after: timedelta | None = None,
        progress_json: str | None = None,
    ) -> Verdict:
        """The attempt failed; without *retryable* the job has failed."""
        members = _present(
            error=_text(error),
            retryable=None if retryable else "false",
            retry_after=_interval(retry_after),
            progress=progress_json,
        )
        return cls(job_id, attempt_id, "fail", members)

    @classmethod
    def snooze(
        cls,
        job_id: int,
        attempt_id: int,
        *,
        delay: timedelta,
        reason: str | None = None,
        progress_json: str | None = None,
    ) -> Verdict:
        """Run it again after *delay*, without cost to its budget."""
        members = _present(delay=_interval(delay), reason=_text(reason), progress=progress_json)
        return cls(job_id, attempt_id, "snooze", members)

    @classmethod
    def release(
        cls,
        job_id: int,
        attempt_id: int,
        *,
        delay: timedelta = timedelta(0),
        cause: str | None = None,
        progress_json: str | None = None,
    ) -> Verdict:
        """Hand the job back, without cost to its budget. The cause `not_started` leaves no trace of the
        attempt."""
        members = _present(delay=_interval(delay), cause=_text(cause), progress=progress_json)
        return cls(job_id, attempt_id, "release", members)

    @classmethod
    def cancel(cls, job_id: int, attempt_id: int, *, reason: str | None = None) -> Verdict:
        """End the job as cancelled."""
        return cls(job_id, attempt_id, "cancel", _present(reason=_text(reason)))

    def document(self) -> str:
        """Return the element as JSON text, without absent properties."""
        head = f'{{"job_id":{self.job_id},"attempt_id":{self.attempt_id},"verb":"{self.verb}"'
        if not self.members:
            return head + "}"
        return head + "".join(f',"{name}":{value}' for name, value in self.members.items()) + "}"


def _present(**members: str | None) -> dict[str, str]:
    return {name: value for name, value in members.items() if value is not None}


def _text(value: str | None) -> str | None:
    return None if value is None else json.dumps(cut(value, MAX_ERROR_BYTES), ensure_ascii=False)


def _interval(value: timedelta | None) -> str | None:
    return None if value is None else f'"{interval_text(value)}"'


@frozen
class QueueStats:
    """One queue at a glance. Counts stop at 10,001: read that as "more than 10,000". SQL: queue_stats.sql."""

    queue: str
    paused: bool
    ready: int
    """Due and claimable."""
    delayed: int
    held: int
    """Not claimable: their concurrency key is full, an older job of an ordered key is live, or their time is over."""
    running: int
    failed: int
    oldest_ready_age: timedelta | None
    next_due_at: datetime | None


@frozen
class Presence:
    """The answer to `announce`: what the worker is asked to do."""

    stop_requested: bool
    paused_queues: tuple[str, ...]


@frozen
class WorkerSeen:
    """One worker, as it last announced itself. SQL: functions/observer/workers.sql."""

    worker_id: str
    host: str | None
    pid: int | None
    version: str | None
    queues: tuple[str, ...] = field(converter=_texts)
    slots: int | None
    state: str | None
    """`running`, `degraded`, `stopping` and so on, or `silent`: it was not heard of for a while."""
    started_at: datetime
    seen_at: datetime
    running: int
    """How many jobs it holds a lease of."""
    stop_requested: bool
    info_json: str = field(repr=False)

    @property
    def info(self) -> dict[str, JsonValue]:
        """What else it announced."""
        return _parse_object(self.info_json)


@frozen
class StopResult:
    """The answer to `stop_worker`: `requested` or `already_requested`."""

    worker_id: str
    result: str


@frozen
class AttemptState:
    """Where an attempt stands: `running`, `settled`, `lost` or `busy`; `status` is where it landed."""

    state: str
    status: str | None


@frozen
class TakenBack:
    """One attempt that was ended because its lease ran out. SQL: functions/housekeeping/take_back.sql."""

    job_id: int
    attempt_id: int
    result: str
    status: str | None
    """Where it landed: `queued`, `failed` or `cancelled`."""
    scheduled_at: datetime | None


@frozen
class Housekept:
    """How many rows one round of housekeeping handled."""

    taken_back: int
    expired: int
    pruned: int
    raised: int


@frozen
class CancelResult:
    """The answer to `cancel_job`: `cancelled`, `requested` (running: the handler is told) or
    `already_ended`."""

    job_id: int
    result: str
    status: str


@frozen
class RedriveResult:
    """The answer to `redrive`: `redriven`, `key_taken` (another job holds its unique key: nothing was changed) or
    `already_live`."""

    job_id: int
    result: str
    status: str


@frozen
class PauseResult:
    """The answer to `pause_queue` and `resume_queue`: `paused`, `already_paused`, `resumed` or
    `not_paused`."""

    queue: str
    result: str


@frozen
class Problem:
    """One finding of `check_integrity`."""

    job_id: int | None
    problem: str


@frozen
class SchemaVersion:
    """What is installed: its version, and the oldest client that may use it."""

    version: str
    min_client: str


@frozen
class QueueVersion:
    """The answer to `set_queue`: the policy of the queue now has this version."""

    queue: str
    version: int


@frozen
class ConcurrencyLimit:
    """The answer to `set_concurrency_limit`."""

    key: str
    max_running: int
