"""The page about workers names every event, and no other."""

from __future__ import annotations

import re

from kit.pages import ROOT
from taskq_sync.worker import events
from taskq_sync.worker.events import WorkerEvent


def test_every_event_is_in_the_table():
    text = (ROOT / "docs" / "workers.md").read_text(encoding="utf-8")
    table = text[text.index("| event | when |") :]
    listed = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row.split("|")[1] if "|" in row else "")
    ]
    kinds = [
        name
        for name, kind in vars(events).items()
        if isinstance(kind, type) and issubclass(kind, WorkerEvent) and kind is not WorkerEvent
    ]
    assert sorted(listed) == sorted(kinds)
