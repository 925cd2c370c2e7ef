"""The commands that enqueue, look and operate, against a real database, in this process."""

# Scenarios B33, B36, B52, B65, B77, B79, B86.

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone

import pytest

from kit.command import InProcess
from taskq_sync.argument_key import argument_key
from taskq_sync.version import __version__

APP = """
from taskq_sync import TaskQ

tq = TaskQ()

@tq.task(queue="mail", name="mail.welcome", max_attempts=8)
def welcome(user_id: int) -> str:
    return f"welcome, {user_id}"

@tq.task(name="mail.digest", unique=("user_id",), concurrency=lambda user_id, **_: f"user:{user_id}")
def digest(user_id: int, day: int) -> None: ...
"""


@pytest.fixture
def taskq(tmp_path, dsn, monkeypatch):
    """The command line, in a folder with an application, and the environment and modules put back behind it."""
    for name in ("DATABASE_URL", "TASKQ_SCHEMA"):
        monkeypatch.setenv(name, "")  # so that it is put back: the options of a command may set it
        monkeypatch.delenv(name)
    monkeypatch.setenv("TASKQ_DSN", dsn)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "app.py").write_text(APP)
    return InProcess()


def announce(conn, worker_id, **info):
    """Have a worker announce itself."""
    conn.execute("select taskq.announce(%s, %s)", (worker_id, json.dumps(info)))


class TestEnqueue:
    def test_any_task_goes_without_an_application(self, taskq, conn):
        assert taskq.check("enqueue", "t", '{"a": 1}').endswith(" enqueued in queue default\n")
        assert conn.execute("select queue, task, payload from taskq.job_view").fetchall() == [
            ("default", "t", {"a": 1})
        ]

    def test_an_application_gives_queue_options_and_a_check_of_the_payload(self, taskq, conn):
        said = taskq.check("enqueue", "mail.welcome", '{"user_id": 7}', "--app", "app:tq", "--delay", "2h")
        assert said.endswith(" enqueued\n")
        row = conn.execute(
            "select queue, task, payload, max_attempts, scheduled_at - created_at > '119 min' from taskq.job_view"
        ).fetchone()
        assert row == ("mail", "mail.welcome", {"user_id": 7}, 8, True)

    def test_refuses_what_the_task_does_not_take(self, taskq, conn):
        done = taskq.run("enqueue", "mail.welcome", '{"user": 7}', "--app", "app")
        assert (done.code, done.out) == (1, "")
        assert "user" in done.err
        assert conn.execute("select count(*) from taskq.jobs").fetchone() == (0,)

    def test_refuses_a_task_that_the_application_does_not_know(self, taskq):
        done = taskq.run("enqueue", "mail.goodbye", "--app", "app:tq")
        assert (done.code, done.out) == (1, "")
        assert "there is no task 'mail.goodbye'" in done.err
        assert "mail.welcome" in done.err

    def test_every_option_reaches_the_job(self, taskq, conn):
        tomorrow = datetime.now(timezone(timedelta(hours=1))).replace(microsecond=0) + timedelta(days=1)
        options = {
            "--queue": "q",
            "--at": tomorrow.isoformat(),
            "--priority": "-3",
            "--unique-key": "u",
            "--concurrency-key": "c",
            "--max-attempts": "9",
            "--backoff": "1.5m",
            "--backoff-max": "1d",
            "--lease": "500ms",
            "--ttl": "90",
            "--headers": '{"trace": "x"}',
            "--unique-mode": "replace",
            "--unique-scope": "waiting",
            "--unique-for": "2h",
        }
        taskq.check("enqueue", "t", *(word for pair in options.items() for word in pair))
        row = conn.execute(
            """
            select queue, scheduled_at = %s, priority, unique_key, concurrency_key, max_attempts,
                   backoff::text, backoff_max::text, lease::text, ttl::text, headers
            from taskq.job_view
            """,
            (tomorrow,),
        ).fetchone()
        expected = (
            "q",
            True,
            -3,
            "u",
            "c",
            9,
            "00:01:30",
            "24:00:00",
            "00:00:00.5",
            "00:01:30",
            {"trace": "x"},
        )
        assert row == expected
        key = "select waiting, expires_at - created_at from taskq.unique_keys u join taskq.jobs j on j.id = u.job_id"
        assert conn.execute(key).fetchone() == (True, timedelta(hours=2))

    def test_reads_a_payload_from_standard_input(self, taskq, conn):
        taskq.check("enqueue", "t", "-", stdin='{"a": [1, "ä"]}')
        assert conn.execute("select payload from taskq.jobs").fetchone() == ({"a": [1, "ä"]},)

    def test_tells_whose_the_unique_key_is(self, taskq):
        first = taskq.run("enqueue", "t", "--unique-key", "k", "--json").json
        assert first["status"] == "created"
        assert taskq.run("enqueue", "t", "--unique-key", "k", "--json").json == {
            "status": "existed",
            "job_id": first["job_id"],
        }
        assert (
            taskq.check("enqueue", "t", "--unique-key", "k")
            == f"job {first['job_id']} has the unique key already\n"
        )

    def test_tells_what_became_of_a_replace(self, taskq, conn):
        replace = ("enqueue", "t", "--unique-key", "k", "--unique-mode", "replace")
        job = taskq.check(*replace).removesuffix(" enqueued in queue default\n")
        assert (
            taskq.check(*replace)
            == f"{job} had the unique key and not been started: it has this request now\n"
        )
        conn.execute("select taskq.claim(p_queues => '{default}', p_worker_id => 'w')")
        assert (
            taskq.check(*replace) == f"{job} has the unique key and has been started: nothing was enqueued\n"
        )

    def test_an_application_makes_the_keys_of_the_arguments(self, taskq, conn):
        words = ("enqueue", "mail.digest", '{"user_id": 7, "day": 1}', "--app", "app:tq")
        taskq.check(*words)
        assert "has the unique key already" in taskq.check(*words)
        assert conn.execute("select unique_key, concurrency_key from taskq.jobs").fetchall() == [
            (argument_key("mail.digest", '{"user_id": 7}'), "user:7")
        ]
        taskq.check(*words, "--unique-key", "other")

    def test_a_duplicate_of_cron_is_no_failure(self, taskq, conn):
        """B33: a copy always waits, as the queue is paused."""
        conn.execute("select taskq.pause_queue(p_queue => 'default', p_actor => 'test')")
        for _ in range(5):
            done = taskq.run("enqueue", "nightly", "--unique-key", "nightly", "--unique-scope", "waiting")
            assert (done.code, done.err) == (0, "")
        assert conn.execute("select count(*) from taskq.jobs").fetchone() == (1,)

    def test_a_full_queue_is_told(self, taskq, conn):
        conn.execute("select taskq.set_queue(p_queue => 'default', p_max_depth => 1, p_actor => 'test')")
        taskq.check("enqueue", "t")
        done = taskq.run("enqueue", "t")
        assert (done.code, done.out) == (1, "")
        assert 'queue "default" is full' in done.err

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (("t", "[1]"), "Invalid value for PAYLOAD: this is no JSON object"),
            (
                ("t", '{"a": 1,\n b: 2}'),
                "Invalid value for PAYLOAD: this is no JSON: Expecting property name enclosed in double "
                "quotes: line 2 column 2",
            ),
            (
                ("t", "{user_id: 7}"),
                """; write an object such as '{"user_id": 7}'""",
            ),
            (("t", "--headers", "{"), "Invalid value for '--headers': this is no JSON"),
            (("t", "--delay", "soon"), "'soon' is no span of time"),
            (("t", "--at", "tomorrow"), "'tomorrow' is no instant"),
            (("t", "--at", "2030-01-01T00:00"), "has no offset"),
            ((), "Missing argument 'TASK'"),
        ],
    )
    def test_explains_what_it_does_not_understand(self, taskq, arguments, said):
        done = taskq.run("enqueue", *arguments)
        assert done.code == 2
        assert said in done.err
        assert "Traceback" not in done.err


class TestLook:
    def test_lists_jobs_newest_first_and_by_pages(self, taskq):
        ids = [taskq.run("enqueue", "t", "--json").json["job_id"] for _ in range(3)]
        found = taskq.run("jobs", "list", "--json").json
        assert [job["id"] for job in found] == ids[::-1]
        page = taskq.run("jobs", "list", "--json", "--limit", "1", "--before", str(ids[2])).json
        assert [job["id"] for job in page] == [ids[1]]

    def test_filters_jobs(self, taskq):
        taskq.check("enqueue", "a", "--queue", "q")
        taskq.check("enqueue", "b", "--queue", "r")
        by = [("--queue", "q"), ("--task", "a"), ("--status", "queued"), ("--status", "failed")]
        counts = [len(taskq.run("jobs", "list", "--json", *each).json) for each in by]
        assert counts == [1, 1, 2, 0]
        assert taskq.check("jobs", "list", "--status", "failed") == "no jobs\n"

    def test_shows_a_job_with_its_attempts(self, taskq, conn):
        job_id = taskq.run("enqueue", "t", '{"a": 1}', "--json").json["job_id"]
        conn.execute("select taskq.claim(array['default'], 'w')")
        conn.execute(
            "select taskq.fail(job_id, attempt_id, 'broken') from taskq.job_history(%s), "
            "lateral (select %s::bigint as job_id) j",
            (job_id, job_id),
        )
        shown = taskq.run("jobs", "show", str(job_id), "--json").json
        assert shown["job"]["payload"] == {"a": 1}
        assert shown["job"]["status"] == "queued"
        assert shown["job"]["backoff"] == 30.0
        assert [attempt["error"] for attempt in shown["attempts"]] == ["broken"]
        text = taskq.check("jobs", "show", str(job_id))
        assert 'payload      {"a": 1}' in text
        assert "broken" in text

    def test_prints_nothing_that_a_terminal_would_obey(self, taskq):
        job_id = taskq.run("enqueue", "t", json.dumps({"a": "\x1b[31m[bold]red"}), "--json").json["job_id"]
        taskq.check("jobs", "cancel", str(job_id), "--reason", "\x1b[2J\n\tmoved")
        for command in (
            ("jobs", "show", str(job_id)),
            ("jobs", "list"),
            ("jobs", "show", str(job_id), "--json"),
        ):
            out = taskq.check(*command)
            assert "\x1b" not in out
        assert "[bold]red" in taskq.check("jobs", "show", str(job_id))

    def test_a_job_that_is_not_there_is_a_sentence(self, taskq):
        done = taskq.run("jobs", "show", "987654321")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("taskq-sync: no job 987654321")
        assert done.err.count("\n") == 1

    def test_status_shows_versions_and_queues(self, taskq):
        taskq.check("enqueue", "t", "--queue", "q")
        status = taskq.run("status", "--json").json
        assert (status["version"], status["package"], status["up_to_date"]) == (
            __version__,
            __version__,
            True,
        )
        assert [(queue["queue"], queue["ready"]) for queue in status["queues"]] == [("q", 1)]
        assert "up to date      yes" in taskq.check("status")

    def test_status_shows_the_workers(self, taskq, conn):
        assert taskq.run("status", "--json").json["workers"] == []
        assert taskq.check("status").endswith("no workers\n")
        announce(conn, "w", state="running", slots=3)
        [worker] = taskq.run("status", "--json").json["workers"]
        assert (worker["worker_id"], worker["state"], worker["slots"]) == ("w", "running", 3)

    def test_lists_workers(self, taskq, conn):
        assert taskq.check("workers", "list") == "no workers\n"
        announce(conn, "w", state="running", slots=3, pid=77, queues=["a", "b"], process=2)
        [worker] = taskq.run("workers", "list", "--json").json
        assert (worker["pid"], worker["queues"], worker["running"]) == (77, ["a", "b"], 0)
        assert worker["info"] == {"process": 2}
        assert "a, b" in taskq.check("workers", "list")
        conn.execute("update taskq.workers set seen_at = seen_at - interval '2 minutes'")
        assert " silent " in taskq.check("workers", "list")


#: Names that a shell, a URL, a page, a format string or a terminal could take for something else.
ODD_NAMES = [
    "a/b%20/é🐘",
    "</script><b>",
    "o'brien",
    'a"b',
    "a$$b",
    "x.job",
    "p%s{0}",
    "-rf",
    "\\",
    "[bold]",
    "\u202eright to left",
]


class TestOddRows:
    """B65: one odd row hides no other."""

    @pytest.fixture
    def ids(self, conn):
        """A job with each odd name, with ids from 2**53 on, and two that only a repair by hand could have made."""
        [(sequence,)] = conn.execute("select pg_get_serial_sequence('taskq.jobs', 'id')").fetchall()
        conn.execute("select setval(%s, %s)", (sequence, 2**53))
        for name in ODD_NAMES:
            conn.execute(
                "select taskq.enqueue(p_queue => 'q', p_task => %s, p_unique_key => %s, p_backoff => '40 days', "
                "p_backoff_max => '300 days', p_lease => '1 day', p_ttl => '366 days', p_concurrency_key => %s)",
                (name, name, name),
            )
        first, last = 2**53 + 1, 2**53 + len(ODD_NAMES)
        conn.execute("select taskq.claim('{q}', 'w', 2)")
        conn.execute("select taskq.complete(id, attempt_id) from taskq.running where id = %s", (first,))
        error = "</script>\x1b]0;mine\x07\x1b[31m" + "x" * 5000
        conn.execute(
            "select taskq.fail(id, attempt_id, %s, false) from taskq.running where id = %s",
            (error, first + 1),
        )
        big = json.dumps({"data": "y" * 5_000_000})
        conn.execute("update taskq.jobs set payload = %s where id = %s", (big, last))
        conn.execute(
            "update taskq.finished set result = null, finished_at = finished_at + interval '40 days', "
            "claimed_at = claimed_at - interval '27 days' where id = %s",
            (first,),
        )
        return [*range(last, first - 1, -1)]

    def test_are_all_listed_with_their_exact_ids(self, taskq, ids):
        found = taskq.run("jobs", "list", "--json").json
        assert [job["id"] for job in found] == ids
        assert [job["task"] for job in found] == ODD_NAMES[::-1]
        assert found[-1]["result"] is None
        assert found[0]["backoff"] == 40 * 86400
        for name in ODD_NAMES:
            assert [
                job["unique_key"] for job in taskq.run("jobs", "list", f"--task={name}", "--json").json
            ] == [name]

    def test_are_all_in_the_table_and_obeyed_by_no_terminal(self, taskq, ids):
        lines = taskq.check("jobs", "list").splitlines()
        assert [int(line.split()[0]) for line in lines[1:]] == ids
        assert len(max(lines, key=len)) < 1000
        assert not {"\x1b", "\x07", "\u202e"} & set("".join(lines))

    def test_are_on_pages(self, taskq, ids):
        found, before = [], []
        while page := taskq.run("jobs", "list", "--json", "--limit", "3", *before).json:
            found += [job["id"] for job in page]
            before = ["--before", str(found[-1])]
        assert found == ids

    def test_are_shown_one_by_one(self, taskq, ids):
        for job_id in ids:
            shown = taskq.run("jobs", "show", str(job_id), "--json").json
            assert shown["job"]["id"] == job_id
            text = taskq.check("jobs", "show", str(job_id))
            assert text.startswith("job ")
            assert "\x1b" not in text

    def test_are_operated_by_their_ids(self, taskq, ids):
        assert taskq.check("jobs", "cancel", str(ids[0])) == f"job {ids[0]} cancelled\n"
        assert taskq.run("jobs", "cancel", str(ids[-1])).code == 1

    def test_are_printed_where_the_output_has_few_characters(self, taskq, ids, monkeypatch):
        """As cron has it: what the encoding of standard output lacks is shown as an escape."""
        for command in (("jobs", "list"), ("jobs", "show", str(ids[-1])), ("queues", "list")):
            done = taskq.run(*command, charset="ascii")
            assert (done.code, done.err) == (0, "")
        assert "a/b%20/\\xe9\\U0001f418" in taskq.run("jobs", "list", charset="ascii").out


def test_a_queue_may_have_any_name(taskq, conn):
    """B65, B75."""
    for name in ODD_NAMES:
        taskq.check("enqueue", f"--queue={name}", "--", name)
        taskq.check("queues", "pause", "--", name)
    assert {queue["queue"] for queue in taskq.run("queues", "list", "--json").json} == set(ODD_NAMES)
    assert all(taskq.check("queues", "resume", "--", name) for name in ODD_NAMES)


class TestSettingsOfTheRole:
    """B52: what a command prints is the same instants and spans, whatever they are."""

    SETTINGS = ("timezone = 'Asia/Kolkata'", "datestyle = 'SQL, DMY'", "intervalstyle = 'sql_standard'")

    @pytest.fixture
    def role(self, conn, make_role):
        """A login that may execute everything."""
        role = make_role()
        conn.execute(f"grant usage on schema taskq to {role.name}")
        conn.execute(f"grant execute on all functions in schema taskq to {role.name}")
        return role

    def test_change_no_instant_and_no_span(self, taskq, conn, role):
        at = "2026-02-03T04:05:06.789012+00:00"
        words = ("enqueue", "t", "--at", at, "--backoff", "90", "--ttl", "1d", "--json", "--dsn", role.dsn)
        ids = [taskq.run(*words).json["job_id"]]
        usual = self.looks(taskq, role, ids[0])
        for setting in self.SETTINGS:
            conn.execute(f"alter role {role.name} set {setting}")
        assert self.looks(taskq, role, ids[0]) == usual
        ids.append(taskq.run(*words).json["job_id"])
        for job in taskq.run("jobs", "list", "--json", "--dsn", role.dsn).json:
            assert datetime.fromisoformat(job["scheduled_at"]) == datetime.fromisoformat(at)
            assert datetime.fromisoformat(job["expires_at"]) == datetime.fromisoformat(at) + timedelta(days=1)
            assert (job["backoff"], job["ttl"]) == (90.0, 86400.0)
        assert "2026-02-03 09:35:06+05:30" in taskq.check("jobs", "show", str(ids[1]), "--dsn", role.dsn)

    def looks(self, taskq, role, job_id):
        """What the commands that look have to say, with all instants in UTC."""
        commands = (("jobs", "list"), ("jobs", "show", str(job_id)), ("queues", "list"), ("workers", "list"))
        found = [taskq.run(*command, "--json", "--dsn", role.dsn).json for command in commands]
        return self.in_utc(found, "")

    def in_utc(self, value, name):
        if isinstance(value, dict):
            return {key: self.in_utc(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [self.in_utc(each, name) for each in value]
        if name.endswith("_at") and value is not None:
            instant = datetime.fromisoformat(value)
            assert instant.tzinfo is not None, f"{name} has no offset"
            return instant.astimezone(timezone.utc)
        return None if name.endswith("_age") else value

    def test_change_no_delay(self, taskq, conn, role):
        for setting in self.SETTINGS:
            conn.execute(f"alter role {role.name} set {setting}")
        job_id = taskq.run("enqueue", "t", "--delay", "90", "--dsn", role.dsn, "--json").json["job_id"]
        shown = taskq.run("jobs", "show", str(job_id), "--json").json["job"]
        apart = datetime.fromisoformat(shown["scheduled_at"]) - datetime.fromisoformat(shown["created_at"])
        assert apart == timedelta(seconds=90)


def test_a_role_that_may_only_read_can_look_at_everything(taskq, conn, make_role):
    """B77: USAGE and the functions for observers are enough, in transactions that may write nothing."""
    job_id = taskq.run("enqueue", "t", "--json").json["job_id"]
    announce(conn, "w", state="running")
    role = make_role()
    conn.execute(f"alter role {role.name} set default_transaction_read_only = on")
    conn.execute(f"grant usage on schema taskq to {role.name}")
    for function in ("schema_version", "get_job", "list_jobs", "job_history", "queue_stats", "workers"):
        conn.execute(f"grant execute on function taskq.{function} to {role.name}")
    looks = ("status", "jobs list", f"jobs show {job_id}", "queues list", "workers list", "migrate --check")
    for look in looks:
        taskq.check(*look.split(), "--dsn", role.dsn)
        if not look.startswith("migrate"):
            assert taskq.run(*look.split(), "--json", "--dsn", role.dsn).json
    for change in (("enqueue", "t"), ("jobs", "cancel", str(job_id)), ("queues", "pause", "default")):
        done = taskq.run(*change, "--dsn", role.dsn)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("taskq-sync: ")


class TestOperate:
    def test_cancels_jobs_and_says_which_had_ended(self, taskq, conn):
        first, second = (taskq.run("enqueue", "t", "--json").json["job_id"] for _ in range(2))
        conn.execute("select taskq.claim(array['default'], 'w')")
        done = taskq.run("jobs", "cancel", str(first), str(second), "--reason", "wrong", "--actor", "me")
        assert (done.code, done.out) == (0, f"job {first} asked to stop\njob {second} cancelled\n")
        again = taskq.run("jobs", "cancel", str(second))
        assert (again.code, again.out) == (1, f"job {second} had already ended: cancelled\n")
        assert conn.execute("select actor, reason from taskq.audit order by id limit 1").fetchone() == (
            "me",
            "wrong",
        )

    def test_cancels_the_others_when_one_is_not_there(self, taskq):
        first, second = (taskq.run("enqueue", "t", "--json").json["job_id"] for _ in range(2))
        done = taskq.run("jobs", "cancel", str(first), "987654321", str(second))
        assert (done.code, done.out) == (1, f"job {first} cancelled\njob {second} cancelled\n")
        assert done.err.startswith("taskq-sync: no job 987654321: ")
        assert done.err.count("\n") == 1

    def test_puts_jobs_back_and_says_which_were_not(self, taskq):
        first, second, other = (taskq.run("enqueue", "t", "--json").json["job_id"] for _ in range(3))
        taskq.check("jobs", "cancel", str(first), str(second))
        done = taskq.run("jobs", "redrive", str(first), str(second), "--reason", "wrong", "--actor", "me")
        assert (done.code, done.out) == (0, f"job {first} put back\njob {second} put back\n")
        done = taskq.run("jobs", "redrive", str(other), "987654321")
        assert (done.code, done.out) == (1, f"job {other} is live already\n")
        assert done.err.startswith("taskq-sync: no job 987654321")

    def test_does_not_put_back_what_has_succeeded_or_lost_its_key(self, taskq, conn):
        first = taskq.run("enqueue", "t", "--unique-key", "u", "--json").json["job_id"]
        taskq.check("jobs", "cancel", str(first))
        second = taskq.run("enqueue", "t", "--unique-key", "u", "--json").json["job_id"]
        done = taskq.run("jobs", "redrive", str(first))
        assert (done.code, done.out) == (1, f"job {first} not put back: another job has its unique key\n")
        conn.execute("select taskq.complete(job_id, attempt_id) from taskq.claim(array['default'], 'w')")
        done = taskq.run("jobs", "redrive", str(second))
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"taskq-sync: job {second} has succeeded")

    def test_empties_a_queue(self, taskq):
        for _ in range(3):
            taskq.check("enqueue", "t", "--queue", "q")
        assert taskq.check("queues", "purge", "q", "--limit", "1") == "queue q: 1 jobs cancelled\n"
        assert taskq.run("queues", "purge", "q", "--json").json == {"queue": "q", "cancelled": 2}
        assert taskq.check("queues", "purge", "q") == "queue q: 0 jobs cancelled\n"

    def test_pauses_and_resumes_a_queue(self, taskq):
        said = [taskq.check("queues", verb, "q") for verb in ("pause", "pause", "resume", "resume")]
        assert said == [f"queue q {word}\n" for word in ("paused", "already paused", "resumed", "not paused")]

    def test_asks_a_worker_to_stop(self, taskq, conn):
        announce(conn, "w", state="running")
        said = [taskq.check("workers", "stop", "w", "--reason", "deploy", "--actor", "me") for _ in range(2)]
        assert said == ["worker w was asked to stop\n", "worker w was already asked to stop\n"]
        assert " running, to stop " in taskq.check("workers", "list")
        assert conn.execute("select verb, target, actor, reason from taskq.audit limit 1").fetchone() == (
            "stop_worker",
            "worker w",
            "me",
            "deploy",
        )
        assert taskq.run("workers", "stop", "w", "--json").json == {
            "worker_id": "w",
            "result": "already_requested",
        }

    def test_a_worker_that_is_not_there_is_a_sentence(self, taskq):
        done = taskq.run("workers", "stop", "w")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("taskq-sync: no worker w: It has ended")
        assert done.err.count("\n") == 1

    def test_lists_queues(self, taskq):
        taskq.check("enqueue", "t", "--queue", "q", "--delay", "1h")
        taskq.check("queues", "pause", "q")
        [queue] = taskq.run("queues", "list", "--json").json
        assert (queue["queue"], queue["paused"], queue["delayed"]) == ("q", True, 1)
        assert [each["delayed"] for each in taskq.run("queues", "list", "other", "--json").json] == [0]
        assert "yes" in taskq.check("queues", "list", "q")

    def test_housekeeping_goes_on_until_nothing_is_left(self, taskq, conn):
        conn.execute(
            'select taskq.enqueue_many(\'q\', (select jsonb_agg(\'{"task": "t", "ttl": 0.000001}\'::jsonb) '
            "from generate_series(1, 7)))"
        )
        assert taskq.check("housekeep", "--limit", "3") == "0 taken back, 7 expired, 0 pruned, 0 raised\n"
        assert taskq.run("housekeep", "--json").json == {
            "taken_back": 0,
            "expired": 0,
            "pruned": 0,
            "raised": 0,
        }


class TestMistakes:
    """One sentence on stderr that says what to do; nothing on stdout; never a traceback."""

    @pytest.mark.parametrize(
        ("wrong", "code", "said"),
        [
            ("postgresql://u:se%20cret@127.0.0.1:1/x", 69, "check --dsn, TASKQ_DSN"),
            ("host=/nowhere password=secret dbname=x", 69, "check --dsn, TASKQ_DSN"),
            ("nonsense secret", 1, "write postgresql://"),
            ("postgresql://u:p@ss@host/x", 1, "%40"),
        ],
    )
    def test_a_wrong_dsn(self, taskq, wrong, code, said):
        for command in (("status",), ("migrate",), ("jobs", "list"), ("enqueue", "t")):
            done = taskq.run(*command, "--dsn", wrong)
            assert (done.code, done.out) == (code, "")
            assert said in done.err
            assert done.err.count("\n") == 1
            assert "cret" not in done.err

    def test_a_wrong_database(self, taskq, dsn):
        done = taskq.run("status", "--dsn", f"{dsn} dbname=nowhere")
        assert (done.code, done.out) == (69, "")
        assert 'database "nowhere" does not exist' in done.err

    @pytest.mark.parametrize(
        "command", ["status", "housekeep", "jobs list", "queues list", "enqueue t", "worker --app app"]
    )
    def test_a_missing_schema(self, taskq, command):
        done = taskq.run(*command.split(), "--schema", "Elsewhere")
        assert (done.code, done.out) == (1, "")
        assert "has no schema Elsewhere" in done.err
        assert "taskq-sync migrate --schema Elsewhere" in done.err
        assert done.err.count("\n") == 1

    def test_a_name_that_cannot_be_a_schema(self, taskq):
        done = taskq.run("migrate", "--schema", "o'brien")
        assert (done.code, done.out) == (1, "")
        assert "a name has 1 to 48 letters" in done.err

    @pytest.mark.parametrize(
        ("queues", "said"),
        [
            ("high:0", "the weight of 'high' must be at least 1; a name may end so: high:0:1"),
            ("a:2,b,a", "'a' has two weights, 2 and 1"),
            ("a:1001", "the weight of queue 'a' must be a whole number, 1 to 1000"),
        ],
    )
    def test_weights_that_cannot_be(self, taskq, queues, said):
        done = taskq.run("worker", "--app", "app:tq", "--queues", queues)
        assert done.code != 0
        assert said in done.err

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ((), "say --app module:attribute, or --import"),
            (("--app", "nowhere:tq"), "there is no module 'nowhere'"),
            (("--app", "app:nothing"), "app:nothing is no TaskQ: in this module there is: app:tq"),
            (("--app", "json"), "json has no TaskQ"),
            (("--import", "app,nowhere.tasks"), "there is no module 'nowhere'"),
            (("--app", "app", "--dsn", "dbname=a", "--queues", ""), "1 to 100 queues"),
        ],
    )
    def test_a_worker_without_its_application(self, taskq, arguments, said):
        done = taskq.run("worker", *arguments)
        assert (done.code, done.out) == (1, "")
        assert said in done.err
        assert done.err.count("\n") == 1

    def test_an_option_that_the_application_would_ignore(self, taskq, tmp_path):
        (tmp_path / "fixed.py").write_text(APP.replace("TaskQ()", "TaskQ('dbname=mine')"))
        done = taskq.run("worker", "--app", "fixed", "--dsn", "dbname=other")
        assert done.code == 1
        assert "so --dsn would be ignored" in done.err

    def test_a_fault_inside_the_application_keeps_its_traceback(self, taskq, tmp_path):
        (tmp_path / "faulty.py").write_text("import nowhere_to_be_found\n")
        with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
            taskq.run("worker", "--app", "faulty")
