"""Several worker processes under one supervisor, which starts them, replaces them and ends after them.

::

    sys.exit(Supervisor(["--app", "app:tq"], processes=4).run())

The supervisor neither imports the user's program nor connects to the database. A process is a new interpreter with
the same command, in a session of its own, so that Ctrl-C at a terminal reaches the supervisor alone. Between the two
is a pair of sockets: the process tells how far it is, and stops softly when the supervisor is gone.

The order of reading: `supervisor` (all of them), `place` (one of them after the other), `process` (one), `tether`
and `worker.membership` (what a process knows of its supervisor).
"""

from taskq_sync.worker.supervisor.process import SupervisedProcess
from taskq_sync.worker.supervisor.supervisor import Supervisor
from taskq_sync.worker.supervisor.tether import Tether
from taskq_sync.worker.supervisor.wakeups import Wakeups

__all__ = ["SupervisedProcess", "Supervisor", "Tether", "Wakeups"]
