"""active_learning/observation_ablation: one output per query against all of them (appendix J of Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.active_learning.ablation_settings import GP_SAMPLES, TOY, AblationSettings
from gpsuite.experiments.active_learning.campaign import FloatArray
from gpsuite.experiments.active_learning.claims import AL, paired, paired_share
from gpsuite.experiments.active_learning.curves import Curves
from gpsuite.experiments.active_learning.figures import draw_curves
from gpsuite.experiments.active_learning.generated_campaigns import EQUAL
from gpsuite.experiments.active_learning.methods import BUILDER, pipeline_params, titles
from gpsuite.experiments.active_learning.repetition import run_repetition
from gpsuite.experiments.active_learning.settings import Variation, repetition_tasks
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Record, Request, Task
from gpsuite.experiments.statistics import LEVEL, mean_statistic, share
from gpsuite.reporting.comparison import Statistic
from gpsuite.reporting.tables import mean_and_error, write_table

if TYPE_CHECKING:
    import pandas as pd

HEADINGS = {TOY: "sine and sigmoid", GP_SAMPLES: "draws from a multi-output GP"}
UNEQUAL_LABELS = {
    EQUAL: "outputs alike",
    "noise": "first output: 10 times the noise variance",
    "variance": "first output: 10 times the variance",
}


def plan(request: Request) -> list[Task]:
    """Return the repetitions of every pipeline on each dataset, and AL_MOGP's on toys with unequal outputs."""
    settings: AblationSettings = request.settings
    tasks: list[Task] = []
    if TOY in settings.sources:
        own = replace(request, settings=settings.toy_settings())
        source = settings.toy_settings().source()
        tasks += repetition_tasks(own, source, Variation({"source": TOY, "unequal": EQUAL}, label=TOY))
        for which in settings.unequal if AL in request.methods else []:
            changed = replace(source, params={**source.params, "unequal": which})
            axes: dict[str, str | int | float] = {"source": TOY, "unequal": which}
            label = f"{TOY}  unequal {which}"
            tasks += repetition_tasks(own, changed, Variation(axes, label=label), (AL,))
    if GP_SAMPLES in settings.sources:
        own = replace(request, settings=settings.gp_settings())
        variation = Variation({"source": GP_SAMPLES, "unequal": EQUAL}, label=GP_SAMPLES)
        tasks += repetition_tasks(own, settings.gp_settings().source(request), variation)
    return tasks


def summarise(request: Request, records: Sequence[Record], folder: Path, note: str | None) -> list[Statistic]:
    """Write errors and areas under the curves per dataset, and which output is queried where they are unequal."""
    settings: AblationSettings = request.settings
    names, ending = titles(request.methods), f" ({note})" if note else ""
    sets = {source: _curves(records, source, EQUAL, names) for source in settings.sources}
    sets = {source: curves for source, curves in sets.items() if curves.methods}
    partial = {
        name: pipeline_params(options)["queries"] == "partial" for name, options in request.methods.items()
    }
    full = [name for name, one_output in partial.items() if not one_output]
    for source, curves in sets.items():
        heading = f"{HEADINGS[source]}: one output per query, or all of them"
        name, units = f"observation_{source}", "output units"
        draw_curves(curves, names, folder / "figures", name, heading, units, (), note, dashed=full)
        caption = (
            f"{HEADINGS[source]}: mean RMSE over the common range of N_sum, mean ± standard error{ending}"
        )
        write_table(area_table(curves, names), folder / "tables", f"observation_{source}", caption)
    unequal = {
        which: _curves(records, TOY, which, names)
        for which in (EQUAL, *settings.unequal)
        if TOY in settings.sources
    }
    unequal = {which: curves for which, curves in unequal.items() if AL in curves.methods}
    if unequal:
        caption = f"{names[AL]} on sine and sigmoid: share of the queries that go to each output{ending}"
        write_table(share_table(unequal), folder / "tables", "observation_unequal", caption)
    return ablation_statistics(sets, partial, {k: v for k, v in unequal.items() if k != EQUAL})


def _curves(records: Sequence[Record], source: str, unequal: str, names: Mapping[str, str]) -> Curves:
    chosen = [r for r in records if r.axes["source"] == source and r.axes["unequal"] == unequal]
    return Curves.from_records(chosen, tuple(names))


def common_areas(curves: Curves) -> dict[str, FloatArray]:
    """Return each method's mean RMSE between the largest first and the smallest last N_sum of all [R]."""
    lines = {method: curves.curve(method, "rmse") for method in curves.methods}
    first = max(int(curve.n_sum[0]) for curve in lines.values())
    last = min(int(curve.n_sum[-1]) for curve in lines.values())
    return {method: curve.area(first, last) for method, curve in lines.items()}


def ablation_statistics(
    sets: Mapping[str, Curves], partial: Mapping[str, bool], unequal: Mapping[str, Curves]
) -> list[Statistic]:
    """Return on how many datasets AL_MOGP with single outputs has the smallest area, and how one-sided it gets.

    Args:
        sets: dataset -> curves of all pipelines.
        partial: method -> whether it measures one output per query.
        unequal: which inequality -> curves of AL_MOGP.
    """
    found, cells, undecided = [], [], ""
    for curves in sets.values():
        others = [method for method in curves.methods if method != AL]
        if AL in curves.methods and any(not partial[method] for method in others):
            areas = common_areas(curves)
            smaller = paired_share("", [paired(curves, AL, other, areas) for other in others], LEVEL)
            undecided = undecided or (smaller.note if np.isnan(smaller.value) else "")
            cells.append(smaller.value == 1.0)
    if undecided:
        found.append(Statistic("share_partial_most_efficient", float("nan"), n=0, note=undecided))
    elif cells:
        found.append(share("share_partial_most_efficient", cells))
    if unequal:
        largest = [float(query_shares(curves).mean(axis=0).max()) for curves in unequal.values()]
        shown = ", ".join(f"{which} {value:.2f}" for which, value in zip(unequal, largest, strict=True))
        found.append(Statistic("max_query_share_of_one_output", max(largest), n=len(largest), note=shown))
    return found


def query_shares(curves: Curves) -> FloatArray:
    """Return the share of AL_MOGP's queries that went to each of the two outputs, [R, 2]."""
    shares = [
        np.bincount(run.arrays["p"].astype(np.int64), minlength=2) / len(run.arrays["p"])
        for run in curves.runs[AL].values()
    ]
    return np.array(shares)


def area_table(curves: Curves, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the mean RMSE over the common range and at its end, one row per method."""
    import pandas as pd

    areas = common_areas(curves)
    rows = []
    for method, values in areas.items():
        area, curve = mean_statistic("", values), curves.curve(method, "rmse")
        last = mean_statistic("", curve.lines[:, -1])
        rows.append(
            {
                "method": names[method],
                "mean RMSE over N_sum": mean_and_error(area.value, area.standard_error),
                "last N_sum": int(curve.n_sum[-1]),
                "last RMSE": mean_and_error(last.value, last.standard_error),
                "repetitions": len(values),
            }
        )
    return pd.DataFrame(rows)


def share_table(unequal: Mapping[str, Curves]) -> pd.DataFrame:
    """Return the share of queries that went to each output, one row per inequality."""
    import pandas as pd

    rows = []
    for which, curves in unequal.items():
        shares = query_shares(curves)
        row: dict[str, object] = {"data": UNEQUAL_LABELS[which]}
        for p in range(shares.shape[1]):
            found = mean_statistic("", shares[:, p])
            row[f"output {p + 1}"] = mean_and_error(found.value, found.standard_error)
        rows.append({**row, "repetitions": len(shares)})
    return pd.DataFrame(rows)


EXPERIMENTS.register("active_learning/observation_ablation")(
    Experiment(
        AblationSettings,
        plan,
        run_repetition,
        summarise,
        builders=(BUILDER,),
        parts=("repetitions", "sources", "unequal"),
    )
)
