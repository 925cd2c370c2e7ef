"""What mypy says about code that uses the package: right calls pass, wrong ones are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PREAMBLE = """
from __future__ import annotations
from collections.abc import Iterator
from datetime import timedelta
from taskq_sync import AttemptEnd, Complete, EnqueueResult, JobContext, JobRequest, Snooze, TaskQ, WorkerProcess
from taskq_sync.worker.events import JobEnded

tq = TaskQ()

@tq.task(queue="mail", max_attempts=8)
def welcome(ctx: JobContext, user_id: int, note: str = "") -> Complete | Snooze:
    return Complete()

@tq.task
def plain(user_id: int) -> str:
    return ""

@tq.task()
def tick(ctx: JobContext) -> None: ...

@tq.on_worker_start
def start(worker: WorkerProcess) -> None:
    worker.events.subscribe(JobEnded, lambda event: print(event.seconds))

@tq.around_job
def around(ctx: JobContext) -> Iterator[None]:
    yield

@tq.before_job
def before(ctx: JobContext) -> int:
    return 7

@tq.after_job
def after(ctx: JobContext, end: AttemptEnd) -> None: ...

@tq.on_failure
def failure(ctx: JobContext, error: BaseException) -> None: ...

def number(a: int) -> None: ...

def use(ctx: JobContext) -> None:
"""

RIGHT = [
    "a: EnqueueResult = welcome.enqueue(user_id=7, note='x')",
    "welcome.enqueue(7)",
    "welcome.delay(user_id=7)",
    "b: JobRequest = welcome.job(user_id=7)",
    "welcome.using(delay=60, unique_key='u', lease=timedelta(1), queue='q', connection=ctx).enqueue(user_id=7)",
    "welcome.using(unique_key='u', unique_mode='replace', unique_scope='waiting', unique_for=60, block=5).enqueue(7)",
    "tq.task(unique=('user_id',), concurrency=lambda user_id, **_: f'user:{user_id}')(use)",
    "tq.task(unique=True, concurrency='crm')(use)",
    "tq.enqueue_many((welcome.job(user_id=i) for i in range(3)), block=timedelta(minutes=1))",
    "tq.enqueue_many(welcome.job(user_id=i) for i in range(3))",
    "tq.enqueue_many([welcome.using(delay=1).job(user_id=1), plain.job(2)])",
    "plain.enqueue(user_id=7)",
    "tick.enqueue()",
    "c: str = plain(7)",
    "d: Complete | Snooze = welcome(ctx, user_id=7)",
    "status: str = tq.get(plain.enqueue(1).job_id).status",
    "e: int = before(ctx)",
    "tq.on_failure(failure)",
]

WRONG = [
    ("welcome.enqueue(user_id='7')", 'incompatible type "str"; expected "int"'),
    ("welcome.enqueue()", 'Missing positional argument "user_id"'),
    ("welcome.enqueue(usr_id=7)", 'Unexpected keyword argument "usr_id"'),
    ("welcome.enqueue(ctx, user_id=7)", "multiple values"),
    ("welcome.delay('7')", 'incompatible type "str"'),
    ("welcome.job(user_id=None)", 'incompatible type "None"'),
    ("welcome.using(delay=1).enqueue('7')", 'incompatible type "str"'),
    ("welcome.using(dely=1)", 'Unexpected keyword argument "dely"'),
    ("welcome.using(delay='1')", 'incompatible type "str"'),
    ("welcome.using(unique_mode='skip')", "incompatible type \"Literal['skip']\""),
    ("plain.enqueue(ctx, 7)", "Too many arguments"),
    ("plain(7).nothing", 'has no attribute "nothing"'),
    ("welcome(7)", 'expected "JobContext"'),
    ("tick.enqueue(1)", "Too many arguments"),
    ("tq.task(quee='x')", '"quee"'),
    ("tq.enqueue_many([7])", "JobRequest"),
    ("tq.before_job(number)", "cannot be"),
    ("tq.after_job(before)", "cannot be"),
    ("tq.around_job(before)", "cannot be"),
]


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The errors of mypy, by the line of code they are about. One run serves all, since it takes seconds."""
    lines = [*RIGHT, *(code for code, _ in WRONG)]
    text = PREAMBLE + "".join(f"    {line}\n" for line in lines)
    folder = tmp_path_factory.mktemp("types")
    (folder / "snippet.py").write_text(text)
    package = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file=", "snippet.py"]
    ran = subprocess.run(
        command, cwd=folder, env={"MYPYPATH": str(package), "PATH": ""}, capture_output=True, text=True
    )
    assert not ran.stderr, ran.stderr
    found: dict[str, str] = {}
    for number, said in re.findall(r"^snippet\.py:(\d+): error: (.*)$", ran.stdout, re.MULTILINE):
        code = text.splitlines()[int(number) - 1].strip()
        found[code] = found.get(code, "") + said
    return found


@pytest.mark.parametrize("code", RIGHT)
def test_a_right_call_passes(code: str, complaints: dict[str, str]) -> None:
    assert code not in complaints


@pytest.mark.parametrize(("code", "said"), WRONG)
def test_a_wrong_call_is_an_error(code: str, said: str, complaints: dict[str, str]) -> None:
    assert said in complaints.get(code, "")


def test_nothing_else_is_an_error(complaints: dict[str, str]) -> None:
    assert set(complaints) == {code for code, _ in WRONG}
