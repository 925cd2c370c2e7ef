"""Prune against whoever is about something that is no job: it passes that over."""

from __future__ import annotations

import pytest

from races.sessions import Session


@pytest.mark.parametrize("look", ["stop_worker", "announce"])
def test_prune_does_not_wait_for_who_is_about_a_worker_of_long_ago(
    look: str, one: Session, impatient: Session
) -> None:
    for worker in ("w1", "w2"):
        one.announce(worker_id=worker, info={})
    one.run("update taskq.workers set seen_at = taskq.clock() - interval '2 days'")
    more = {"info": {}} if look == "announce" else {}

    with one.transaction(rolls_back=True):
        getattr(one, look)(worker_id="w1", **more)
        impatient.prune()
        assert impatient.rows("select worker_id from taskq.workers") == [{"worker_id": "w1"}]

    impatient.prune()
    assert impatient.rows("select worker_id from taskq.workers") == []


def test_prune_does_not_wait_for_who_registers_a_sleeper_of_long_ago(
    one: Session, impatient: Session
) -> None:
    one.sleep_until(worker_id="w", queues=["q"], wakes_at="2020-01-01")

    with one.transaction(rolls_back=True):
        one.sleep_until(worker_id="w", queues=["q"], wakes_at="2020-01-02")
        impatient.prune()

    impatient.prune()
    assert one.value("select count(*) from taskq.sleepers") == 0
