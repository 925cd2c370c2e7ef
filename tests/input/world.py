"""A small schema full of jobs, and what must be possible in it whatever somebody has asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import psycopg

from input.functions import Function, functions
from input.values import UNREADABLE
from kit.contract import Connection, Contract
from taskq_sync.db.connections import Params, Row
from taskq_sync.db.jobs import Jobs
from taskq_sync.db.queues import Queues
from taskq_sync.db.statements import Statements
from taskq_sync.db.workers import Workers

#: Jobs in every place and state: ready, delayed, held, in order, running, asked to stop, tried before, ended.
_SETTING = """
do $do$
declare
  v_attempt taskq.claimed_job;
begin
  perform taskq.set_queue('q', p_max_attempts => 4, p_aging => '1 h');
  perform taskq.set_concurrency_limit('k', 1);
  perform taskq.announce('w', '{"queues": ["q", "r"], "state": "running", "pid": 7, "slots": 8}');
  perform taskq.sleep_until('w', '{q,r}', taskq.clock() + interval '1 h');
  perform taskq.enqueue('r', 'ends'), taskq.enqueue('r', 'goes on');
  for v_attempt in select * from taskq.claim('{r}', 'w', 2) loop
    if v_attempt.task = 'ends' then
      perform taskq.complete(v_attempt.job_id, v_attempt.attempt_id, '[1]');
    else
      perform taskq.fail(v_attempt.job_id, v_attempt.attempt_id, 'boom', p_retry_after => '1 h', p_progress => '1');
    end if;
  end loop;
  perform taskq.enqueue('q', 'target', p_priority => 9), taskq.enqueue('q', 'neighbour', p_priority => 9),
    taskq.enqueue('q', 'asked to stop', p_priority => 9), taskq.enqueue('q', 'keyed', p_concurrency_key => 'k'),
    taskq.enqueue('q', 'held', p_concurrency_key => 'k');
  perform taskq.claim('{q}', 'w', 10);
  perform taskq.cancel_job(x.id) from taskq.running x where x.task = 'asked to stop';
  perform taskq.enqueue('q', 'ready'),
    taskq.enqueue('q', 'unique', p_unique_key => 'u', p_unique_for => '1 day', p_delay => '1 h'),
    taskq.enqueue('q', 'first', p_concurrency_key => 'o', p_ordered => true),
    taskq.enqueue('q', 'second', p_concurrency_key => 'o', p_ordered => true, p_ttl => '1 h');
end
$do$
"""

#: Every job is looked at, tried, taken back, completed and pruned. What it asks for must happen, and never fail.
_LIVE_ON = """
create function pg_temp.live_on() returns void language plpgsql as $$
declare
  v_problem text;
  v_queues  text[];
  v_verb    text;
begin
  select string_agg(format('job %s %s', c.job_id, c.problem), '; ') into v_problem from taskq.check_integrity() c;
  if v_problem is not null then
    raise exception 'check_integrity: %', v_problem;
  end if;
  perform from taskq.list_jobs(p_limit => 1000);
  perform taskq.get_job(j.id), taskq.job_history(j.id) from taskq.jobs j;
  perform from taskq.queue_stats();
  perform from taskq.workers();

  -- from here on nothing waits for its time or for somebody else
  update taskq.queues set paused_at = null;
  perform taskq.set_concurrency_limit(l.key, 100) from taskq.concurrency_limits l;
  perform from taskq.housekeep();
  for v_round in 1 .. 8 loop
    update taskq.ready set scheduled_at = taskq.clock() - interval '1 s';
    v_queues := array(select distinct r.queue from taskq.ready r limit 100);
    if v_queues <> '{}' then
      perform from taskq.poll_hint(v_queues);
      perform from taskq.claim(v_queues, 'w', 1000);
    end if;
    if v_round = 1 then
      perform from taskq.heartbeat('w', (select array_agg(x.id) from taskq.running x),
        (select array_agg(x.attempt_id) from taskq.running x)) where exists (select from taskq.running);
    end if;
    v_verb := (array['fail', 'take_back', 'complete'])[least(v_round, 3)];
    if v_verb = 'take_back' then
      update taskq.running set lease_expires_at = taskq.clock() - interval '1 h';
      perform from taskq.take_back();
    else
      select s.reason into v_problem
      from taskq.settle('w', coalesce((
        select jsonb_agg(jsonb_build_object('job_id', x.id, 'attempt_id', x.attempt_id, 'verb', v_verb, 'delay', 1))
        from taskq.running x), '[]')) s
      where s.result not in ('ok', 'retry_scheduled', 'dead');
      if found then
        raise exception '%: %', v_verb, v_problem;
      end if;
    end if;
    exit when not exists (select from taskq.ready union all select from taskq.running);
  end loop;
  perform from taskq.list_jobs(p_limit => 1000);
  perform taskq.job_history(j.id) from taskq.jobs j;
  update taskq.finished set purge_at = taskq.clock();
  perform from taskq.housekeep(10000);
  select string_agg(format('job %s of queue %s is still there', j.id, j.queue), '; ') into v_problem from taskq.jobs j;
  if v_problem is not null then
    raise exception '%', v_problem;
  end if;
end
$$
"""

_DIGEST = """
select 'select md5(string_agg(line, '' '' order by line)) from (' || string_agg(
  format('select %L || r::text from taskq.%I r', c.relname, c.relname), ' union all ') || ') as t (line)'
from pg_class c
where c.relnamespace = 'taskq'::regnamespace and c.relkind = 'r'
"""

#: What an answer says that has changed nothing.
_REFUSALS = ("rejected", "lost", "settle_conflict", "already_settled", "existed")


class World:
    """A database with jobs in every place, through a session of its owner whose statements never take long.

    What a `trial` does is rolled back at its end, so that all of them meet the same rows.
    """

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        self.sql = Contract(conn)
        self.sql.run("set statement_timeout = '20s'")
        conn.execute(_SETTING)
        conn.execute(_LIVE_ON)
        self.functions = functions(conn)
        [(self._digest,)] = conn.execute(_DIGEST).fetchall()
        self.digest = self.read_digest()
        [self.target] = self.sql.rows("select id, attempt_id from taskq.running where task = 'target'")
        [self.neighbour] = self.sql.rows("select id, attempt_id from taskq.running where task = 'neighbour'")
        self.good = self._good()
        self._readable: dict[tuple[str, str | None], bool] = {}

    def _good(self) -> dict[str, str]:
        """Return what is asked for in a parameter that is not the point, by its name."""
        job_id, attempt_id = self.target["id"], self.target["attempt_id"]
        return {
            "p_queue": "q",
            "p_task": "t",
            "p_jobs": '[{"task": "t"}]',
            "p_queues": "{q,r}",
            "p_worker_id": "w",
            "p_job_id": str(job_id),
            "p_attempt_id": str(attempt_id),
            "p_job_ids": f"{{{job_id}}}",
            "p_attempt_ids": f"{{{attempt_id}}}",
            "p_error": "boom",
            "p_delay": "5 s",
            "p_settlements": f'[{{"job_id": {job_id}, "attempt_id": {attempt_id}, "verb": "complete"}}]',
            "p_info": '{"queues": ["q"], "state": "running"}',
            "p_key": "k",
            "p_max_running": "2",
            "p_name": "n",
            "p_strict": "true",
            "p_wakes_at": str(self.sql.value("select (taskq.clock() + interval '1 minute')::text")),
        }

    def arguments(
        self, function: Function, hostile: Mapping[str, str | None] | None = None
    ) -> dict[str, str | None]:
        """Return arguments for a call: the *hostile* ones, what goes with them, and what cannot be left out."""
        hostile = hostile or {}
        company: dict[str, str | None] = {}
        for name in hostile:
            if name in ("p_unique_mode", "p_unique_scope", "p_unique_for"):
                company["p_unique_key"] = "new"
            elif name == "p_ordered":
                company["p_concurrency_key"] = "k"
        needed = {each.name: self.good[each.name] for each in function.parameters if not each.optional}
        return {**needed, **company, **hostile}

    def is_readable(self, kind: str, value: str | None) -> bool:
        """Whether PostgreSQL reads the text as a value of the type; if not it says so before any function runs."""
        key = (kind, value)
        if key not in self._readable:
            try:
                self.conn.execute(f"select %s::{kind}", (value,))
            except psycopg.Error as error:
                assert error.sqlstate in UNREADABLE, error
                self._readable[key] = False
            else:
                self._readable[key] = True
        return self._readable[key]

    def check(self, name: str, *tries: Mapping[str, str | None]) -> None:
        """Call the function with hostile arguments, try by try, and see that they are refused well or do no harm.

        What is taken must live on beside everything else that was taken.
        """
        function = self.functions[name]
        types = {each.name: each.type for each in function.parameters}
        readable = [
            hostile
            for hostile in tries
            if all(self.is_readable(types[each], value) for each, value in hostile.items())
        ]
        known = self.digest
        with self.trial():
            for hostile in readable:
                self.conn.execute("savepoint call")
                try:
                    answers = self.call(function, self.arguments(function, hostile))
                except psycopg.Error as error:
                    check_refusal(function, hostile, error)
                    self.conn.execute("rollback to call")
                    assert self.read_digest() == known
                    continue
                before, known = known, self.read_digest()
                if function.reads or (answers and all(_says_no(each) for each in answers)):
                    assert known == before
            if known != self.digest:
                self.live_on()

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Run the block in a transaction with a savepoint `call`, and roll it back."""
        self.conn.execute("begin; savepoint call")
        try:
            yield
        finally:
            self.conn.execute("rollback")

    def call(self, function: Function, arguments: Mapping[str, str | None]) -> list[str]:
        """Return the rows of the answer, each as one text."""
        return [row[0] or "" for row in self.conn.execute(function.call(arguments), arguments).fetchall()]

    def live_on(self) -> None:
        """See that everything that is there can be looked at, by Python too, and that every job goes its way."""
        ex, statements = _BinarySession(self.conn), Statements()
        jobs = Jobs(statements)
        jobs.list(ex, limit=1000)
        jobs.history(ex, self.target["id"])
        Queues(statements).stats(ex)
        Workers(statements).list(ex)
        self.conn.execute("select pg_temp.live_on()")

    def read_digest(self) -> str:
        """Return a digest of every row of every table."""
        [(digest,)] = self.conn.execute(self._digest).fetchall()
        return str(digest)


class _BinarySession:
    """Reads rows in the binary form, as sessions of the library do."""

    in_transaction = True

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def execute(self, sql: str, params: Params) -> list[Row]:
        cursor: psycopg.Cursor[Any] = self._conn.cursor(binary=True)
        return cursor.execute(sql.encode(), params).fetchall()


def check_refusal(function: Function, hostile: Mapping[str, str | None], error: psycopg.Error) -> None:
    """See that the refusal is one of the contract, speaks of what was wrong, and does not repeat all of it."""
    diag = error.diag
    said = diag.message_primary or ""
    assert error.sqlstate in function.sqlstates, f"{error.sqlstate} from {function.name}: {said[:500]}"
    for text in (said, diag.message_detail, diag.message_hint):
        assert len(text or "") <= 700, f"{len(text or '')} characters: {said[:500]}"
    words = {word.rstrip("s") for name in hostile for word in name.removeprefix("p_").split("_")}
    values = {str(value) for value in hostile.values() if value}
    assert any(each in said for each in words | values), f"{said!r} says nothing of {sorted(hostile)}"


def _says_no(row: str) -> bool:
    return any(f",{each}," in row or row.startswith(f"({each},") for each in _REFUSALS)
