"""Stress the contract: sessions that call it at random, a watcher that samples it, a verdict over all answers.

    python -m tests.races.stress --dsn postgresql:///a_database_of_its_own --seconds 60 --sessions 8 --seed 7

With `--live 20` all sessions meet at the same few jobs; with `--rows 200 --unique 1` long batches have the same keys in
any order.

The database must be an empty one with the schema `taskq` installed, and the user its owner. A run is bounded by its
seconds and by the calls of a session. It prints its seed and figures, and ends with 1 if there are findings. The same
seed makes the same choices; which session comes first is left to chance.
"""
