"""A PostgreSQL job queue for synchronous Python."""

from taskq_sync.version import __version__

__all__ = ["__version__"]
