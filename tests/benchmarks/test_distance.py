"""The process that makes a server far away: it delays, and does nothing else."""

from __future__ import annotations

import psycopg

from benchmarks import distance

SIZE = 5_000_000


def test_every_answer_comes_later_and_whole(dsn: str) -> None:
    text = "0123456789" * (SIZE // 10)
    with distance.far(dsn, 0.030) as far_dsn:
        assert distance.round_trip(far_dsn) >= 0.030
        with psycopg.connect(far_dsn) as conn:
            assert conn.execute("select %s::text", (text,)).fetchall() == [(text,)]


def test_what_follows_does_not_wait_for_what_is_on_its_way(dsn: str) -> None:
    """A hundred statements that are sent without waiting take little more than one."""
    with distance.far(dsn, 0.2) as far_dsn, psycopg.connect(far_dsn, autocommit=True) as conn:
        with conn.pipeline():
            cursors = [conn.execute("select clock_timestamp()") for _ in range(100)]
        first, last = cursors[0].fetchall()[0][0], cursors[-1].fetchall()[0][0]
        assert (last - first).total_seconds() < 5  # one after the other: twenty
