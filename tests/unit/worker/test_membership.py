"""What a process is told about its supervisor."""

from __future__ import annotations

import os

import pytest

from taskq_sync.errors import ConfigError
from taskq_sync.worker.membership import VARIABLE, Membership


def test_is_read_once_so_that_programs_of_handlers_do_not_inherit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Membership(supervisor="host-1-ab", process=3, channel=7)
    monkeypatch.setenv(*told.to_environment().popitem())
    assert Membership.from_environment() == told
    assert VARIABLE not in os.environ
    assert Membership.from_environment() is None


@pytest.mark.parametrize("text", ["", "1", "{}", '{"supervisor": "a"}'])
def test_what_was_not_set_by_a_supervisor_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ConfigError, match=VARIABLE):
        Membership.from_environment()
