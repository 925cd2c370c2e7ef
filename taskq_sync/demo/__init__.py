"""The demo: a real job on real input, from an empty folder to a proof, and nothing left behind.

Every file of the Python standard library becomes a job. Workers, started as anybody would start them, read and
parse the files. The database is then asked what became of each job.

    report = run_demo(limit=None, chaos=False)
    report.proven

`tasks` is the program that the workers run, `library` what its jobs do, `plan` which jobs there are, `stage` the
server and the processes, `starts` what the handlers themselves record, `report` what the database is asked.
"""

from __future__ import annotations

from taskq_sync.demo.report import Report
from taskq_sync.demo.run import Progress, run_demo

__all__ = ["Progress", "Report", "run_demo"]
