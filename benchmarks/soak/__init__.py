"""Soak: jobs of all kinds for a long time, while workers are killed and the server is restarted; then count.

    python -m benchmarks soak --minutes 10 --json

`schedule.py` says when what is killed, `mix.py` which jobs there are; `tasks.py` is what the workers run and
`application.py` the program they are started with. `producer.py` enqueues, `workers.py` keeps the worker processes
running, `ledger.py` is what handlers leave behind, `gauge.py` what the processes hold. `run.py` lets all this happen,
and `checker.py` counts at the end what must be 0. `report.py` is the object that comes out.
"""
