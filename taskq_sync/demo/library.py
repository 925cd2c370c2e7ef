"""What the demo reads: the Python standard library of the interpreter that runs it.

`find_modules` names the files, `index` reads one. Nothing here knows of jobs.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from attrs import field, frozen

#: Packages that were installed beside the library, and compiled files.
_FOREIGN = frozenset({"site-packages", "dist-packages", "__pycache__"})


@frozen(kw_only=True)
class Module:
    """What is known of one file. *imports* are the top-level packages that it imports, in order of the alphabet."""

    path: str
    size: int
    sha256: str
    lines: int
    functions: int
    classes: int
    imports: list[str] = field(repr=False)


def library_folder() -> Path:
    """Return the folder of the standard library."""
    return Path(sysconfig.get_paths()["stdlib"])


def find_modules(folder: Path) -> Iterator[Path]:
    """Return the `.py` files under *folder* that belong to the library itself, sorted within each folder."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(each for each in folders if each not in _FOREIGN)
        yield from (Path(parent, each) for each in sorted(files) if each.endswith(".py"))


def index(path: Path) -> Module:
    """Read one file.

    Raises `OSError` if it cannot be read, `SyntaxError` or `ValueError` if it does not parse.
    """
    source = path.read_bytes()
    functions = classes = 0
    imports: set[str] = set()
    for node in ast.walk(ast.parse(source, str(path))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            functions += 1
        elif isinstance(node, ast.ClassDef):
            classes += 1
        elif isinstance(node, ast.Import):
            imports.update(each.name.partition(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imports.add(node.module.partition(".")[0])
    return Module(
        path=str(path),
        size=len(source),
        sha256=hashlib.sha256(source).hexdigest(),
        lines=source.count(b"\n"),
        functions=functions,
        classes=classes,
        imports=sorted(imports),
    )
