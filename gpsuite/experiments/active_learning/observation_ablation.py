"""active_learning/observation_ablation: one output per query against all of them (appendix J of Li et al. 2022)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.active_learning.curves import AL, VALUE, Curves, draw_curves, errors, extreme, wilcoxon_claim
from gpsuite.experiments.active_learning.exploration import (
    KERNELS,
    GpRepetitions,
    RepetitionSet,
    RepetitionTask,
    repetition_tasks,
    run_repetition,
)
from gpsuite.experiments.active_learning.methods import PIPELINE, pipeline_params
from gpsuite.experiments.active_learning.repetitions import EQUAL, PAIRS, UNEQUAL_NOISE, UNEQUAL_VARIANCE
from gpsuite.experiments.active_learning.toy_tasks import ToyRepetitions
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, every_array, every_task
from gpsuite.experiments.settings import check_settings, filled, one_of
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.tables import estimate_text
from gpsuite.statistics.estimates import mean
from gpsuite.statistics.significance import LEVEL

if TYPE_CHECKING:
    import pandas as pd


TOY, GP_SAMPLES = "toy", "gp_samples"
INEQUALITIES = (UNEQUAL_NOISE, UNEQUAL_VARIANCE)


@dataclass
class ToySizes:
    """Sizes of the runs on sine and sigmoid. See `ToyRepetitions`.

    Attributes:
        form: of the sigmoid: paper or code.
        pool_rows: rows of the pool.
        state_iteration: after how many queries the state is drawn.
        iterations: queries per run.
        initial: rows to begin with.
    """

    form: str
    pool_rows: int
    state_iteration: int
    iterations: int
    initial: int


@dataclass
class GpSizes:
    """Sizes of the runs on draws from a multi-output GP. See `GpRepetitions`.

    Attributes:
        form: of the generator's kernel: paper or code.
        draws: functions drawn.
        pool_rows: rows of a pool.
        test_rows: rows to measure errors on.
        outputs: of the process.
        pool_members: pools per draw.
        iterations: queries per run.
        initial: rows to begin with.
    """

    form: str
    draws: int
    pool_rows: int
    test_rows: int
    outputs: int
    pool_members: int
    iterations: int
    initial: int


@dataclass
class AblationSettings:
    """Settings of the ablation: what both datasets share, and the sizes of each.

    Attributes:
        sources: datasets to run on, of toy and gp_samples.
        repetitions: repetitions per dataset, the same data for every pipeline.
        delta: a query must be safe with a probability above 1 - delta.
        inference: inference of the hyperparameters.
        particles: number of particles of sequential Monte Carlo.
        when_nothing_is_safe: `stop`, or query the `safest` point.
        unequal: also toy runs whose first output has 10 times the `noise` or the `variance`.
        toy: sizes of the toy runs.
        gp_samples: sizes of the gp_samples runs.
    """

    sources: Annotated[list[Annotated[str, one_of((TOY, GP_SAMPLES))]], filled]
    repetitions: int
    delta: float
    inference: str
    particles: int
    when_nothing_is_safe: str
    unequal: list[Annotated[str, one_of(INEQUALITIES)]]
    toy: ToySizes
    gp_samples: GpSizes

    def check(self) -> None:
        """Refuse what the runs on either dataset refuse."""
        check_settings(self.toy_settings())
        check_settings(self.gp_settings())

    def toy_settings(self) -> ToyRepetitions:
        """Return the settings of the runs on sine and sigmoid, those of active_learning/toy: they share records."""
        return ToyRepetitions(**self._shared(), **vars(self.toy))

    def gp_settings(self) -> GpRepetitions:
        """Return the settings of the runs on draws from a GP: those of active_learning/gp_samples."""
        return GpRepetitions(**self._shared(), **vars(self.gp_samples))

    def _shared(self) -> dict[str, Any]:
        names = ("repetitions", "delta", "inference", "particles", "when_nothing_is_safe")
        return {"offers": PAIRS, **{name: getattr(self, name) for name in names}}


def plan(request: Request[AblationSettings]) -> list[Task[RepetitionTask]]:
    """Return the repetitions of every pipeline on each dataset, and AL_MOGP's on toys with unequal outputs."""
    settings, seed = request.settings, request.seed
    tasks: list[Task[RepetitionTask]] = []
    if TOY in settings.sources:
        own = settings.toy_settings()
        variation = RepetitionSet({"source": TOY, "unequal": EQUAL}, label=TOY)
        tasks += repetition_tasks(request, own, own.source(seed), variation)
        for which in settings.unequal if AL in request.methods else []:
            variation = RepetitionSet({"source": TOY, "unequal": which}, label=f"{TOY}  unequal {which}")
            tasks += repetition_tasks(request, own, own.source(seed, which), variation, (AL,))
    if GP_SAMPLES in settings.sources:
        sizes = settings.gp_settings()
        variation = RepetitionSet({"source": GP_SAMPLES, "unequal": EQUAL}, label=GP_SAMPLES)
        tasks += repetition_tasks(request, sizes, sizes.source(seed), variation)
    return tasks


# What appendix J of Li et al. 2022 states about partial queries, as statistics.


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
            areas = curves.paired(common_areas(curves))
            smaller = wilcoxon_claim("", [areas.pair(VALUE, AL, other) for other in others], LEVEL)
            undecided = undecided or (smaller.note if np.isnan(smaller.value) else "")
            cells.append(smaller.value == 1.0 or (None if smaller.interval_high == 1.0 else False))
    if undecided:
        found.append(Statistic("share_partial_most_efficient", float("nan"), n=0, note=undecided))
    elif cells:
        found.append(claim("share_partial_most_efficient", cells))
    if unequal:
        shares = {which: [mean(output) for output in query_shares(each).T] for which, each in unequal.items()}
        shown = ", ".join(f"{which} {max(one.value, other.value):.2f}" for which, (one, other) in shares.items())
        outputs = [output for both in shares.values() for output in both]
        found.append(extreme("max_query_share_of_one_output", outputs, max, shown))
    return found


def query_shares(curves: Curves) -> FloatArray:
    """Return the share of AL_MOGP's queries that went to each of the two outputs, [R, 2]."""
    shares = [
        np.bincount(run.arrays["p"].astype(np.int64), minlength=2) / len(run.arrays["p"])
        for run in curves.runs[AL].values()
    ]
    return np.array(shares)


UNEQUAL_LABELS = {
    EQUAL: "outputs alike",
    "noise": "first output: 10 times the noise variance",
    "variance": "first output: 10 times the variance",
}


def area_table(curves: Curves, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the mean RMSE over the common range and at its end, one row per method."""
    import pandas as pd

    areas = common_areas(curves)
    rows = []
    for method, values in areas.items():
        area, curve = mean(values), curves.curve(method, "rmse")
        last = mean(curve.lines[:, -1])
        rows.append(
            {
                "method": names[method],
                "mean RMSE over N_sum": estimate_text(area),
                "last N_sum": int(curve.n_sum[-1]),
                "last RMSE": estimate_text(last),
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
            row[f"output {p + 1}"] = estimate_text(mean(shares[:, p]))
        rows.append({**row, "repetitions": len(shares)})
    return pd.DataFrame(rows)


HEADINGS = {TOY: "sine and sigmoid", GP_SAMPLES: "draws from a multi-output GP"}


def summarise(report: Report[AblationSettings]) -> list[Statistic]:
    """Write errors and areas under the curves per dataset, and which output is queried if they are unequal."""
    settings, names = report.settings, report.titles
    sets = {source: _curves(report, source, EQUAL) for source in settings.sources}
    sets = {source: curves for source, curves in sets.items() if curves.methods}
    methods = report.request.methods
    partial = {name: pipeline_params(options).queries == "partial" for name, options in methods.items()}
    dashed = {name: {"ls": "--"} for name, one_output in partial.items() if not one_output}
    for source, curves in sets.items():
        heading = f"{HEADINGS[source]}: one output per query, or all of them"
        draw_curves(report, curves, f"observation_{source}", heading, errors("output units"), styles=dashed)
        caption = f"{HEADINGS[source]}: mean RMSE over the common range of N_sum, mean ± standard error"
        report.table(area_table(curves, names), f"observation_{source}", caption)
    chosen = (EQUAL, *settings.unequal) if TOY in settings.sources else ()
    unequal = {which: _curves(report, TOY, which) for which in chosen}
    unequal = {which: curves for which, curves in unequal.items() if AL in curves.methods}
    if unequal:
        caption = f"{names[AL]} on sine and sigmoid: share of the queries that go to each output"
        report.table(share_table(unequal), "observation_unequal", caption)
    return ablation_statistics(sets, partial, {k: v for k, v in unequal.items() if k != EQUAL})


def _curves(report: Report[AblationSettings], source: str, unequal: str) -> Curves:
    return Curves.from_records(report.records(source=source, unequal=unequal), tuple(report.titles))


EXPERIMENTS.register("active_learning/observation_ablation")(
    Experiment(
        AblationSettings,
        plan,
        run_repetition,
        summarise,
        chaotic=every_task,
        method_traits=(PIPELINE,),
        model_keys=("kernel",),
        kernels=KERNELS,
        parts=("repetitions", "sources", "unequal"),
        published=every_array,
    )
)
