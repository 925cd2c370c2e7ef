"""A fault that is made on purpose: one change of one file, and the test that is there to notice it."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen


@frozen(kw_only=True)
class Mutation:
    """In *file* the one place that reads *old* reads *new* instead; *says* is what a reviewer would call it."""

    name: str
    says: str
    file: str
    old: str
    new: str
    caught_by: str
    """A selection for pytest, as narrow as it goes: the test that must fail."""

    def places(self, root: Path) -> int:
        """Return how often *old* stands in the file below *root*: once, or the table is out of date."""
        return (root / self.file).read_text(encoding="utf-8").count(self.old)

    def apply(self, root: Path) -> str:
        """Make the fault below *root* and return the text of the file before."""
        path = root / self.file
        before = path.read_text(encoding="utf-8")
        path.write_text(before.replace(self.old, self.new), encoding="utf-8")
        return before
