"""A server that is far away: a process between it and its clients that passes everything on, but later."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

import psycopg
from psycopg import conninfo

_spawn = multiprocessing.get_context("spawn")

_CHUNK = 1 << 18

#: None ends a link.
_Line = SimpleQueue[tuple[float, bytes] | None]


@contextmanager
def far(dsn: str, round_trip: float) -> Iterator[str]:
    """Lend a DSN under which the server of *dsn* is *round_trip* seconds farther away, there and back.

    By TCP, without a limit to what is on its way. It takes some of this machine's processors, which is counted against
    whoever uses it.
    """
    ours, theirs = _spawn.Pipe()
    process = _spawn.Process(target=_serve, args=(dsn, round_trip / 2, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield conninfo.make_conninfo(dsn, host="127.0.0.1", hostaddr="127.0.0.1", port=ours.recv())
    finally:
        process.terminate()
        process.join()


def round_trip(dsn: str) -> float:
    """Return how many seconds the shortest statement takes: the median of 50."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        taken = []
        for _ in range(50):
            began = time.perf_counter()
            conn.execute("")
            taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _serve(dsn: str, delay: float, pipe: Connection) -> None:
    """The life of the process between: until it is terminated."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    pipe.send(listener.getsockname()[1])
    while True:
        client, _ = listener.accept()
        server = _connect(conninfo.conninfo_to_dict(dsn))
        for source, sink in ((client, server), (server, client)):
            if source.family != socket.AF_UNIX:
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line: _Line = SimpleQueue()
            threading.Thread(target=_take, args=(source, line, delay), daemon=True).start()
            threading.Thread(target=_hand_on, args=(line, sink), daemon=True).start()


def _connect(given: dict[str, Any]) -> socket.socket:
    host, port = str(given.get("host") or "127.0.0.1"), int(given.get("port") or 5432)
    if not host.startswith("/"):
        return socket.create_connection((host, port))
    server = socket.socket(socket.AF_UNIX)
    server.connect(f"{host}/.s.PGSQL.{port}")
    return server


def _take(source: socket.socket, line: _Line, delay: float) -> None:
    """Note for each piece when it is to arrive. Another thread waits for that, so that pieces follow without a gap."""
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            line.put((time.monotonic() + delay, data))
    line.put(None)


def _hand_on(line: _Line, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while (piece := line.get()) is not None:
            at, data = piece
            time.sleep(max(0.0, at - time.monotonic()))
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
