"""The version of the package, which is also the version of the schema it installs."""

from __future__ import annotations

__version__ = "0.1.0"
