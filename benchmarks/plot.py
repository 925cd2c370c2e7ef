"""A picture of the ratios: a bar for each measure, its quartiles, and what it must reach."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import click

from benchmarks.figures import Figure, Machine

_REACHED, _MISSED, _UNSCORED = "#2a7f62", "#b3452c", "#7d8ca3"

#: Inches: of a bar, and of what stands around them.
_BAR, _AROUND = 0.26, 1.4


def require() -> None:
    """Raise `UsageError`, before anything is measured, if a picture cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise click.UsageError("--plot needs matplotlib: pip install 'taskq-sync[bench]'")


def write(figures: Sequence[Figure], where: Machine, path: str) -> None:
    """Write a PNG to *path* of the *figures* that have a ratio, the first on top."""
    from matplotlib.figure import Figure as Picture  # without pyplot: needs no display

    drawn = [figure for figure in figures if figure.ratio is not None]
    picture = Picture(figsize=(11, _AROUND + _BAR * max(1, len(drawn))), layout="constrained")
    axes = picture.subplots()
    for place, figure in enumerate(drawn):
        ratio = figure.ratio or 0.0
        spread = [[max(0.0, ratio - figure.q25)], [max(0.0, figure.q75 - ratio)]]
        axes.barh(place, ratio, height=0.7, color=_colour(figure), xerr=spread, ecolor="#222222", capsize=2)
        mark = _mark(figure)
        if mark is not None:
            axes.plot([mark] * 2, [place - 0.45, place + 0.45], color="black", linewidth=2)
    axes.set_yticks(range(len(drawn)), [figure.measure for figure in drawn], fontsize=8)
    axes.margins(y=0.01)
    axes.invert_yaxis()
    axes.axvline(1.0, color="#999999", linewidth=0.8, linestyle=":")
    axes.set_xlabel("ratio to the floor, with its quartiles; the line is what must be reached")
    axes.set_title(f"PostgreSQL {where.server}, Python {where.python}, {where.cpus} CPUs", fontsize=9)
    picture.savefig(path, format="png", dpi=110)


def _mark(figure: Figure) -> float | None:
    """Return the ratio that must be reached; the greatest value of a cost has one too, by the floor it met."""
    if figure.limit is None or figure.floor is None:
        return None
    return figure.limit if figure.limit_of == "ratio" else figure.floor / figure.limit


def _colour(figure: Figure) -> str:
    if figure.met is None:
        return _UNSCORED
    return _REACHED if figure.met else _MISSED
