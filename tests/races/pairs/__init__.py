"""Every two calls that touch one job, each of them first: what they do side by side is what they do one by one.

`verbs.py` is the table of the calls, `stages.py` of the places where the job stands when they meet. The first call
is made in a transaction that stays open and keeps its locks; the second is made beside it, and either waits for the
first, seen in `pg_stat_activity`, or returns. Then the first commits or rolls back. What both were answered and all
that is stored must be what comes out when the same calls are made one after the other, on a job of the same kind.
"""
