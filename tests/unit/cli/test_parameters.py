"""Sizes and weights as people write them."""

from __future__ import annotations

import click
import pytest

from taskq_sync.cli.parameters import size, weighted_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1000", 1000),
        ("7b", 7),
        ("1k", 1024),
        ("512MB", 512 * 1024**2),
        ("512 MiB", 512 * 1024**2),
        ("1.5GB", 3 * 512 * 1024**2),
        ("2t", 2 * 1024**4),
    ],
)
def test_a_size_has_a_unit_that_is_1024_times_the_one_before(text: str, expected: int) -> None:
    assert size(text) == expected


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1 XB", "1,5GB", "infMB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no size"):
        size(text)


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
