"""The only place that knows psycopg.

psycopg needs libpq, PostgreSQL's client library. Where there is none it cannot be imported at all, so whoever imports
this package is told what to do: the command line by one sentence, a program by an ImportError that is one.
"""

import sys
from pathlib import Path

_NO_LIBPQ = (
    "psycopg finds no libpq, PostgreSQL's client library: install taskq-sync with the extra binary, "
    "psycopg[binary], or the system's package libpq5"
)

try:
    import psycopg  # noqa: F401
except ImportError as error:
    if "no pq wrapper available" not in str(error):
        raise
    if Path(sys.argv[0] if sys.argv else "").name == "taskq-sync":
        sys.exit(f"taskq-sync: {_NO_LIBPQ}")
    raise ImportError(_NO_LIBPQ) from None
