"""pac_bayes/inducing_*: bounds and risks against the number of inducing inputs (Reeb et al. 2018, Fig. 3, Table 2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, only_arrays, require
from gpsuite.experiments.pac_bayes.fits import (
    AGREEMENT,
    KERNELS,
    paired_shown,
    run_fit,
    shown_over,
    sparse_fit,
    split_mean,
    split_tasks,
)
from gpsuite.experiments.pac_bayes.large_sets import BASELINES, FITC, KL, VFE, against_m, slopes_in_m
from gpsuite.experiments.pac_bayes.methods import RISK_BOUND, SPARSE
from gpsuite.experiments.pac_bayes.tables import (
    CERTIFICATES,
    METRICS,
    PANELS,
    dataset_statistics,
    records_frame,
    summarise_splits,
    timing_table,
    wide_table,
)
from gpsuite.experiments.pac_bayes.tasks import FitTask, SplitSettings
from gpsuite.experiments.settings import Count, Positive, filled, unique
from gpsuite.methods.pac_bayes.bounds import Terms, certify
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from gpsuite.reporting.comparison import Statistic, claim, statistic_name
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import BLACK, LIMIT, PAPER, panel
from gpsuite.reporting.tables import metric_statistics
from gpsuite.statistics.estimates import finite
from gpsuite.statistics.paired import Paired

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass
class InducingSettings(SplitSettings):
    """Settings of the scan over numbers of inducing inputs.

    Attributes:
        epsilon: half-width of the 0-1 band, in standard deviations of the target.
        inducing: numbers M of inducing inputs.
        other_kernel: methods trained also with the kernel that `model` does not name: ARD or a single lengthscale.
        other_kernel_inducing: the numbers M at which they are.
    """

    epsilon: Positive
    inducing: Annotated[list[Count], filled, unique]
    other_kernel: list[str]
    other_kernel_inducing: list[int]


def plan(request: Request[InducingSettings]) -> list[Task[FitTask]]:
    """Return one task per M, split, method and kernel, in the order of M: an interrupted run has whole columns."""
    settings = request.settings
    data, ard = request.require_dataset(), request.model.ard
    for name in settings.other_kernel:
        advice = f"not a method of this run\nvalid: other_kernel=[], or any of {', '.join(request.methods)}"
        require(name in request.methods, "other_kernel", name, advice)
    tasks = []
    for inducing in settings.inducing:
        also = settings.other_kernel if inducing in settings.other_kernel_inducing else []
        fits = [
            sparse_fit(name, options, inducing, data, chosen, settings.epsilon)
            for name, options in request.methods.items()
            for chosen in ((ard, not ard) if name in also else (ard,))
        ]
        tasks += split_tasks(request, fits)
    return tasks


# What Reeb et al. (2018) say in words about one dataset of Fig. 3 and Table 2, as statistics that decide it. What they
# say of all three is decided by pac_bayes/loss_exp, which holds the same fits.


SQRT = "sqrt_pac_sgp"
FACTORS = ((1.5, 2.5), (1.25, 2.05))
"""Ranges of the factor by which the bound is better, to their rounding: "roughly 2" (pol), "between 1.3 and 2"."""


def inducing_claims(frame: pd.DataFrame, kernel: str) -> list[Statistic]:
    """Return a statistic per claim, as far as the methods present decide it.

    Args:
        frame: one row per method, kernel, M and split.
        kernel: the experiment's kernel. The other one enters the comparison of the two only.
    """
    grid = against_m(frame[frame["kernel"] == kernel])
    methods = set(grid.levels("method"))
    found: list[Statistic] = []
    if KL in methods:
        found += _of_pac_sgp(grid)
        found += _kernels(frame)
    if {KL, *BASELINES} <= methods:
        found += _bound_factors(grid)
    if {KL, SQRT} <= methods:
        found.append(_kl_better_than_sqrt(grid))
    return found


def _of_pac_sgp(grid: Paired) -> Iterator[Statistic]:
    penalty, of_kl = grid("log_theta_per_point", KL), {"method": KL}
    yield Statistic("ln_theta_over_n", float(np.nanmax(penalty)), n=int(np.isfinite(penalty).sum()))
    if len(grid.levels("inducing")) < 2:
        return
    slope, complete = split_mean(100 * slopes_in_m(grid, "bound_kl", KL)), grid.complete("bound_kl", KL)
    yield Statistic.of(statistic_name("bound_slope_per_100", **of_kl), slope)
    yield Statistic.of(statistic_name("bound_drop", **of_kl), split_mean(complete[:, 0] - complete[:, -1]))


def _kernels(frame: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the share of cells in which one lengthscale per input is significantly better than a single one."""
    both = frame[frame["method"] == KL]
    if set(both["kernel"]) != {"se", "se_ard"}:
        return
    grid = Paired(both, ["split"], ["kernel", "inducing"])
    pairs = [
        grid.pair(metric, ("se_ard", m), ("se", m))
        for metric, m in product(("bound_kl", "mse_test"), grid.levels("inducing"))
    ]
    yield claim("share_ard_better", [paired_shown(ard, single) for ard, single in pairs if len(ard)])


def _bound_factors(grid: Paired) -> Iterator[Statistic]:
    """Yield the better baseline's bound over kl-PAC-SGP's at its least, and how often it is in a range."""
    better = np.minimum(grid("bound_kl", VFE), grid("bound_kl", FITC))
    per_split = better / grid("bound_kl", KL)
    ratios = np.minimum(grid.mean("bound_kl", VFE), grid.mean("bound_kl", FITC)) / grid.mean("bound_kl", KL)
    numbers = grid.levels("inducing")
    note = ", ".join(f"M={m}: {ratio:.2f}" for m, ratio in zip(numbers, ratios, strict=True))
    least = split_mean(finite(per_split[:, np.argmin(ratios)])).moved_to(float(ratios.min()))
    yield Statistic.of("min_bound_factor", least, note=note)
    for low, high in FACTORS:
        name = statistic_name("share_bound_factor_within", low=low, high=high)
        yield claim(name, (low <= ratios) & (ratios <= high), note)


def _kl_better_than_sqrt(grid: Paired) -> Statistic:
    pairs = [
        grid.pair(metric, (KL, m), (SQRT, m))
        for metric, m in product(("bound_kl", "gibbs_risk_test", "mse_test"), grid.levels("inducing"))
    ]
    return claim("share_kl_better_than_sqrt", [(kl - sqrt).mean() <= 0 for kl, sqrt in pairs if len(kl)])


# Fig. 3 of Reeb et al. 2018: bounds, risks and errors against M.


KERNEL_TITLES = {"se": "one lengthscale", "se_ard": "ARD"}
STYLES = {"vfe_fitc_posterior": {"linestyle": "--"}}  # the training of another line
PRINTED_FACTORS = {"pol": (2.0, 2.0), "kin40k": (1.3, 2.0), "sarcos": (3.0, 3.0)}
"""The better baseline's bound over kl-PAC-SGP's as Sec. 4(c) prints it: roughly 2, 1.3 to 2, and more than 3."""


def draw(report: Report[InducingSettings], tidy: pd.DataFrame, name: str, heading: str) -> None:
    """Draw the paper's five panels against the number of inducing inputs, and the bounds' factor next to its own.

    Means and their standard errors. The factor is that of the means.
    """
    import pandas as pd

    factors = factor_frame(tidy)
    printed = PRINTED_FACTORS.get(report.request.require_dataset().name) if report.comparable else None
    with report.figure(name, rows=2, columns=3, size=(10.4, 7.0)) as drawing:
        for ax, shown in zip(drawing.axes, PANELS, strict=False):
            panel(ax, tidy[tidy["metric"] == shown], "inducing", report.titles, styles=STYLES)
            ax.set_xticks(sorted(tidy["inducing"].unique()))
            ax.set_xlabel("inducing inputs M")
            # the margin of a narrow range would cut the highest marker
            ax.set_ylim(0.0, max(ax.get_ylim()[1], 1.06 * ax.dataLim.y1))
            ax.set_title(metric(shown).axis)
        _draw_factors(drawing.axes[-1], factors, printed)
        drawing.legend("above", columns=3, title=heading)
        drawing.data = pd.concat([tidy[tidy["metric"].isin(PANELS)], factors], ignore_index=True)
        if printed:
            drawing.data = drawing.data.assign(printed_low=printed[0], printed_high=printed[1])


def factor_frame(tidy: pd.DataFrame) -> pd.DataFrame:
    """Return by M the smaller of VFE's and FITC's mean bounds over kl-PAC-SGP's. Empty without all three."""
    import pandas as pd

    bounds = tidy[tidy["metric"] == "bound_kl"].pivot_table(index="inducing", columns="method", values="mean")
    if not {KL, VFE, FITC} <= set(bounds):
        return pd.DataFrame(columns=["inducing", "metric", "mean"])
    factors = bounds[[VFE, FITC]].min(axis=1) / bounds[KL]
    return pd.DataFrame({"inducing": factors.index, "metric": "bound_factor", "mean": factors.to_numpy()})


def _draw_factors(ax: Axes, factors: pd.DataFrame, printed: tuple[float, float] | None) -> None:
    if factors.empty:
        return
    ax.plot(factors["inducing"], factors["mean"], color=BLACK, marker="o")
    if printed:
        for value in dict.fromkeys(printed):
            ax.plot(factors["inducing"], [value] * len(factors), "o:", ms=9, mfc="none", color=LIMIT, label=PAPER)
    ax.set_xticks(sorted(factors["inducing"].unique()))
    ax.set_xlabel("inducing inputs M")
    ax.axhline(1.0, color=LIMIT, linewidth=1.0)  # equal bounds
    ax.set_title("B_kl: min(VFE, FITC) / kl-PAC-SGP")


COST = "CPU seconds and evaluations per training, mean over the splits. Trainings shared by two rows are in the first"
CHOICE = "M chosen per split by the smallest bound. The bound includes ln(number of M tried) for the choice"
SELECTED = ("bound_of_choice", "bound_kl", "chosen_m", "gibbs_risk_test", "mse_test")


def summarise(report: Report[InducingSettings]) -> list[Statistic]:
    """Write the tables and the five panels against M. Return means and the paper's claims as statistics."""
    request, settings, titles, records = report.request, report.settings, report.titles, report.records()
    frame, name = records_frame(records), request.experiment.split("/")[1]
    metrics = [*METRICS, *CERTIFICATES]
    tidy = summarise_splits(frame, ["inducing", "kernel", "method"], metrics)
    shown = shown_over(frame.groupby(["inducing", "kernel", "method"]).size())
    caption = (
        f"{request.require_dataset().name}, ε = {settings.epsilon:g}: {shown}. "
        f"Bounds hold with probability {1 - settings.delta:g}"
    )
    by, further = ["inducing", "kernel", "method"], tidy["metric"].isin(CERTIFICATES)
    report.table(wide_table(tidy[~further], by, titles), name, caption)
    report.table(wide_table(tidy[further], by, titles), f"{name}_certificates", caption)
    report.table(tidy, f"{name}_tidy", caption)
    report.table(timing_table(records, by, titles), f"{name}_timing", COST)
    kernel = KERNELS[request.model.ard]
    chosen = summarise_splits(selected(frame[frame["kernel"] == kernel], settings.delta), ["method"], list(SELECTED))
    report.table(wide_table(chosen, ["method"], titles), f"{name}_selected", f"{caption}; {CHOICE}")
    heading = f"{request.require_dataset().name}, {KERNEL_TITLES[kernel]}: {shown}"
    if len(tidy["inducing"].unique()) > 1:  # nothing is seen of one number of inducing inputs
        draw(report, tidy[tidy["kernel"] == kernel], name, heading)
    means = metric_statistics(tidy, ["method", "kernel", "inducing"])
    return [*dataset_statistics(request), *means, *inducing_claims(frame, kernel)]


def selected(frame: pd.DataFrame, delta: float) -> pd.DataFrame:
    """Return, per method and split, the M whose bound is smallest, with the bound that accounts for choosing it.

    A union bound over the numbers tried: ln(how many) enters the penalty, so that the bound of the M chosen on the
    training data holds with probability 1 - delta.
    """
    tried = frame["inducing"].nunique()
    best = frame.loc[frame.groupby(["method", "split"])["bound_kl"].idxmin()].copy()
    columns = ["gibbs_risk_train", "kl", "n_train", "n_hyperparameters"]
    best["bound_of_choice"] = [
        certify(RiskAndKL(risk, kl), Terms(int(n), int(t), delta, n_settings=tried)).bound_kl
        for risk, kl, n, t in best[columns].astype(float).to_numpy()
    ]
    return best.assign(chosen_m=best["inducing"].astype(float))


for _name in ("inducing_pol", "inducing_kin40k", "inducing_sarcos"):
    EXPERIMENTS.register(f"pac_bayes/{_name}")(
        Experiment(
            InducingSettings,
            plan,
            run_fit,
            summarise,
            method_traits=(RISK_BOUND, SPARSE),
            model_keys=("ard",),
            dataset_tasks=("regression",),
            parts=("repetitions", "inducing", "methods", "other_kernel_inducing"),
            published=only_arrays(
                "lengthscales"
            ),  # all that is drawn. The other arrays are the model, for a certificate
            agreement=AGREEMENT,
        )
    )
