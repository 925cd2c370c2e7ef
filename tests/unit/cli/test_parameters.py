"""The types of options."""

from __future__ import annotations

import pytest

from taskq_sync.cli.parameters import weighted_names


@pytest.mark.parametrize(
    ("text", "weights"),
    [
        ("mail", {"mail": 1}),
        ("high:4, low:1", {"high": 4, "low": 1}),
        ("b,a,b,", {"b": 1, "a": 1}),
        ("mail/eu:west:2", {"mail/eu:west": 2}),
        ("shard:2:1,shard:3:1", {"shard:2": 1, "shard:3": 1}),
        (":2,a:b,a:", {":2": 1, "a:b": 1, "a:": 1}),
    ],
)
def test_only_digits_behind_the_last_colon_are_a_weight(text: str, weights: dict[str, int]) -> None:
    read = weighted_names(text)

    assert read == weights
    assert list(read) == list(weights)
