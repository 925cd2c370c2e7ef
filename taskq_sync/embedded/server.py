"""Starting, sharing and stopping the server of a folder."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from taskq_sync.embedded.account import Account
from taskq_sync.embedded.lock import FileLock
from taskq_sync.embedded.postmaster import Postmaster, is_postgres
from taskq_sync.embedded.programs import Programs
from taskq_sync.errors import ConfigError, DatabaseUnavailable

#: Seconds for a start, which includes the recovery after a crash.
START_TIMEOUT = 60.0

#: Seconds for each of the three ways to end a server.
STOP_TIMEOUT = 15.0

#: Linux has room for 107 bytes of a socket's path, macOS for 103, and `/.s.PGSQL.5432` takes 15 of them.
_LONGEST_SOCKET_FOLDER = 88

_POLL = 0.01

_SETTINGS = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "dynamic_shared_memory_type": "mmap",
    "log_timezone": "UTC",
    "timezone": "UTC",
}

_NOT_DURABLE = {"fsync": "off", "full_page_writes": "off"}


class EmbeddedServer:
    """A PostgreSQL server whose data, log and locks lie in *folder*, which is made if it is missing.

    *durable*: a commit survives a crash of the machine; off only for tests, which it makes faster. *settings*:
    PostgreSQL settings for a server that this object starts; one found running keeps its own. *programs*: the
    folder of another server's programs than the wheel's.

    Raises `ConfigError` where neither the extra `embedded` is installed nor *programs* are given. Safe to use from
    several threads; `start` and `stop` may be called at any time and again. In a forked child they do nothing.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        programs: str | os.PathLike[str] | None = None,
    ) -> None:
        self.folder = Path(folder).resolve()
        self._account = Account.for_server()
        self._programs = (
            Programs.of_the_wheel(self._account)
            if programs is None
            else Programs(Path(programs), self._account)
        )
        self._durable = durable
        self._settings = {**_SETTINGS, **({} if durable else _NOT_DURABLE), **(settings or {})}
        self._mutex = threading.Lock()
        self._owner = os.getpid()
        self._usage: FileLock | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._running: Postmaster | None = None
        self._short_socket_folder: Path | None = None

    def __repr__(self) -> str:
        return f"<EmbeddedServer in {self.folder}>"

    def __enter__(self) -> EmbeddedServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def dsn(self) -> str:
        """The DSN of the database `postgres` as its superuser; `ConfigError` before `start`."""
        if self._running is None:
            raise ConfigError(f"the server in {self.folder} has not been started")
        return f"postgresql://postgres@/postgres?host={quote(self._running.socket_folder, safe='')}"

    @property
    def log(self) -> Path:
        """The file of the server's log."""
        return self.folder / "server.log"

    def start(self) -> str:
        """Start the server, or join the one that runs in the folder, and return its DSN.

        Takes a second in a new folder. Raises `ConfigError` if the folder cannot be used, and
        `DatabaseUnavailable` if the server does not come up within `START_TIMEOUT`.
        """
        with self._mutex:
            if self._running is None and self._owner == os.getpid():
                self._prepare_folder()
                with self._alone():
                    self._usage = FileLock.shared(self._lock_file("users"))
                    try:
                        self._running = self._join() or self._launch()
                    except BaseException:
                        self._leave()
                        raise
                atexit.register(self.stop)
        return self.dsn

    def stop(self) -> None:
        """Stop using the server, and end it if nobody else uses it; returns when it is gone.

        Open sessions are closed and their transactions rolled back. A moment, or at most three times
        `STOP_TIMEOUT`.
        """
        with self._mutex:
            if self._running is not None and self._owner == os.getpid():
                with self._alone():
                    self._leave()
                atexit.unregister(self.stop)

    # Three lock files, dropped by the kernel with their holders:
    #   start.lock   held alone for the length of one start or stop, so that these never meet
    #   users.lock   held shared by each user; who gets it alone, under start.lock, was the last
    #   server.lock  inherited by the server: held as long as any process of it lives, whatever became of its parent

    def _lock_file(self, name: str) -> Path:
        return self.folder / f"{name}.lock"

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = FileLock.wait_for(self._lock_file("start"), START_TIMEOUT + 3 * STOP_TIMEOUT)
        if lock is None:
            raise DatabaseUnavailable(
                f"another process has been starting or stopping {self.folder} for too long"
            )
        try:
            yield
        finally:
            lock.release()

    def _prepare_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock_file("start").touch()
            if self._account.switch:
                self.folder.chmod(0o711)
        except OSError as error:
            raise ConfigError(f"cannot keep a server in {self.folder}: {error.strerror}") from error
        if not self._account.can_enter(self.folder):
            raise ConfigError(
                f"PostgreSQL does not run as root, and the account {self._account.name} that it runs as instead "
                f"cannot enter {self.folder}",
                hint="choose a folder whose parents are open to others, under /var/lib or /tmp for instance",
            )

    def _join(self) -> Postmaster | None:
        """Return the server that lives in the folder once it is ready, None when there is none."""
        deadline = time.monotonic() + START_TIMEOUT
        while not self._has_ended(timeout=0):
            found = Postmaster.read(self.folder / "data")
            if found is not None and found.status == "ready":
                return found
            if time.monotonic() > deadline:
                raise DatabaseUnavailable(f"the server in {self.folder} does not get ready: see {self.log}")
            time.sleep(_POLL)
        return None

    def _launch(self) -> Postmaster:
        data = self.folder / "data"
        programs = self._programs.within_reach(self.folder)
        if data.exists():
            programs.check_made(data)
            self._forget_stale_pid(data)
        else:
            # Renamed when it is whole: a start that was killed half-way leaves nothing that looks like data.
            programs.initialise(self.folder / "data.new", durable=self._durable)
            (self.folder / "data.new").rename(data)
        self._process = self._spawn(programs, data)
        return self._await_ready(self._process, data)

    def _forget_stale_pid(self, data: Path) -> None:
        """Remove the pid file of a dead server if something else now has its pid.

        PostgreSQL does not start while that pid is alive, and in containers the same small numbers come back.
        """
        stale = Postmaster.read(data)
        if stale is not None and not is_postgres(stale.pid):
            (data / "postmaster.pid").unlink()

    def _spawn(self, programs: Programs, data: Path) -> subprocess.Popen[bytes]:
        settings = {**self._settings, "unix_socket_directories": str(self._make_socket_folder())}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        lock = FileLock.exclusive(self._lock_file("server"))
        if lock is None:
            raise DatabaseUnavailable(f"a server that was not there a moment ago runs in {self.folder}")
        with self.log.open("ab") as log:
            try:
                return subprocess.Popen(
                    [programs.path("postgres"), "-D", data, *options],
                    cwd="/",
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=(lock.descriptor,),
                    # A Ctrl-C at the terminal is for the program; it stops the server when it has done with it.
                    start_new_session=True,
                    **self._account.spawn(),
                )
            finally:
                lock.hand_over()

    def _make_socket_folder(self) -> Path:
        folder = self.folder / "socket"
        if len(os.fsencode(folder)) <= _LONGEST_SOCKET_FOLDER:
            folder.mkdir(mode=0o700, exist_ok=True)
        else:
            folder = self._short_socket_folder = self._make_short_folder()
        self._account.own(folder)
        return folder

    def _make_short_folder(self) -> Path:
        """Make a folder elsewhere, where it was at the last start of this object unless it is no longer ours."""
        last = self._short_socket_folder
        if last is not None:
            with contextlib.suppress(FileExistsError):
                last.mkdir(mode=0o700)
            found = last.lstat()  # what a killed server has left, or what somebody else has put there
            private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
            if private and found.st_uid in (os.geteuid(), self._account.uid):
                return last
        return Path(tempfile.mkdtemp(prefix="taskq-"))

    def _await_ready(self, process: subprocess.Popen[bytes], data: Path) -> Postmaster:
        deadline = time.monotonic() + START_TIMEOUT
        while process.poll() is None and time.monotonic() < deadline:
            found = Postmaster.read(data)
            if found is not None and found.pid == process.pid and found.status == "ready":
                return found
            time.sleep(_POLL)
        said = self.log.read_text(errors="replace").strip().splitlines()[-3:]
        raise DatabaseUnavailable(
            f"the server in {self.folder} did not start, {self.log} says: {' / '.join(said)}"
        )

    def _leave(self) -> None:
        """Stop using the server; the last user ends it. Called with `start.lock`."""
        process, self._process, self._running = self._process, None, None
        if self._usage is not None:
            self._usage.release()
            self._usage = None
        last = FileLock.exclusive(self._lock_file("users"))
        if last is None:
            if process is not None:
                process.returncode = 0  # the server lives on with its other users: Popen need not warn of it
            return
        try:
            self._end_server(process)
        finally:
            last.release()

    def _end_server(self, process: subprocess.Popen[bytes] | None) -> None:
        found = Postmaster.read(self.folder / "data")
        pid = process.pid if process is not None else found.pid if found is not None else None
        for signum in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):  # fast, immediate, by force
            if pid is None or self._has_ended(timeout=0):
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signum)
            if self._has_ended(timeout=STOP_TIMEOUT):
                break
        if process is not None:
            process.wait(STOP_TIMEOUT)
        if found is not None and Path(found.socket_folder).parent != self.folder:
            with contextlib.suppress(OSError):
                Path(found.socket_folder).rmdir()

    def _has_ended(self, *, timeout: float) -> bool:
        lock = FileLock.wait_for(self._lock_file("server"), timeout)
        if lock is None:
            return False
        lock.release()
        return True
