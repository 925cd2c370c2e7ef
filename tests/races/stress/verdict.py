"""Judge a stress run: is there a serial order in which the database could have given all these answers?

Only what is certain counts: an effect is certainly there after the commit that made it was *known*, and certainly was
not there before it was *decided*. Of a job that was redriven less is certain: it has ended, and lives again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import psycopg
from attrs import frozen

from .caller import WAITING_KEYS
from .ledger import TERMINAL, Answer, Attempt, Cancel, Enqueued, Ledger, Look

Connection = psycopg.Connection[tuple[Any, ...]]


@frozen
class Standing:
    """Where a job stands in the end: its place, status and outcome, and the attempt that ended it or runs."""

    place: str
    status: str
    outcome: str | None
    attempt_id: int | None
    verb: str | None


@frozen(kw_only=True)
class Final:
    """The database after all sessions have ended."""

    jobs: Mapping[int, Standing]
    attempts: Mapping[int, tuple[str, str]]
    worked: tuple[int, ...]
    stored: int


def read_final(conn: Connection) -> Final:
    """Read what the verdict compares the ledger with, when nothing moves any more."""
    return Final(
        jobs={row[0]: Standing(*row[1:]) for row in conn.execute(_STANDINGS)},
        attempts={
            row[0]: (row[1], row[2])
            for row in conn.execute("select attempt_id, verb, status from taskq.attempts")
        },
        worked=tuple(row[0] for row in conn.execute("select attempt_id from stress.work")),
        stored=conn.execute("select from taskq.jobs").rowcount,
    )


_STANDINGS = """
select id, 'ready' as place, 'queued' as status, null as outcome, null::bigint as attempt_id, null as verb
from taskq.ready
union all
select id, 'running', 'running', null, attempt_id, null from taskq.running
union all
select id, 'finished', status, outcome, attempt_id, verb from taskq.finished
"""


class Verdict:
    """The findings of one run; none means that all is well."""

    def __init__(self, ledger: Ledger, final: Final) -> None:
        self._ledger = ledger
        self._final = final
        self._replaced: defaultdict[int, list[Enqueued]] = defaultdict(list)
        for each in ledger.enqueued:
            if each.status == "replaced":
                self._replaced[each.job_id].append(each)
        self._created = {each.job_id: each for each in ledger.enqueued if each.status == "created"}
        self._ends = {fence: each for fence in ledger.attempts if (each := self._end(fence)) is not None}
        self._attempts: defaultdict[int, list[Attempt]] = defaultdict(list)
        for attempt in sorted(ledger.attempts.values(), key=lambda each: each.attempt_id):
            self._attempts[attempt.job_id].append(attempt)

    def findings(self) -> list[str]:
        """Return what cannot be, in sentences."""
        checks: list[Callable[[], Iterator[str]]] = [
            self._counts,
            self._answers,
            self._chains,
            self._places,
            self._cancels,
            self._keys,
            self._pauses,
            self._uniqueness,
            self._looks,
            self._work,
        ]
        return [finding for check in checks for finding in check()]

    def _end(self, fence: int) -> Answer | None:
        return next((each for each in self._ledger.answers.get(fence, ()) if each.ended), None)

    def _pruned(self, job_id: int) -> bool:
        return job_id not in self._final.jobs

    # what was counted

    def _counts(self) -> Iterator[str]:
        pruned = sum(each.jobs for each in self._ledger.pruned)
        if len(self._created) != self._final.stored + pruned:
            yield f"{len(self._created)} enqueued, but {self._final.stored} stored and {pruned} pruned"
        if len(self._final.jobs) != self._final.stored:
            yield f"{self._final.stored} requests, but {len(self._final.jobs)} jobs in a place"
        for job_id in self._final.jobs.keys() - self._created.keys():
            yield f"job {job_id} is there, but no enqueue that committed made it"
        for job_id in self._final.jobs.keys() & self._ledger.undone_jobs:
            yield f"job {job_id} is there, but its enqueue rolled back"

    # settle: the truth table

    def _answers(self) -> Iterator[str]:
        for fence, answers in self._ledger.answers.items():
            attempt = self._ledger.attempts.get(fence)
            if attempt is None:
                wrong = [each for each in answers if each.result != ("rejected" if each.spoilt else "lost")]
                yield from (f"{_say(each)}: nobody holds that fence" for each in wrong)
                continue
            if sum(each.ended for each in answers) > 1:
                yield f"attempt {fence} ended more than once: {[_say(each) for each in answers if each.ended]}"
            end = self._ends.get(fence)
            for answer in answers:
                if not (
                    self._right_end(attempt, answer) if answer.ended else self._right_refusal(answer, end)
                ):
                    yield f"{_say(answer)}, of {attempt}, ended by {end and _say(end)}"

    def _right_end(self, attempt: Attempt, answer: Answer) -> bool:
        possible = set()
        if (request := self._request(attempt.job_id, answer)) != "none":
            possible.add(("ok", "succeeded" if answer.verb == "complete" else "cancelled"))
        if request != "certain":
            possible.add(_undisturbed(attempt, answer))
        return attempt.job_id == answer.job_id and (answer.result, answer.status) in possible

    def _request(self, job_id: int, answer: Answer) -> str:
        """Say whether a cancel request was there: for certain, perhaps or not."""
        requests = [each for each in self._ledger.cancels.get(job_id, ()) if each.result == "requested"]
        certain = any(each.deed.known <= answer.asked or each.deed is answer.deed for each in requests)
        if certain and job_id not in self._ledger.redriven:
            return "certain"
        return "perhaps" if any(each.deed.decided <= answer.answered for each in requests) else "none"

    def _right_refusal(self, answer: Answer, end: Answer | None) -> bool:
        if answer.spoilt or answer.result == "rejected":
            return answer.spoilt and answer.result == "rejected"
        if end is None or not _could_see(end, answer):
            return False
        if end.verb == "take_back" or end.leaves_no_row:
            return answer.result == "lost" and answer.status is None
        if answer.result == "lost":
            return self._pruned(answer.job_id)
        expected = "already_settled" if end.verb == answer.verb else "settle_conflict"
        return answer.result == expected and answer.status == end.status

    # the attempts of one job, one after the other

    def _chains(self) -> Iterator[str]:
        for job_id, attempts in self._attempts.items():
            if [each.attempt_count for each in attempts] != list(range(1, len(attempts) + 1)):
                yield f"job {job_id}: attempts in the order of their fences: {attempts}"
            for attempt, following in pairwise(attempts):
                end = self._ends.get(attempt.attempt_id)
                redriven = job_id in self._ledger.redriven
                if end is None or not (end.status == "queued" or (redriven and end.status != "succeeded")):
                    yield f"job {job_id} was claimed after {end and _say(end)}"
                elif following.deed.known < end.deed.decided:
                    yield f"job {job_id} was claimed before attempt {attempt.attempt_id} ended"
                elif following.failure_count not in self._failures_after(attempt, end):
                    yield f"job {job_id}: failures of {following} after {_say(end)}"
                elif following.expiry_streak not in {_streak_after(attempt, end), 0 if redriven else -1}:
                    yield f"job {job_id}: expiry streak of {following} after {_say(end)}"

    def _failures_after(self, attempt: Attempt, end: Answer) -> set[int]:
        """Return what the failures may be at the next claim: a newer request or a redrive lets them start anew."""
        failures = {attempt.failure_count + (end.verb in ("fail", "take_back"))}
        replaced = any(each.deed.known >= end.deed.decided for each in self._replaced[attempt.job_id])
        if replaced or attempt.job_id in self._ledger.redriven:
            failures.add(0)
        return failures

    def _places(self) -> Iterator[str]:
        for job_id, standing in self._final.jobs.items():
            last = self._attempts[job_id][-1] if job_id in self._attempts else None
            end = self._ends.get(last.attempt_id) if last else None
            in_queue = standing.attempt_id is None and job_id in self._ledger.redriven
            if last is None or (end and (end.status == "queued" or in_queue)):
                possible = standing.place == "ready" or (
                    standing.place == "finished"
                    and standing.attempt_id is None
                    and standing.outcome in ("cancelled", "expired_ttl")
                )
            elif end is None:
                possible = (standing.place, standing.attempt_id) == ("running", last.attempt_id)
            else:
                possible = (standing.attempt_id, standing.verb) == (last.attempt_id, end.verb)
                possible = possible and standing.status == end.status
            if not possible:
                yield f"job {job_id} stands at {standing} after {last} and {end and _say(end)}"
        yield from self._history()

    def _history(self) -> Iterator[str]:
        recorded = {
            fence: (end.verb, end.status)
            for fence, end in self._ends.items()
            if end.status == "queued" and not end.leaves_no_row and not self._pruned(end.job_id)
        }
        moved = {fence for fence in self._final.attempts.keys() - recorded.keys() if self._is_moved(fence)}
        for fence in (recorded.keys() ^ self._final.attempts.keys()) - moved:
            yield f"attempt {fence}: history {self._final.attempts.get(fence)}, answers {recorded.get(fence)}"
        for fence in recorded.keys() & self._final.attempts.keys():
            if recorded[fence] != self._final.attempts[fence]:
                yield f"attempt {fence}: history {self._final.attempts[fence]}, answers {recorded[fence]}"

    def _is_moved(self, fence: int) -> bool:
        """Tell whether the attempt ended its job, and a redrive has moved it."""
        end = self._ends.get(fence)
        return (
            end is not None
            and end.job_id in self._ledger.redriven
            and (end.verb, end.status) == self._final.attempts[fence]
        )

    # cancel_job

    def _cancels(self) -> Iterator[str]:
        for job_id, cancels in self._ledger.cancels.items():
            if job_id in self._ledger.redriven:
                continue
            if sum(each.result == "cancelled" for each in cancels) > 1:
                yield f"job {job_id} was cancelled more than once"
            for cancel in cancels:
                yield from (f"{cancel}: {reason}" for reason in self._wrong_cancel(cancel))

    def _wrong_cancel(self, cancel: Cancel) -> Iterator[str]:
        attempts = self._attempts.get(cancel.job_id, [])
        ends = [end for each in attempts if (end := self._ends.get(each.attempt_id)) is not None]
        standing = self._final.jobs.get(cancel.job_id)
        if any(each.asked >= cancel.deed.known for each in attempts):
            yield "but it was claimed later"
        if cancel.result == "cancelled":
            if any(each.status in TERMINAL for each in ends):
                yield "but an attempt ended it"
            if standing and (standing.status, standing.outcome) != ("cancelled", "cancelled"):
                yield f"but it stands at {standing}"
        elif cancel.result == "requested":
            if any(end.asked >= cancel.deed.known and end.status in ("queued", "failed") for end in ends):
                yield "but an attempt that ended later was not cancelled"
        elif standing and standing.status != cancel.status:
            yield f"but it stands at {standing}"

    # concurrency keys

    def _keys(self) -> Iterator[str]:
        claims: defaultdict[str, list[Attempt]] = defaultdict(list)
        for attempt in self._ledger.attempts.values():
            if attempt.key is not None:
                claims[attempt.key].append(attempt)
        for key, attempts in claims.items():
            yield from self._over_limit(key, sorted(attempts, key=lambda each: each.asked))

    def _over_limit(self, key: str, attempts: list[Attempt]) -> Iterator[str]:
        running: list[Attempt] = []
        batches = Counter(each.batch for each in attempts)
        for attempt in attempts:
            # those that certainly run for the whole of this claim, and those that it took
            running = [each for each in running if self._ended_after(each, attempt.asked)]
            others = [
                each
                for each in running
                if each.deed.known <= attempt.asked and self._ended_after(each, attempt.answered)
            ]
            taken = batches[attempt.batch]
            allowed = self._allowed(key, attempt)
            if len(others) + taken > allowed:
                yield (
                    f"key {key}: {allowed} may run, but {len(others)} ran when {taken} were claimed: {attempt}; "
                    f"running: {others}; limits: {self._ledger.limits[key]}"
                )
            running.append(attempt)

    def _ended_after(self, attempt: Attempt, instant: float) -> bool:
        end = self._ends.get(attempt.attempt_id)
        return end is None or end.deed.decided >= instant

    def _allowed(self, key: str, attempt: Attempt) -> int:
        """Return the highest limit that may have been in force while the claim looked."""
        limits = self._ledger.limits[key]
        before = [1, *(each.max_running for each in limits if each.deed.known <= attempt.asked)]
        meanwhile = [
            each.max_running
            for each in limits
            if each.deed.known > attempt.asked and each.deed.decided <= attempt.answered
        ]
        return max([before[-1], *meanwhile])

    # pause

    def _pauses(self) -> Iterator[str]:
        for attempt in self._ledger.attempts.values():
            toggles = self._ledger.pauses.get(attempt.queue, [])
            before = [each for each in toggles if each.deed.known <= attempt.asked]
            meanwhile = [
                each
                for each in toggles
                if each.deed.known > attempt.asked and each.deed.decided <= attempt.answered
            ]
            if before and before[-1].paused and all(each.paused for each in meanwhile):
                yield f"{attempt} was claimed from a paused queue"

    # unique keys

    def _uniqueness(self) -> Iterator[str]:
        holders: defaultdict[tuple[str, str], list[Enqueued]] = defaultdict(list)
        for each in self._ledger.enqueued:
            if each.unique_key is None and each.status != "created":
                yield f"{each} without a key"
            elif each.status in ("replaced", "running") and each.unique_mode == "keep":
                yield f"{each} was not asked for"
            elif each.unique_key is not None:
                holders[each.queue, each.unique_key].append(each)
        for records in holders.values():
            created = [each for each in records if each.status == "created"]
            for record in records:
                wrong = (
                    record.unique_key not in WAITING_KEYS
                    and any(self._certainly_held(each, record) for each in created if each is not record)
                    if record.status == "created"
                    else not self._may_hold(record, created)
                )
                if wrong:
                    yield f"{record} of {created}"

    def _life(self, job_id: int) -> tuple[float, float]:
        """Return until when the job certainly lived, and from when it certainly was over."""
        if job_id in self._ledger.redriven:
            return float("-inf"), float("inf")
        ends = [self._ends.get(each.attempt_id) for each in self._attempts.get(job_id, [])]
        deeds = [end.deed for end in ends if end and end.status in TERMINAL]
        cancels = self._ledger.cancels.get(job_id, ())
        deeds += [each.deed for each in cancels if each.result == "cancelled"]
        if deeds:
            return deeds[0].decided, deeds[0].known
        standing = self._final.jobs.get(job_id)
        if standing and standing.place != "finished":
            return float("inf"), float("inf")
        return float("-inf"), float("inf")  # it expired, nobody was told when

    def _certainly_held(self, holder: Enqueued, record: Enqueued) -> bool:
        # an end in the same transaction is seen by the enqueue that follows it
        return holder.deed.known <= record.asked and self._life(holder.job_id)[0] > record.deed.known

    def _may_hold(self, record: Enqueued, created: list[Enqueued]) -> bool:
        holder = next((each for each in created if each.job_id == record.job_id), None)
        if holder is None:
            return False
        born = holder.deed is record.deed or holder.deed.decided <= record.answered
        return born and (self._life(holder.job_id)[1] > record.asked or self._outlived(holder, record))

    def _outlived(self, holder: Enqueued, record: Enqueued) -> bool:
        """Tell whether the key may have counted on after the holder's end; a replaced job has ended later."""
        requests = [holder, *self._replaced[holder.job_id]]
        return record.status == "existed" and any(
            each.answered + each.unique_for >= record.asked for each in requests
        )

    # beats and looks

    def _looks(self) -> Iterator[str]:
        for look in self._ledger.looks:
            end = self._ends.get(look.attempt_id)
            if look.state == "busy":
                possible = look.attempt_id in self._ledger.attempts
            elif look.state in ("ok", "running"):
                possible = look.attempt_id in self._ledger.attempts
                possible = possible and (end is None or end.deed.known > look.asked)
                possible = possible and self._right_request(look)
            elif look.attempt_id not in self._ledger.attempts:
                possible = look.state == "lost"
            else:
                possible = end is not None and end.deed.decided <= look.answered
                possible = possible and (look.function == "heartbeat" or self._right_state(look, end))
            if not possible:
                yield f"{look} of an attempt that ended by {end and _say(end)}"

    def _right_request(self, look: Look) -> bool:
        if look.asked_to_cancel is None:
            return True
        requests = [each for each in self._ledger.cancels.get(look.job_id, ()) if each.result == "requested"]
        if look.asked_to_cancel:
            return any(each.deed.decided <= look.answered for each in requests)
        redriven = look.job_id in self._ledger.redriven
        return redriven or not any(each.deed.known <= look.asked for each in requests)

    def _right_state(self, look: Look, end: Answer | None) -> bool:
        if end is None or end.verb == "take_back" or end.leaves_no_row:
            return look.state == "lost"
        return (look.state, look.status) == ("settled", end.status) or (
            look.state == "lost" and self._pruned(look.job_id)
        )

    # handlers' transactions

    def _work(self) -> Iterator[str]:
        promised = {each.attempt_id for each in self._ledger.worked}
        stored = Counter(self._final.worked)
        for fence in promised ^ stored.keys():
            yield f"work of attempt {fence}: committed {fence in promised}, stored {fence in stored}"
        for fence, times in stored.items():
            if times > 1:
                yield f"work of attempt {fence} is stored {times} times"
            end = self._ends.get(fence)
            if end is None or end.verb != "complete":
                yield f"work of attempt {fence} is stored, but it was ended by {end and _say(end)}"


def _streak_after(attempt: Attempt, end: Answer) -> int:
    """Return the streak of lost leases: one more, as before when nobody ran the job, else none."""
    if end.verb == "take_back":
        return attempt.expiry_streak + 1
    return attempt.expiry_streak if end.leaves_no_row else 0


def _undisturbed(attempt: Attempt, answer: Answer) -> tuple[str, str]:
    """Return result and landing of a settle whose fence holds and that nobody asked to cancel."""
    spent = attempt.failure_count + 1 >= attempt.max_attempts
    if answer.verb == "complete":
        return "ok", "succeeded"
    if answer.verb == "cancel":
        return "ok", "cancelled"
    if answer.verb == "fail":
        return ("dead", "failed") if spent or not answer.retryable else ("retry_scheduled", "queued")
    if answer.verb == "take_back":
        return "ok", "failed" if spent or attempt.expiry_streak >= 2 else "queued"
    return "ok", "queued"


def _could_see(end: Answer, answer: Answer) -> bool:
    return end.deed is answer.deed or end.deed.decided <= answer.answered


def _say(answer: Answer) -> str:
    return f"{answer.verb} of attempt {answer.attempt_id} of job {answer.job_id}: {answer.result} {answer.status}"
