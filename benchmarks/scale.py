"""Workers that are far from the server, as on other machines: what a longer way costs a drain."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing

from benchmarks import distance
from benchmarks.benchmark import Benchmark, Incorrect, Measure, Scale
from benchmarks.drain import Drain
from benchmarks.site import Site, site
from benchmarks.workers import Workers

#: Added to each round trip, in milliseconds: the same building, the same region, the same continent.
ROUND_TRIPS = (0.5, 2.0, 10.0)

#: The least that must be left of the rate, by distance.
LIMITS = {2.0: 0.5}

PROCESSES = 2
SLOTS = 8
JOBS = 20_000


def benchmarks(place: Site, scale: Scale) -> Generator[Benchmark, None, None]:
    """Each distance against none. Workers with their default options, each in a database of its own."""
    jobs = scale.size(JOBS)
    with site(place.dsn) as near, closing(Workers(near.dsn, processes=PROCESSES, slots=SLOTS)) as local:
        for milliseconds in (2.0,) if scale.smoke else ROUND_TRIPS:
            with (
                distance.far(place.dsn, milliseconds / 1000) as far_dsn,
                closing(Workers(far_dsn, processes=PROCESSES, slots=SLOTS)) as remote,
            ):
                taken = distance.round_trip(far_dsn)
                if taken < milliseconds / 1000:
                    raise Incorrect(f"a round trip of {milliseconds:g} ms took {taken * 1000:.2f} ms")
                name = f"scale, drain, processes {PROCESSES}, {milliseconds:g} ms away"
                yield Benchmark(
                    measures=(
                        Measure(name=name, unit="jobs/s", limit=LIMITS.get(milliseconds)),
                        Measure(name=f"{name}, Python CPU per job", unit="us", cost=True),
                    ),
                    product=Drain(place, remote, jobs),
                    floor=Drain(near, local, jobs),
                )
