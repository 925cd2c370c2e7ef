"""A link to the server that can be broken in every way, and at the moment of one's choice.

::

    with Proxy(server_dsn) as proxy:
        trap = proxy.cut_after("settle")       # the reply of the next settle will not arrive
        ...                                    # a client works through proxy.dsn
        trap.wait()

Clients come by TCP, as they would over a network. Each link has two threads, one for each direction.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType

from psycopg import conninfo

from faults.wire import Backend, Frontend, Group
from kit.waiting import PATIENCE

_RESET = struct.pack("ii", 1, 0)


class Trap:
    """A fault that waits for a statement: it springs once, at the *skip* + first that does *act*.

    *part* is a text that the application_name of the client must contain.
    """

    def __init__(self, act: str, part: str, *, before: bool, skip: int) -> None:
        self.act = act
        self.part = part
        self.before = before
        self._skip = skip
        self._sprung = threading.Event()

    @property
    def sprung(self) -> bool:
        """Whether the link was cut."""
        return self._sprung.is_set()

    def wait(self, timeout: float = PATIENCE) -> None:
        """Wait until the link was cut."""
        assert self._sprung.wait(timeout), f"within {timeout:g} s nobody said {self.act}"

    def spring(self) -> None:
        """The link is about to be cut."""
        self._sprung.set()

    def matches(self, group: Group, client: str) -> bool:
        """Whether this is the statement; counts the ones to skip."""
        if self.act not in group.acts or self.part not in client:
            return False
        self._skip -= 1
        return self._skip < 0


class Link:
    """One client and its session at the server.

    `_open` says that bytes may pass; `_deaf` that they are swallowed. `_reply_of` is the trap whose statement has been
    forwarded, and whose answer must not arrive.
    """

    def __init__(self, client: socket.socket, server: socket.socket, proxy: Proxy) -> None:
        self._client = client
        self._server = server
        self._proxy = proxy
        self._frontend = Frontend()
        self._backend = Backend()
        self._open = threading.Event()
        self._open.set()
        self._deaf = False
        self._reply_of: Trap | None = None
        self._threads = [
            threading.Thread(target=self._pump, args=(client, self._upwards), name="proxy-up"),
            threading.Thread(target=self._pump, args=(server, self._downwards), name="proxy-down"),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def application_name(self) -> str:
        """What the client calls itself; empty before it has said so."""
        return self._frontend.application_name

    @property
    def alive(self) -> bool:
        """Whether bytes may still pass."""
        return not self._deaf and all(thread.is_alive() for thread in self._threads)

    @property
    def ended(self) -> bool:
        """Whether both sides are gone."""
        return not any(thread.is_alive() for thread in self._threads)

    def cut(self) -> None:
        """Break the link on both sides, in good order."""
        self._open.set()
        _shut(self._client)
        _shut(self._server)

    def reset(self) -> None:
        """Break the link on both sides; the client sees a reset, as after a crash of the machine."""
        with contextlib.suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.cut()

    def black_hole(self) -> None:
        """From now on nothing arrives, in either direction, and nobody is told."""
        self._deaf = True

    def half_open(self) -> None:
        """The server is gone, and the client is not told; what it sends is lost."""
        self._deaf = True
        _shut(self._server)

    def hold(self) -> None:
        """Keep everything that is sent, until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Let pass what was kept."""
        self._open.set()

    def end(self) -> None:
        """Break the link and wait for its threads."""
        self.cut()
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()

    def _pump(self, source: socket.socket, forward: Callable[[bytes], None]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                if self._proxy.delay:
                    self._proxy.pause(self._proxy.delay)
                if not self._deaf:
                    forward(data)
        if not self._deaf:  # a hole tells nobody that one side has left
            self.cut()

    def _upwards(self, data: bytes) -> None:
        for group in self._frontend.feed(data):
            trap = self._proxy.trap_for(group, self.application_name)
            if trap is not None and trap.before:
                trap.spring()
                self.cut()
                return
            self._reply_of = trap  # set before the server can answer
            self._backend = Backend()
            self._server.sendall(group.data)

    def _downwards(self, data: bytes) -> None:
        trap = self._reply_of
        if trap is None:
            self._client.sendall(data)
        elif self._backend.is_ready_after(data):
            # The server is ready for the next statement, so this one is committed.
            trap.spring()
            self.cut()


class Proxy:
    """Stands between clients and the server of *dsn*. `dsn` leads through it.

    `delay` is how many seconds each packet waits, in each direction. `_lock` guards the links and the traps.
    """

    def __init__(self, dsn: str) -> None:
        given = conninfo.conninfo_to_dict(dsn)
        self._target = f"{given['host']}/.s.PGSQL.{given.get('port', 5432)}"
        self._lock = threading.Lock()
        self._links: list[Link] = []
        self._traps: list[Trap] = []
        self._closing = threading.Event()
        self._swallows_new = False
        self._waiting: list[socket.socket] = []
        self.delay = 0.0
        self._listener, self._thread = self._listen(0)
        self.port = int(self._listener.getsockname()[1])
        self.dsn = conninfo.make_conninfo(dsn, host="127.0.0.1", port=self.port)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Break all links and stop."""
        self._closing.set()
        self._stop_listening()
        for link in self._all():
            link.end()
        for client in self._waiting:
            client.close()

    def links(self, part: str = "") -> list[Link]:
        """Return the links whose client's application_name contains *part*, oldest first."""
        return [link for link in self._all() if link.alive and part in link.application_name]

    def cut(self, part: str = "") -> int:
        """Break the links of *part*, and return how many there were."""
        links = self.links(part)
        for link in links:
            link.cut()
        return len(links)

    def cut_after(self, act: str, *, part: str = "", skip: int = 0) -> Trap:
        """Let the next statement that does *act* be done, and break the link instead of its answer.

        *act* is the name of the function it calls, or its first word (`commit`).
        """
        return self._add(Trap(act, part, before=False, skip=skip))

    def cut_before(self, act: str, *, part: str = "", skip: int = 0) -> Trap:
        """Break the link when a client sends a statement that does *act*, which never arrives."""
        return self._add(Trap(act, part, before=True, skip=skip))

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Break all links, and refuse new ones, for the length of the block."""
        self._stop_listening()
        self.cut()
        try:
            yield
        finally:
            self._listener, self._thread = self._listen(self.port)

    @contextmanager
    def black_holes(self) -> Iterator[None]:
        """All links are black holes from now on, and so are those made in the block: nobody is told."""
        self._swallows_new = True
        holes = self._all()
        for link in holes:
            link.black_hole()
        try:
            yield
        finally:
            self._swallows_new = False

    @contextmanager
    def holding(self, part: str = "") -> Iterator[None]:
        """Keep what is sent over the links of *part* for the length of the block."""
        held = self.links(part)
        for link in held:
            link.hold()
        try:
            yield
        finally:
            for link in held:
                link.release()

    # For the links

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the proxy."""
        self._closing.wait(seconds)

    def trap_for(self, group: Group, client: str) -> Trap | None:
        """Return the trap that springs at *group*, if one does; it is gone then."""
        with self._lock:
            for trap in self._traps:
                if trap.matches(group, client):
                    self._traps.remove(trap)
                    return trap
        return None

    def _add(self, trap: Trap) -> Trap:
        with self._lock:
            self._traps.append(trap)
        return trap

    def _all(self) -> list[Link]:
        with self._lock:
            return list(self._links)

    def _listen(self, port: int) -> tuple[socket.socket, threading.Thread]:
        listener = socket.create_server(("127.0.0.1", port), backlog=64)
        thread = threading.Thread(target=self._accept, args=(listener,), name="proxy-accept")
        thread.start()
        return listener, thread

    def _stop_listening(self) -> None:
        _shut(self._listener)
        self._thread.join()
        self._listener.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._swallows_new:
                    self._waiting.append(client)
                else:
                    self._join(client)

    def _join(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        try:
            server.connect(self._target)
        except OSError:  # the server is away
            server.close()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            client.close()
            return
        with self._lock:
            for link in [each for each in self._links if each.ended]:
                self._links.remove(link)
                link.end()
            self._links.append(Link(client, server, self))


def _shut(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.shutdown(socket.SHUT_RDWR)
