"""The account that the server runs under."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import TypedDict

from attrs import frozen

#: Exists everywhere and may do nothing. Nothing has to be added to the machine, and nothing stays behind.
_ROOT_BECOMES = "nobody"


class Spawn(TypedDict, total=False):
    """What `subprocess.Popen` takes to start a program under an account."""

    user: int
    group: int
    extra_groups: list[int]
    umask: int
    env: dict[str, str]


@frozen
class Account:
    """Whom PostgreSQL runs as: this process's own user, or *switch* to another one, since it refuses root."""

    name: str
    uid: int
    gid: int
    switch: bool

    @classmethod
    def for_server(cls) -> Account:
        """Return the account for a server that this process starts."""
        switch = os.geteuid() == 0
        entry = pwd.getpwnam(_ROOT_BECOMES) if switch else None
        if entry is None:
            return cls(name=str(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), switch=False)
        return cls(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid, switch=True)

    def spawn(self) -> Spawn:
        """Return the options that start a program under the account, without this process's PG* variables."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        if not self.switch:
            return Spawn(umask=0o077, env=env)
        return Spawn(user=self.uid, group=self.gid, extra_groups=[], umask=0o077, env=env)

    def can_enter(self, folder: Path) -> bool:
        """Tell whether the account reaches *folder* through all its parents."""
        if not self.switch:
            return True
        probe = subprocess.run(
            ["/bin/sh", "-c", 'cd -- "$1"', "sh", folder],
            cwd="/",
            stderr=subprocess.DEVNULL,
            check=False,
            **self.spawn(),
        )
        return probe.returncode == 0

    def own(self, path: Path) -> None:
        """Give *path* to the account."""
        if self.switch:
            os.chown(path, self.uid, self.gid)
