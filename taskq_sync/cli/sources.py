"""The Python files of a program, and whether somebody has changed one."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_Stamp = tuple[int, int, int]

#: Folders in which nobody edits the program.
_NOT_OURS = frozenset({"__pycache__", "node_modules", "site-packages"})


def places_of(modules: Iterable[str]) -> list[Path]:
    """Return the current folder, and where the top packages of *modules* lie; nothing is imported."""
    found = [Path.cwd()]
    for name in dict.fromkeys(module.partition(":")[0].partition(".")[0] for module in modules):
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is not None and spec.submodule_search_locations:
            found += (Path(folder).resolve() for folder in spec.submodule_search_locations)
        elif spec is not None and spec.origin is not None:
            found.append(Path(spec.origin).resolve())
    return [place for place in found if place == found[0] or not place.is_relative_to(found[0])]


class Sources:
    """The `.py` files in some folders, known by their time of change and size. Belongs to one thread."""

    def __init__(self, places: Iterable[Path], *, without: Path) -> None:
        """Look for the first time. *places* are folders and files; the folder *without* is left out."""
        self._places = tuple(places)
        self._without = without.resolve()
        self._known = self._stamps()

    def changed(self) -> list[Path]:
        """Return the files that were written, made or removed since the last look."""
        before, self._known = self._known, self._stamps()
        return sorted(
            path for path in before.keys() | self._known.keys() if before.get(path) != self._known.get(path)
        )

    def _stamps(self) -> dict[Path, _Stamp]:
        found = {}
        for path in self._files():
            try:
                status = path.stat()
            except OSError:  # it was removed just now, or leads nowhere
                continue
            found[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        return found

    def _files(self) -> Iterator[Path]:
        for place in self._places:
            if place.is_file():
                yield place
            for folder, names, files in os.walk(place):
                names[:] = [name for name in names if self._is_ours(Path(folder, name))]
                yield from (Path(folder, name) for name in files if name.endswith(".py"))

    def _is_ours(self, folder: Path) -> bool:
        return not (
            folder.name.startswith(".")
            or folder.name in _NOT_OURS
            or folder == self._without
            or (folder / "pyvenv.cfg").exists()
        )
