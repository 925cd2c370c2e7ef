"""Which files count as the program, and what counts as a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskq_sync.cli.sources import Sources, places_of


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_that_are_written_made_and_removed_are_changed_once(folder: Path) -> None:
    written, removed = write(folder / "a.py"), write(folder / "b" / "b.py")
    sources = Sources([folder], without=folder / "db")
    assert sources.changed() == []
    written.write_text("x = 1")
    removed.unlink()
    made = write(folder / "b" / "c" / "c.py")
    assert sources.changed() == sorted([written, removed, made])
    assert sources.changed() == []


def test_what_is_not_the_program_is_left_out(folder: Path) -> None:
    write(folder / "venv" / "pyvenv.cfg")
    sources = Sources([folder], without=folder / "db")
    for name in ("venv/lib/a.py", ".tox/a.py", "node_modules/a.py", "db/a.py", "a.txt", "x/__pycache__/a.py"):
        write(folder / name)
    assert sources.changed() == []


def test_a_file_that_leads_nowhere_does_no_harm(folder: Path) -> None:
    (folder / "lock.py").symlink_to("nowhere")
    assert Sources([folder], without=folder).changed() == []


def test_packages_elsewhere_are_places_too_and_nothing_is_imported(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    package = write(elsewhere / "shop_package" / "__init__.py", "raise SystemExit").parent
    module = write(elsewhere / "shop_module.py", "raise SystemExit")
    monkeypatch.syspath_prepend(elsewhere)
    places = places_of(["shop_package.tasks", "shop_module:tq", "nowhere.at.all", "nowhere"])
    assert places == [folder, package, module]
    sources = Sources(places, without=folder)
    write(package / "tasks.py")
    module.write_text("tq = None")
    assert sources.changed() == sorted([package / "tasks.py", module])
