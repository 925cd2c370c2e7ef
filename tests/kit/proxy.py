"""A link to the server that can be broken at the moment of one's choice."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from psycopg import conninfo


class Proxy:
    """Stands between a client and the server of *dsn*, on a Unix socket of its own.

    `on_reply` decides about bytes from the server: it returns what goes on to the client, or None to break the link.
    Bytes that arrive there are the proof that the server has done what it was asked.
    """

    def __init__(self, dsn: str) -> None:
        given = conninfo.conninfo_to_dict(dsn)
        host, port = str(given["host"]), str(given.get("port", 5432))
        self._target: str | tuple[str, int] = (
            f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, int(port))
        )
        self._folder = tempfile.TemporaryDirectory(prefix="taskq-proxy-")
        self._listener: socket.socket | None = None
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.dsn = conninfo.make_conninfo(dsn, host=self._folder.name, port=1)
        self.on_reply: Callable[[bytes], bytes | None] = lambda data: data
        self.links = 0
        self.start()

    def start(self) -> None:
        """Accept connections."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder.name, ".s.PGSQL.1")))
        self._listener.listen()
        self._run(self._accept, self._listener)

    def stop(self) -> None:
        """Refuse connections, and break those there are."""
        if self._listener is not None:
            Path(self._folder.name, ".s.PGSQL.1").unlink()
            _shut(self._listener)
            self._listener = None
        self.cut()

    def cut(self) -> None:
        """Break all links."""
        for each in self._open:
            _shut(each)

    def close(self) -> None:
        self.stop()
        for thread in self._threads:
            thread.join()
        for each in self._open:
            each.close()
        self._folder.cleanup()

    def _accept(self, listener: socket.socket) -> None:
        with listener, contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                self.links += 1
                server = self._connect()
                self._open += [client, server]
                self._run(self._pump, client, server, lambda data: data)
                self._run(self._pump, server, client, lambda data: self.on_reply(data))

    def _connect(self) -> socket.socket:
        if isinstance(self._target, tuple):
            return socket.create_connection(self._target)
        server = socket.socket(socket.AF_UNIX)
        server.connect(self._target)
        return server

    def _pump(
        self, source: socket.socket, sink: socket.socket, change: Callable[[bytes], bytes | None]
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                passed = change(data)
                if passed is None:
                    break
                sink.sendall(passed)
        _shut(source)
        _shut(sink)

    def _run(self, target: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=target, args=args, name="proxy")
        self._threads.append(thread)
        thread.start()


def _shut(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
