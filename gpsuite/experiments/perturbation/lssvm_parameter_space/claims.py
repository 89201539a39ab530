"""What the poster says about Fig. 2, as statistics that decide it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gpsuite.experiments.base import Record
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic
from gpsuite.statistics.estimates import finite, mean, share


def total(records: Sequence[Record], name: str) -> int:
    """Return the sum of a metric over the records that have it."""
    return sum(int(record.number(name)) for record in records if name in record.metrics)


def statements(records: Sequence[Record]) -> list[Statistic]:
    """Return what the poster claims of the rank's order, star-convexity, the ellipsoids, and the areas' ratio."""
    ours = [record for record in records if record.axes["model"] == "lssvm"]
    if not ours:
        return []
    order = [all(bool(r.metrics[name]) for r in ours) for name in ("holds_estimate", "excludes_far")]
    printed = [
        sum(bool(r.metrics[f"printed_{name}"]) for r in ours) for name in ("holds_estimate", "excludes_far")
    ]
    text = f"printed rule: holds the estimate in {printed[0]}, excludes the far point in {printed[1]} of {len(ours)}"
    ratios = finite([r.number("ellipsoid_area") / r.number("region_area") for r in ours])
    return [
        Statistic.of("share_corrected_rule_sensible", share(order), note=text),
        Statistic(
            "violations_of_star_convexity", total(records, "star_violations"), n=total(records, "segments")
        ),
        Statistic("members_outside_ellipsoid", total(ours, "outside_ellipsoid"), n=total(ours, "segments")),
        claim("share_radius_nested", nested(ours)),
        Statistic.of("ellipsoid_area_over_region_area", mean(ratios)),
    ]


def nested(records: Sequence[Record]) -> list[bool]:
    """Return, for each draw and step to the next smaller q, whether the radius is not smaller; None is infinite."""
    found = []
    for index in dict.fromkeys(record.axes["draw"] for record in records):
        own = [record for record in records if record.axes["draw"] == index]
        own.sort(key=lambda record: -int(record.axes["q"]))
        radii = [float("inf") if r.metrics["radius"] is None else r.number("radius") for r in own]
        found += [after >= before for before, after in pairwise(radii)]
    return found
