"""pac_bayes/epsilon_boston: bounds and risks against the accuracy goal (Fig. 2 and Table 1 of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Report, Request, Task, only_arrays
from gpsuite.experiments.pac_bayes.fits import (
    AGREEMENT,
    fit_tasks,
    paired_p,
    paired_shown,
    positive_shown,
    run_fit,
    shown_over,
)
from gpsuite.experiments.pac_bayes.methods import FULL, RISK_BOUND
from gpsuite.experiments.pac_bayes.tables import (
    METRICS,
    PANELS,
    dataset_statistics,
    records_frame,
    summarise_fits,
    wide_table,
)
from gpsuite.experiments.pac_bayes.tasks import FitTask, Goal, SplitSettings
from gpsuite.experiments.settings import Positive, filled, unique
from gpsuite.methods.pac_bayes.bounds import BoundObjective, Terms, certify
from gpsuite.methods.pac_bayes.posteriors import RiskAndKL
from gpsuite.reporting.comparison import Statistic, claim
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import panel
from gpsuite.reporting.tables import metric_statistics
from gpsuite.statistics.estimates import share, slopes
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import all_shown, shown_together
from gpsuite.text import counted

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class EpsilonSettings(SplitSettings):
    """Settings of the scan over accuracy goals.

    Attributes:
        epsilons: half-widths of the 0-1 band, in standard deviations of the target.
    """

    epsilons: Annotated[list[Positive], filled, unique]


def plan(request: Request[EpsilonSettings]) -> list[Task[FitTask]]:
    """Return one task per split, method and epsilon."""
    return fit_tasks(request, [Goal(epsilon=value) for value in request.settings.epsilons])


# What Reeb et al. (2018) say in words about Fig. 2, as statistics that decide it.


KL, SQRT, FULL_GP = "kl_pac_gp", "sqrt_pac_gp", "full_gp"
BOUNDS = {"kl": "kl", "sqrt": "square root", "quadratic": "quadratic, λ", "catoni": "Catoni, C = 1"}
COLLAPSED = 0.01  # KL/n in nats: below it the posterior has hardly left the prior
SLIGHTLY = 0.05  # "only slightly below" in test risk


def boston_claims(frame: pd.DataFrame, delta: float) -> list[Statistic]:
    """Return a statistic per claim, as far as the methods present decide it.

    Args:
        frame: one row per method, epsilon and split.
        delta: confidence of the runs.
    """
    present = set(frame["method"])
    goals = [Paired(part, ["split"]) for _, part in frame.groupby("epsilon", sort=True)]
    found: list[Statistic] = []
    if {KL, FULL_GP} <= present:
        found += _against_full_gp(goals)
    if {KL, SQRT} <= present:
        found.append(claim("share_kl_preferable_to_sqrt", [_kl_preferable(goal) for goal in goals]))
    found += _trend_in_epsilon(frame, sorted(present & {KL, SQRT}))
    for method, name in ((KL, "kl"), (SQRT, "sqrt")):
        if method in present:
            kl = frame.loc[frame["method"] == method, "kl_over_n"]
            note = f"{(kl < COLLAPSED).sum()} of {len(kl)} runs with KL/n below {COLLAPSED}"
            found.append(Statistic.of(f"collapsed_share_{name}", share(kl < COLLAPSED), note=note))
    if KL in present:
        found.append(_weak_dependence_on_delta(frame[frame["method"] == KL], delta))
    return found


def _against_full_gp(goals: list[Paired]) -> list[Statistic]:
    bounds = [goal.pair("bound_kl", KL, FULL_GP) for goal in goals]
    lower = shown_together([paired_p(kl, full) for kl, full in bounds], [paired_p(full, kl) for kl, full in bounds])
    ratios = [float(full.mean() / kl.mean()) for kl, full in bounds]
    steps = np.diff(ratios)
    slight = []
    for goal in goals:
        kl, full = goal.pair("gibbs_risk_test", KL, FULL_GP)
        slight.append(0 < float((kl - full).mean()) < SLIGHTLY)
    return [
        claim("share_bound_below_full_gp", lower),
        Statistic.of(
            "bound_ratio_increases_with_epsilon",
            share(steps > 0),
            note=f"ratios {', '.join(f'{ratio:.2f}' for ratio in ratios)}",
        ),
        claim("bound_factor_above_two_share", [ratio > 2 for ratio in ratios]),
        claim("share_test_risk_slightly_above_full_gp", slight),
        claim("share_overfits_less_than_full_gp", [_overfits_less(goal) for goal in goals]),
        claim("share_underfits_in_all_five", [_underfits(goal) for goal in goals]),
    ]


def _overfits_less(goal: Paired) -> bool | None:
    """Return whether the full GP has the larger gap between test and training risk, and the lower training risk."""
    gap_full = goal("gibbs_risk_test", FULL_GP) - goal("gibbs_risk_train", FULL_GP)
    gap_kl = goal("gibbs_risk_test", KL) - goal("gibbs_risk_train", KL)
    both = np.isfinite(gap_full) & np.isfinite(gap_kl)
    return all_shown([paired_shown(gap_kl[both], gap_full[both]), bool(gap_full[both].mean() > 0)])


def _underfits(goal: Paired) -> bool:
    """Return whether kl-PAC-GP has higher risks, MSE and noise, and a lower KL, than the full GP on average."""
    higher = ("gibbs_risk_train", "gibbs_risk_test", "mse_test", "noise_variance")
    means = {name: [one.mean() for one in goal.pair(name, KL, FULL_GP)] for name in (*higher, "kl_over_n")}
    return all(means[name][0] > means[name][1] for name in higher) and means["kl_over_n"][0] < means["kl_over_n"][1]


def _kl_preferable(goal: Paired) -> bool | None:
    """Return whether kl learns a larger KL with better test risk and bound than sqrt, each significantly."""
    complexity = goal.pair("kl_over_n", SQRT, KL)
    risk = goal.pair("gibbs_risk_test", KL, SQRT)
    bound = goal.pair("bound_kl", KL, SQRT)
    return all_shown(paired_shown(*pair) for pair in (complexity, risk, bound))


def _trend_in_epsilon(frame: pd.DataFrame, methods: list[str]) -> Iterator[Statistic]:
    rises = []
    for method in methods:
        by_goal = Paired(frame[frame["method"] == method], ["split"], ["epsilon"])
        mse = by_goal.complete("mse_test")
        if mse.shape[0] < 2 or mse.shape[1] < 3:
            return  # a trend needs two splits and three goals
        rises.append(positive_shown(slopes(mse, by_goal.levels("epsilon"))))
    if rises:
        yield claim("mse_increases_with_epsilon", rises)


def _weak_dependence_on_delta(part: pd.DataFrame, delta: float) -> Statistic:
    """Largest change of a trained model's bound between delta ten times larger and ten times smaller."""
    deltas = [each for each in (10.0 * delta, delta, delta / 10.0) if each < 1.0]
    columns = ["gibbs_risk_train", "kl", "n_train", "n_hyperparameters"]
    changes = []
    for risk, kl, n, grid in part[columns].astype(float).to_numpy():
        bounds = [certify(RiskAndKL(risk, kl), Terms(int(n), int(grid), each)).bound_kl for each in deltas]
        changes.append(max(bounds) - min(bounds))
    return Statistic(
        "bound_change_with_delta", max(changes), n=len(part), note="largest, delta from a tenth to ten times"
    )


# Fig. 2 of Reeb et al. 2018: bounds, risks, KL and noise against the accuracy goal.


def other_bounds(frame: pd.DataFrame, delta: float, titles: Mapping[str, str]) -> pd.DataFrame:
    """Return what each bound says of the same trained posteriors, means over the splits.

    One row per method and epsilon. The quadratic bound is the lambda bound at its best lambda. Catoni's constant is
    fixed at 1 before the data are seen, so its penalty has only ln(1/delta).
    """
    import pandas as pd

    columns = ["gibbs_risk_train", "kl", "n_train", "n_hyperparameters"]
    rows = []
    for (method, epsilon), part in frame.groupby(["method", "epsilon"], sort=True):
        row: dict[str, object] = {"method": titles[str(method)], "ε": epsilon}
        for objective, heading in BOUNDS.items():
            values = [
                BoundObjective(objective, Terms(int(n), int(grid), delta)).value_and_gradient(risk, kl)[0]
                for risk, kl, n, grid in part[columns].astype(float).to_numpy()
            ]
            row[heading] = round(float(np.mean(np.minimum(values, 1.0))), 4)
        rows.append(row)
    return pd.DataFrame(rows)


def draw(report: Report[EpsilonSettings], tidy: pd.DataFrame, heading: str) -> None:
    """Draw the paper's five panels against epsilon: bars are means, ticks their standard errors."""
    goals = {goal: f"{goal:g}" for goal in sorted(tidy["epsilon"].unique())}
    with report.figure("epsilon_boston", rows=2, columns=3, size=(10.4, 6.6)) as drawing:
        for ax, name in zip(drawing.axes, PANELS, strict=False):
            part = tidy[tidy["metric"] == name]
            panel(ax, part, "epsilon", report.titles, kind="bars", ticks=goals)
            ax.set_title(metric(name).axis)
            ax.set_xlabel("accuracy goal ε (std. of target)")
        drawing.legend("above", columns=len(report.titles), title=heading)
        drawing.data = tidy[tidy["metric"].isin(PANELS)]


def summarise(report: Report[EpsilonSettings]) -> list[Statistic]:
    """Write the table and the five-panel figure. Return means and the paper's claims as statistics."""
    frame = records_frame(report.records())
    tidy = summarise_fits(frame, ["method", "epsilon"], METRICS)
    counts = frame.groupby(["method", "epsilon"]).size()
    held = f"bounds hold with probability {1 - report.settings.delta:g}"
    caption = f"Boston housing, {shown_over(counts)}; {held}"
    report.table(wide_table(tidy, ["epsilon", "method"], report.titles), "epsilon_boston", caption)
    report.table(tidy, "epsilon_boston_tidy", caption)
    bounds = other_bounds(frame, report.settings.delta, report.titles)
    same = f"Four bounds of the same posteriors, means over {counted(int(counts.min()), 'random split')}"
    each = f"each bound holds with probability {1 - report.settings.delta:g}, not all four at once"
    report.table(bounds, "epsilon_boston_bounds", f"{same}; {each}")
    several = f"bars: mean over {counts.min()} splits; ticks: standard error"
    draw(report, tidy, several if counts.min() > 1 else "bars: one random split")
    means = metric_statistics(tidy, ["method", "epsilon"], frame.sort_values("split"))
    return [*dataset_statistics(report.request), *means, *boston_claims(frame, report.settings.delta)]


EXPERIMENTS.register("pac_bayes/epsilon_boston")(
    Experiment(
        EpsilonSettings,
        plan,
        run_fit,
        summarise,
        method_traits=(RISK_BOUND, FULL),
        model_keys=("ard",),
        parts=("repetitions",),
        published=only_arrays("lengthscales"),  # all that is drawn. The other arrays are the model, for a certificate
        agreement=AGREEMENT,
    )
)
