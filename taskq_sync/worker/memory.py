"""How much memory this process takes."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def resident_memory() -> int:
    """Return the bytes of memory that this process has in use, without its children.

    Where the system has no `/proc` it is the most that it has ever had.
    """
    try:
        return int(_STATM.read_text().split()[1]) * _PAGE
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
