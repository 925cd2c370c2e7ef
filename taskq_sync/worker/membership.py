"""What a process is told about its supervisor, by its environment."""

from __future__ import annotations

import json
import os

from attrs import asdict, frozen

from taskq_sync.errors import ConfigError

VARIABLE = "TASKQ_SUPERVISED"


@frozen(kw_only=True)
class Membership:
    """The place of a process under its supervisor."""

    supervisor: str
    """The identity of the supervisor: `host-pid-random`."""

    process: int
    """The number of the place, from 0; the process that replaces this one has the same."""

    channel: int
    """The descriptor of the socket between the two."""

    def shown(self) -> dict[str, object]:
        """Return what the list of workers says of it."""
        return {"supervisor": self.supervisor, "process": self.process}

    def to_environment(self) -> dict[str, str]:
        """Return the variable for the process."""
        return {VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> Membership | None:
        """Return the membership of this process, None without a supervisor.

        It is taken out of the environment: what this process starts has another parent.
        """
        text = os.environ.pop(VARIABLE, None)
        if text is None:
            return None
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{VARIABLE} is for processes of a supervisor, it is {text!r}") from error
