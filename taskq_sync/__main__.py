"""`python -m taskq_sync`: the command line without its script."""

from __future__ import annotations

from taskq_sync.cli import main

if __name__ == "__main__":
    main()
