"""What the demo reads of a file, and which files it reads."""

from __future__ import annotations

import hashlib

import pytest

from taskq_sync.demo.library import find_modules, index, library_folder

SOURCE = b"""
import os.path, sys
from collections import abc
from . import sibling

class Thing:
    def method(self):
        from json import loads
        async def inner(): ...
"""


def test_index_counts_what_a_file_defines(tmp_path):
    path = tmp_path / "thing.py"
    path.write_bytes(SOURCE)

    found = index(path)

    assert (found.path, found.size, found.lines) == (str(path), len(SOURCE), 9)
    assert found.sha256 == hashlib.sha256(SOURCE).hexdigest()
    assert (found.functions, found.classes) == (2, 1)
    assert found.imports == ["collections", "json", "os", "sys"]


@pytest.mark.parametrize("source", ["def broken(:\n", "x = '\0'\n"])
def test_index_of_a_file_that_does_not_parse_is_a_syntax_or_value_error(tmp_path, source):
    path = tmp_path / "bad.py"
    path.write_text(source)

    with pytest.raises((SyntaxError, ValueError)):
        index(path)


def test_find_modules_leaves_out_what_was_installed_or_compiled(tmp_path):
    for name in ("a.py", "b/c.py", "b/__pycache__/c.py", "site-packages/d.py", "b/notes.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()

    found = [each.relative_to(tmp_path).as_posix() for each in find_modules(tmp_path)]

    assert found == ["a.py", "b/c.py"]


def test_the_library_of_this_interpreter_is_big_enough():
    assert sum(1 for _ in find_modules(library_folder())) > 500
