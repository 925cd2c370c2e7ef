"""What is shipped: the list of packages, the dependencies, and the wheel away from the checkout."""

from __future__ import annotations

import ast
import configparser
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from taskq_sync.db.sqlfiles import shipped_files


@pytest.fixture(scope="module")
def setup_cfg(checkout: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(checkout / "setup.cfg")
    return parser


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the files that belong into it, with the setuptools that is installed."""
    copy = tmp_path_factory.mktemp("source")
    for name in ("taskq_sync", "sql"):
        shutil.copytree(
            checkout / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache")
        )
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(checkout / name, copy)
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", out, copy)
    return next(out.glob("*.whl"))


def run(*command: str | Path, cwd: Path | None = None) -> str:
    # Neither the checkout nor the environment of the tests may help.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=cwd, env=env, text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_package_list_names_every_folder(checkout, setup_cfg):
    folders = {path.parent.relative_to(checkout) for path in (checkout / "taskq_sync").rglob("*.py")}
    listed = set(setup_cfg["options"]["packages"].split())
    assert listed == {".".join(each.parts) for each in folders} | {"taskq_sync._sql"}


def test_dependencies_are_what_is_imported(checkout, setup_cfg):
    listed = {re.split(r"[\[<>=]", line)[0] for line in setup_cfg["options"]["install_requires"].split()}
    imported = {
        name.split(".")[0].replace("_", "-")
        for path in (checkout / "taskq_sync").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in names_of(node)
    }
    assert listed == imported - {*sys.stdlib_module_names, "taskq-sync", "typing-extensions", "--future--"}


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    return [node.module or ""] if isinstance(node, ast.ImportFrom) else []


def test_dependencies_and_extras_are_explained(checkout, setup_cfg):
    contributing = (checkout / "CONTRIBUTING.md").read_text(encoding="utf-8")
    names = [re.split(r"[\[<>=]", line)[0] for line in setup_cfg["options"]["install_requires"].split()]
    extras = list(setup_cfg["options.extras_require"])
    assert [each for each in names if f"| {each} |" not in contributing] == []
    assert [each for each in extras if f"| `{each}` |" not in contributing] == []


def test_the_wheel_holds_all_sql_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    files = shipped_files()
    every = (files.schema, *files.structure, *files.views, *files.functions, files.grants)
    assert {f"taskq_sync/_sql/{file.path}" for file in every} <= set(names)
    assert "taskq_sync/py.typed" in names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"taskq_sync"}


def test_the_wheel_works_away_from_the_checkout(wheel, tmp_path, empty_dsn):
    """Installed into an environment of its own, which borrows only the dependencies."""
    environment = tmp_path / "venv"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "-q", "--no-deps", wheel)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # Only plain entries: the finder of an editable installation would lead back to the checkout.
    (site / "borrowed.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    where = run(python, "-c", "import taskq_sync; print(taskq_sync.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(site)
    command = environment / "bin" / "taskq-sync"
    assert "installed" in run(command, "migrate", "--dsn", empty_dsn, cwd=tmp_path)
    assert (
        run(command, "enqueue", "t", "--dsn", empty_dsn, cwd=tmp_path) == "job 1 enqueued in queue default\n"
    )
    assert run(python, "-m", "taskq_sync", "--version", cwd=tmp_path).startswith("taskq-sync, version ")
