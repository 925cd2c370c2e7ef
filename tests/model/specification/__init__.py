"""The product in plain Python: what every function of the contract answers, and what it leaves behind.

Read it to learn the rules; `model.machine` holds the database to them. The nouns are in `state.py`, the rules in
`producers.py`, `claims.py`, `settlements.py`, `operators.py` and `housekeeping.py`. No job depends on `presence.py` and
`observers.py`.
A method is the SQL function of its name, with the same arguments without `p_`, durations as timedeltas. It returns the
rows of the answer, perhaps with more columns than the answer has.

Calls come one after the other. What an open transaction means to others is the subject of `tests/races` and
`tests/properties`, input that is refused as such that of `tests/sql`, and who is notified that of both.

Where the database is free (the numbers of jobs and attempts, the jitter of a backoff, who is first of equals), the
specification looks at what it has chosen: `seen`, the jobs as they are after the call. It checks that it was free to.
"""

from model.specification.claims import Claims
from model.specification.housekeeping import Housekeeping
from model.specification.observers import Observers
from model.specification.presence import Presence
from model.specification.producers import Producers
from model.specification.state import Difference, Job, Refused, Row

__all__ = ["Difference", "Job", "Refused", "Row", "Specification"]


class Specification(Producers, Claims, Presence, Housekeeping, Observers):
    """The whole contract over one state."""
