"""What a run of perturbation/region shows of its records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.data.loading import load
from gpsuite.experiments.base import Record, Report, Request
from gpsuite.experiments.perturbation.region.figures import draw
from gpsuite.experiments.perturbation.region.plan import region_tasks
from gpsuite.experiments.perturbation.region.problem import split_rows
from gpsuite.experiments.perturbation.region.run import CANDIDATES
from gpsuite.experiments.perturbation.region.settings import MODELS, RegionSettings
from gpsuite.experiments.sentences import band_holds
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.estimates import proportion

if TYPE_CHECKING:
    import pandas as pd


LABELS = {
    "confidence": "1 - q/m",
    "radius": "ellipsoid radius",
    "members": "members sampled",
    "n": "data",
    "coefficients": "p",
}


def summarise(report: Report[RegionSettings]) -> list[Statistic]:
    """Write sizes of regions and bands and the ranks of candidates; draw the bands along one input."""
    records, caption = report.records(), _caption(report.request)
    sizes = size_table(records, report.settings)
    report.table(sizes, "region", caption, LABELS)
    candidates = candidate_table(records, report.settings)
    report.table(candidates, "region_candidates", f"{caption}; which functions are members")
    report.answer.extend(_sentences(report))
    draw(report)
    outside = int(sizes["members_outside_ellipsoid"].sum())
    found = [Statistic("members_outside_ellipsoid", outside, n=int(sizes["members"].sum()))]
    levels = [(record, q) for record in records for q in report.settings.excluded]
    for (record, q), (_, row) in zip(levels, sizes.iterrows(), strict=True):
        axes = {"model": row["model"], "q": row["q"]}
        width = statistic_name("pointwise_width", **axes)
        found.append(Statistic(width, float(row["pointwise_width"]), n=int(row["n"])))
        seen = record.metrics.get(f"rays_{q}")  # where the seconds ended
        if rays := report.settings.rays if seen is None else int(seen):
            unbounded = proportion(round(float(row["unbounded_share"]) * rays), rays)
            found.append(Statistic.of(statistic_name("unbounded_share", **axes), unbounded))
    return found


def _sentences(report: Report[RegionSettings]) -> Iterator[str]:
    """Yield what the widest band of each model says."""
    data = load(report.request.require_dataset())
    q, target = min(report.settings.excluded), data.target_names[0]
    for params in region_tasks(report.request):
        merged = split_rows(data, params).merged
        if merged:
            how = (
                "copies of others"
                if params.model == "lssvm_linear"
                else "of an input that others have: averaged"
            )
            yield f"{MODELS[params.model]}: {merged} of {len(data.X)} rows are {how}."
    for record in report.records():
        confidence, width = 1.0 - q / report.settings.m, mean_width(record, q)
        yield band_holds(confidence, str(record.axes["model"]), width, target, report.settings.group)


def mean_width(record: Record, q: int) -> float | None:
    """Return the mean width of the pointwise band of confidence 1 - q/m; None where it is unbounded."""
    name = f"pointwise_width_{q}"
    return None if record.metrics[name] is None else record.number(name)


def size_table(records: Sequence[Record], settings: RegionSettings) -> pd.DataFrame:
    """Return one row per model and level; infinite sizes where the region is unbounded."""
    import pandas as pd

    rows = []
    for record in records:
        for q in settings.excluded:
            row: dict[str, object] = {"model": MODELS[str(record.axes["model"])], "q": q, "m": settings.m}
            row["confidence"] = 1.0 - q / settings.m
            for name in ("radius", "pointwise_width", "ellipsoid_width"):
                row[name] = np.inf if record.metrics[f"{name}_{q}"] is None else record.number(f"{name}_{q}")
            row["unbounded_share"] = record.number(f"unbounded_share_{q}")
            for name in ("members", "members_outside_ellipsoid"):
                row[name] = int(record.number(f"{name}_{q}"))
            row |= {name: int(record.number(name)) for name in ("n", "coefficients")}
            rows.append(row)
    return pd.DataFrame(rows)


def candidate_table(records: Sequence[Record], settings: RegionSettings) -> pd.DataFrame:
    """Return rank and membership of each candidate function; a candidate is a member where rank <= m - q."""
    import pandas as pd

    rows = []
    for record in records:
        for name, rank in zip(CANDIDATES, record.arrays["ranks"], strict=True):
            member = {
                f"member at {1.0 - q / settings.m:g}": "yes" if rank <= settings.m - q else "no"
                for q in settings.excluded
            }
            rows.append(
                {"model": MODELS[str(record.axes["model"])], "function": name, "rank": int(rank), **member}
            )
    return pd.DataFrame(rows)


def _caption(request: Request[RegionSettings]) -> str:
    data = request.require_dataset()
    name = data.shown_name
    target = load(data).target_names[0]
    return (
        f"{name}: regions for the noise's {request.settings.group}, widths in units of {target}; exact if the function "
        "is in the model's span"
    )
