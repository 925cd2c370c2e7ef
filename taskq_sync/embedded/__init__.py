"""A PostgreSQL server in a folder of its own, for demos, development and tests.

    with EmbeddedServer("/var/tmp/jobs") as server:
        psycopg.connect(server.dsn)

The programs come from the extra `embedded`, a wheel; nothing is installed or configured on the machine. The server
listens on a Unix socket in a folder that only its owner may enter, never on the network, and prints nothing. Run
by root it takes the account `nobody`, since PostgreSQL refuses root.

Any number of processes may start the same folder. They share one server, and the last one to stop stops it. What a
killed process left running is taken over by the next start of the folder.
"""

from __future__ import annotations

from taskq_sync.embedded.server import EmbeddedServer

__all__ = ["EmbeddedServer"]
