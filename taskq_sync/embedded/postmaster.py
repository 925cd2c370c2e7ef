"""What a running server says of itself in its data folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

from attrs import frozen


@frozen
class Postmaster:
    """The main process of a server, from `postmaster.pid`; *status* is `ready` once it takes connections."""

    pid: int
    socket_folder: str
    status: str

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        """Return what stands in the data folder, None if nothing does or it is still being written."""
        try:
            lines = (data / "postmaster.pid").read_text().splitlines()
            return cls(int(lines[0]), lines[4].strip(), lines[7].strip())
        except (FileNotFoundError, IndexError, ValueError):
            return None


def is_postgres(pid: int) -> bool:
    """Tell whether the process exists and is a PostgreSQL server."""
    if Path("/proc/self").exists():
        try:
            name = Path(f"/proc/{pid}/comm").read_text()
        except OSError:
            return False
    else:  # macOS
        asked = subprocess.run(
            ["ps", "-o", "comm=", "-p", str(pid)], capture_output=True, text=True, check=False
        )
        name = asked.stdout
    return Path(name.strip()).name.startswith("postgres")
