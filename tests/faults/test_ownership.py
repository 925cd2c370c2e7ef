"""Who owns a job: leases, beats and fences, while processes are killed, suspended and started."""

from __future__ import annotations

import os
import signal

import psycopg

from faults.lab import LEASE, RECOVERY, SLACK, Lab
from faults.process import is_alive
from kit.command import CommandLine


def test_job_of_a_killed_worker_runs_again_though_nobody_remembers_the_worker(lab: Lab) -> None:
    # B01
    job = lab.enqueue("nap", {"seconds": 60})
    first = lab.worker()
    lab.wait_for_starts(job)
    first.kill()
    lab.sql.run("delete from taskq.workers")

    second = lab.worker()
    lab.wait_until_ended(job, timeout=RECOVERY + SLACK)

    assert first.worker_id != second.worker_id
    assert [each["worker_id"] for each in lab.history(job)] == [first.worker_id, second.worker_id]


def test_worker_with_the_name_of_a_dead_one_does_not_keep_its_jobs_alive(lab: Lab) -> None:
    # B01
    job = lab.enqueue("nap", {"seconds": 60})
    first = lab.worker("--worker-id", "pod-0")
    lab.wait_for_starts(job)
    first.kill()

    lab.worker("--worker-id", "pod-0")
    lab.wait_until_ended(job, timeout=RECOVERY + SLACK)

    one, two = lab.starts(job)
    assert one.pid != two.pid
    assert one.fence < two.fence


def test_job_of_several_leases_is_started_once_while_its_worker_beats(lab: Lab) -> None:
    # B02
    for lease in (LEASE, 60.0, 3600.0)[: lab.count(3, short=1)]:
        seconds = lab.span(20, short=3 * LEASE)
        jobs = lab.enqueue_many(2, "nap", {"seconds": seconds}, lease=f"{lease} s")
        workers = [lab.worker(lease=lease) for _ in range(2)]
        lab.wait_until_ended(*jobs, timeout=seconds + SLACK)
        assert [len(lab.starts(job)) for job in jobs] == [1, 1], lease
        assert [lab.stop(worker) for worker in workers] == [0, 0]


def test_configured_beat_keeps_the_lease(lab: Lab) -> None:
    # B02
    seconds = lab.span(20, short=2 * LEASE)
    jobs = lab.enqueue_many(2, "nap", {"seconds": seconds})
    lab.worker("--beat", f"{LEASE / 2 - 0.2}s", slots=1)
    lab.worker("--beat", "500ms", slots=1)
    lab.wait_until_ended(*jobs, timeout=seconds + SLACK)

    assert [len(lab.starts(job)) for job in jobs] == [1, 1]


def test_beat_that_is_too_slow_for_the_lease_is_refused_with_both_numbers(lab: Lab) -> None:
    # B02
    for beat in (2.0, 5.0):
        refused = lab.start_worker("--beat", f"{beat}s", lease=2.0)
        assert refused.wait() not in (0, None)
        assert refused.lines(rf"{beat:g} s.* 2 s")
        assert "Traceback" not in refused.text


def test_busy_loops_in_python_do_not_starve_the_beat(lab: Lab) -> None:
    # B03
    seconds = lab.span(20, short=2 * LEASE)
    jobs = lab.enqueue_many(16, "spin", {"seconds": seconds})
    busy = lab.worker(slots=16)
    lab.wait_for_starts(*jobs)
    lab.worker()
    lab.wait_until_ended(*jobs, timeout=4 * seconds + SLACK)

    assert [len(lab.starts(job)) for job in jobs] == [1] * len(jobs)
    assert not busy.lines("lease of .* (is in doubt|was lost)")


def test_busy_loops_in_python_delay_no_beat_beyond_half_of_the_lease(lab: Lab) -> None:
    # B03
    lease = 12.0
    lab.worker(slots=16, lease=lease)
    jobs = lab.enqueue_many(16, "spin", {"seconds": lab.span(40, short=10)})
    lab.wait_for_starts(*jobs)
    left: list[float] = []

    def ended() -> bool:
        shortest = lab.sql.value(
            "select extract(epoch from min(lease_expires_at) - taskq.clock())::float8 from taskq.running"
        )
        left.extend([] if shortest is None else [shortest])
        return shortest is None

    lab.until(ended, "the jobs end", timeout=60)
    assert min(left) > lease / 2
    assert max(left[len(left) // 2 :]) > lease - 2  # there were beats


def test_call_in_c_that_keeps_the_interpreter_costs_the_lease_and_never_the_job(lab: Lab) -> None:
    # B03; each takes two leases or more where nothing else runs
    lab.asked_for.add("57014")  # the time of a call may be over before its thread has the interpreter again
    for kind, size in (("sum", 12 * 10**7), ("regex", 27))[: lab.count(2, short=1)]:
        job = lab.enqueue("hold_gil", {"kind": kind, "size": size}, lease="1 s")
        first = lab.worker(lease=1.0)
        lab.wait_for_starts(job)
        second = lab.worker(lease=1.0)
        lab.wait_until_ended(job, timeout=120)

        verbs = [each["verb"] for each in lab.history(job)]
        assert verbs == ["take_back"] * (len(verbs) - 1) + ["complete"]
        if len(verbs) > 1:
            first.wait_for("lease of .* was lost")
        assert [lab.stop(worker) for worker in (first, second)] == [0, 0]


def test_call_in_c_that_keeps_the_interpreter_costs_nothing_with_a_heartbeat_of_its_own(lab: Lab) -> None:
    # B03
    for kind, size in (("sleep", 8), ("sum", 12 * 10**7), ("regex", 27))[: lab.count(3, short=1)]:
        first = lab.worker("--heartbeat", "process", slots=2)
        other = lab.enqueue("nap", {"seconds": 1.0})
        lab.wait_for_starts(other)
        job = lab.enqueue("hold_gil", {"kind": kind, "size": size})
        lab.wait_for_starts(job)
        second = lab.worker()
        lab.wait_until_ended(job, other, timeout=120)

        assert [len(lab.starts(each)) for each in (job, other)] == [1, 1]
        assert not first.lines("lease of .* (is in doubt|was lost)")
        assert [lab.stop(worker) for worker in (first, second)] == [0, 0]


def test_call_in_c_costs_the_lease_with_a_heartbeat_by_thread(lab: Lab) -> None:
    # B03
    first = lab.worker()
    job = lab.enqueue("hold_gil", {"kind": "sleep", "size": 8})
    lab.wait_for_starts(job)
    second = lab.worker()
    lab.wait_until_ended(job)

    assert [each["worker_id"] for each in lab.history(job)] == [first.worker_id, second.worker_id]
    first.wait_for("lease of .* was lost")


def test_beats_of_a_child_process_end_with_a_killed_worker(lab: Lab) -> None:
    # B03, B05
    lab.asked_for.add("08006")  # what is killed in the middle of a call in C has not read its answers
    first = lab.worker("--heartbeat", "process", slots=1)
    job = lab.enqueue("hold_gil", {"kind": "sleep", "size": 60})
    lab.wait_for_starts(job)
    [child] = first.children()
    first.kill()
    lab.until(lambda: not is_alive(child), "the child ends", timeout=SLACK)

    lab.worker()
    lab.wait_until_ended(job, timeout=RECOVERY + SLACK)
    assert len(lab.starts(job)) == 2


def test_killed_heartbeat_process_costs_nothing_and_another_one_takes_its_place(lab: Lab) -> None:
    # B03, B06
    owner = lab.worker("--heartbeat", "process")
    jobs = lab.enqueue_many(3, "nap", {"seconds": lab.span(20, short=2 * LEASE)}, queue=owner.own_queue)
    lab.wait_for_starts(*jobs)
    lab.worker()
    [child] = owner.children()
    os.kill(child, signal.SIGKILL)
    owner.wait_for("heartbeat process is gone")
    lab.until(lambda: owner.children() not in ([], [child]), "there is another one")
    lab.wait_until_ended(*jobs)

    assert [len(lab.starts(job)) for job in jobs] == [1] * len(jobs)
    assert not owner.lines("lease of .* was lost")


def test_signals_to_the_group_end_the_heartbeat_process_last(lab: Lab) -> None:
    # B03
    job = lab.enqueue("nap", {"seconds": 2 * LEASE})
    owner = lab.worker("--heartbeat", "process")
    lab.wait_for_starts(job)
    lab.worker(queues="other")
    lab.excuse(owner)
    os.killpg(owner.pid, signal.SIGINT)
    assert owner.wait(2 * LEASE + SLACK) == 0

    assert lab.outcomes(job) == [("succeeded", "success")]
    assert len(lab.starts(job)) == 1


def test_worker_that_lost_its_claim_settles_nothing_and_goes_on(lab: Lab) -> None:
    # B04
    job = lab.enqueue("nap", {"seconds": 1.0, "again": 1.5 * LEASE})
    first = lab.worker("--worker-id", "same")
    lab.wait_for_starts(job)
    first.suspend()
    second = lab.worker("--worker-id", "same")
    lab.wait_for_starts(job, times=2)

    first.resume()
    first.wait_for("lease of .* was lost")
    assert lab.job(job)["status"] == "running"
    lab.wait_until_ended(job, timeout=2 * LEASE + SLACK)

    assert lab.job(job)["result"] == 2
    assert [each["verb"] for each in lab.history(job)] == ["take_back", "complete"]
    assert len(first.lines("was lost")) == 1
    assert not second.lines("was lost")


def test_length_of_a_job_and_detection_of_a_crash_are_two_things(lab: Lab) -> None:
    # B05
    seconds = lab.span(90, short=2 * LEASE)
    job = lab.enqueue("nap", {"seconds": seconds, "again": seconds})
    first = lab.worker()
    lab.wait_for_starts(job)
    second = lab.worker()
    lab.wait_until_ended(job, timeout=seconds + SLACK)
    assert len(lab.starts(job)) == 1

    owner = first
    lab.stop(second)
    again = lab.enqueue("nap", {"seconds": 60})
    lab.wait_for_starts(again)
    owner.kill()
    lab.worker()
    lab.wait_for_starts(again, times=2, timeout=RECOVERY + SLACK)


def test_job_that_kills_its_worker_becomes_a_dead_letter_and_harms_no_other(lab: Lab) -> None:
    # B06
    killer = lab.enqueue("die", max_attempts=10)
    others = lab.enqueue_many(lab.count(20, short=12), "nap", {"seconds": 0.3, "again": 0.3})
    lab.may_be_unstarted = 20 * len(others)  # claimed, and then the process was killed
    worker = lab.start_worker(slots=8)

    def ended() -> bool:
        nonlocal worker
        if worker.code is not None:
            worker = lab.start_worker(slots=8)
        return all(status in ("succeeded", "failed") for status, _ in lab.outcomes(killer, *others))

    lab.until(ended, "all jobs end", timeout=3 * (RECOVERY + SLACK) + 30)

    assert lab.outcomes(killer) == [("failed", "poison")]
    assert lab.outcomes(*others) == [("succeeded", "success")] * len(others)
    assert len(lab.starts(killer)) == 3
    assert (
        sum(len(lab.starts(other)) for other in others) <= len(others) + 8
    )  # one incident, one attempt of each slot


def test_crash_in_the_last_attempt_ends_the_job_and_frees_its_key(lab: Lab) -> None:
    # B07
    key = {"concurrency_key": "k"}
    last = lab.enqueue("nap", {"seconds": 60}, max_attempts=1, **key)
    first = lab.worker()
    lab.wait_for_starts(last)
    followers = lab.enqueue_many(4, "nap", {"seconds": 0.1}, **key)
    first.kill()

    lab.worker()
    lab.until(lambda: lab.outcomes(last) == [("failed", "retry_exhausted")], "it ends", RECOVERY + SLACK)
    lab.wait_until_ended(*followers)

    assert [each.job_id for each in lab.starts(*followers)] == followers
    assert len(lab.starts(last)) == 1


def test_jobs_that_a_stopping_worker_gives_up_leave_their_key_at_once(lab: Lab) -> None:
    # B08
    lab.sql.set_concurrency_limit(key="k", max_running=2, actor="test", reason="test")
    given_up = lab.enqueue_many(2, "nap", {"seconds": 600, "again": 0.1}, concurrency_key="k")
    first = lab.worker("--soft-stop-timeout", "2s")
    lab.wait_for_starts(*given_up)
    new = lab.enqueue_many(2, "nap", concurrency_key="k")
    first.terminate()
    assert first.wait(2 + SLACK) == 3

    lab.worker()
    lab.wait_until_ended(*new, timeout=LEASE - 0.5 + SLACK)
    lab.wait_until_ended(*given_up)

    assert [each["verb"] for each in lab.history(given_up[0])] == ["release", "complete"]
    assert [lab.job(job)["failure_count"] for job in given_up] == [0, 0]  # as docs say: a release is free


def test_worker_that_does_not_know_the_task_takes_back_by_the_policy_of_the_job(lab: Lab) -> None:
    # B09
    job = lab.enqueue("nap", {"seconds": 60}, queue="qb", max_attempts=5, backoff="7 s", backoff_max="7 s")
    owner = lab.worker(queues="qb")
    keeper = lab.worker(queues="qa", tasks="faults.other_tasks")
    lab.wait_for_starts(job)
    owner.kill()
    lab.until(lambda: lab.job(job)["status"] == "queued", "the job is taken back", RECOVERY + SLACK)

    found = lab.job(job)
    assert (found["failure_count"], found["max_attempts"], found["outcome"]) == (1, 5, None)
    assert not keeper.lines("rror")


def test_unknown_task_is_given_back_and_says_so(lab: Lab) -> None:
    # B09
    lab.worker()
    job = lab.enqueue("nope", max_attempts=1)
    lab.until(lambda: [each["verb"] for each in lab.history(job)] == ["release"], "it is given back")

    [attempt] = lab.history(job)
    assert attempt["status"] == "queued"
    assert "unknown_task: nope" in attempt["reason"]
    found = lab.job(job)
    assert (found["status"], found["failure_count"]) == ("queued", 0)
    assert (found["scheduled_at"] - attempt["ended_at"]).total_seconds() > 20


def test_jobs_in_the_buffer_of_a_worker_are_not_given_out_twice(lab: Lab) -> None:
    # B10
    quick = lab.enqueue_many(lab.count(400, short=150), "nap")  # so many that the worker claims ahead
    slow = lab.enqueue_many(lab.count(10, short=6), "nap", {"seconds": 1.5, "again": 1.5})
    for _ in range(2):
        lab.worker(slots=1)
    lab.wait_until_ended(*quick, *slow, timeout=60)

    assert [len(lab.starts(job)) for job in quick + slow] == [1] * len(quick + slow)


def test_short_job_behind_a_long_one_is_started_elsewhere(lab: Lab) -> None:
    # B10
    busy, other = lab.worker(slots=1), lab.worker(slots=1)
    other.suspend()
    quick = lab.enqueue_many(lab.count(400, short=100), "nap")  # so many that the worker claims ahead
    long = lab.enqueue("nap", {"seconds": 60, "again": 0})
    short = lab.enqueue_many(5, "nap")
    lab.wait_for_starts(long)
    other.resume()
    lab.wait_until_ended(*short, timeout=2 + SLACK)

    [began] = lab.starts(long)
    late = max((each.started_at - began.started_at).total_seconds() for each in lab.starts(*short))
    assert late < 2 + SLACK / 2
    assert {each.pid for each in lab.starts(*short)} == {other.pid}
    busy.kill()  # nobody waits for the long one
    lab.wait_until_ended(*quick, long)


def test_row_that_somebody_locks_keeps_neither_beats_nor_take_back_waiting(lab: Lab) -> None:
    # B05
    dead = lab.worker()
    orphan = lab.enqueue("nap", {"seconds": 60, "again": 0})
    lab.wait_for_starts(orphan)
    owner = lab.worker()
    locked, other = lab.enqueue_many(2, "nap", {"seconds": 2 * LEASE}, queue=owner.own_queue)
    lab.wait_for_starts(locked, other)
    lab.watch.may_be_overdue.add(locked)
    lab.asked_for.add("57014")  # its verdict waits for the lock, and gives up for a while
    with psycopg.connect(lab.dsn, application_name="faults-psql") as somebody:
        somebody.execute("select from taskq.running where id = %s for update", (locked,))
        dead.kill()
        # Its verdict, and that of the other, may stand behind that of the locked row until this one gives up.
        lab.wait_until_ended(orphan, timeout=RECOVERY + 2 * SLACK)
        lab.wait_until_ended(other, timeout=2 * LEASE + 2 * SLACK)
    lab.wait_until_ended(locked)

    assert [len(lab.starts(job)) for job in (other, orphan)] == [1, 2]
    # the lock outlasts the lease: who comes first after it, the owner's verdict or a take-back, is open
    verbs = [each["verb"] for each in lab.history(locked)]
    assert verbs == ["take_back"] * (len(verbs) - 1) + ["complete"]


def test_start_of_a_worker_and_of_commands_touches_nobody_s_job(lab: Lab) -> None:
    # B11
    seconds = lab.span(20, short=2 * LEASE + 2)
    jobs = lab.enqueue_many(5, "nap", {"seconds": seconds})
    lab.worker(slots=5)
    lab.wait_for_starts(*jobs)
    command = CommandLine(lab.folder, lab.dsn)
    others = [lab.start_worker() for _ in range(lab.count(5, short=2))]
    for words in ("status",), ("migrate",), ("housekeep",):
        assert command.run(*words).code == 0
    for number, worker in enumerate(others):
        worker.wait_until_ready()
        worker.send(signal.SIGKILL if number % 2 else signal.SIGTERM)
        worker.wait()
        lab.start_worker().wait_until_ready()
    lab.wait_until_ended(*jobs, timeout=seconds + SLACK)

    assert [len(lab.starts(job)) for job in jobs] == [1] * 5
