"""What Reeb et al. (2018) say about the exponential loss (Table 3), as statistics that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from gpsuite.experiments.pac_bayes.shared.splits import paired_p, split_mean
from gpsuite.reporting.claims import claim
from gpsuite.reporting.comparison import Statistic, statistic_name
from gpsuite.statistics.paired import Paired
from gpsuite.statistics.significance import LEVEL

if TYPE_CHECKING:
    import pandas as pd


BAND, EXP, LIKELIHOOD = "band01", "exp", "likelihood"  # what a model was trained on


KL, BASELINES = "kl_pac_sgp", ("vfe", "fitc")


TOGETHER = {"pol", "kin40k"}  # the sets of Table 3 that are to be had in full


LITTLE = 10.0  # percent: "little change"


# dataset of Table 3 -> whether a change of the MSE in percent is what the paper says of it
CLAIMED = {
    "pol": lambda change: change < 0,
    "kin40k": lambda change: change > 0,
    "sarcos": lambda change: abs(change) < LITTLE,
}


def mse_changes(frame: pd.DataFrame) -> dict[tuple[str, int], Statistic]:
    """Return (dataset, M) -> change of kl-PAC-SGP's test MSE in percent, (exponential - band)/band.

    The mean over the splits of each split's change, with its paired interval.

    Args:
        frame: one row per dataset, M, method, loss trained on, and split.
    """
    found = {}
    of_kl = frame[frame["method"] == KL]
    for dataset, inducing in sorted(set(zip(of_kl["dataset"], of_kl["inducing"], strict=True))):
        part = of_kl[(of_kl["dataset"] == dataset) & (of_kl["inducing"] == inducing)]
        if {BAND, EXP} <= set(part["trained_on"]):
            band, exp = Paired(part, ["split"], ["trained_on"]).pair("mse_test", BAND, EXP)
            name = statistic_name("mse_change_percent", dataset=dataset, inducing=inducing)
            change = split_mean(100.0 * (exp - band) / band)
            found[dataset, int(inducing)] = Statistic.of(name, change, unit="percent")
    return found


def exponential_claims(frame: pd.DataFrame) -> list[Statistic]:
    """Return a statistic per claim, at the largest M of the frame, as far as methods and datasets decide it.

    Shares over other datasets than the paper's three name theirs, so that they are no answer to the paper's.

    Args:
        frame: one row per dataset, M, method, loss trained on, and split.
    """
    largest = int(frame["inducing"].max())
    last = frame[frame["inducing"] == largest]
    return [*_changes(last, largest), *_guarantees(last)]


def _changes(last: pd.DataFrame, largest: int) -> Iterator[Statistic]:
    """Yield the change on every dataset, and the share of the paper's datasets where it is as claimed.

    The printed changes are of one M, which the text lost: those of pol and kin40k are told only together.
    """
    found = {dataset: change for (dataset, _), change in mse_changes(last).items()}
    for dataset, change in found.items():
        if dataset not in TOGETHER or found.keys() >= TOGETHER:
            yield replace(
                change, name=statistic_name("mse_change_percent", dataset=dataset), note=f"M={largest}"
            )
    holds = {name: bool(CLAIMED[name](change.value)) for name, change in found.items() if name in CLAIMED}
    if holds:
        yield claim(_over("share_mse_changes_as_claimed", list(holds)), holds.values())


def _guarantees(last: pd.DataFrame) -> Iterator[Statistic]:
    """Yield the share of (dataset, baseline) whose bound under the exponential loss PAC-SGP undercuts."""
    names, cells, factors = [], [], []
    for dataset, part in last[last["trained_on"] != BAND].groupby("dataset", sort=True):
        if not {KL, *BASELINES} <= set(part["method"]):
            continue
        names.append(str(dataset))
        paired = Paired(part, ["split"])
        for baseline in BASELINES:
            ours, theirs = paired.pair("bound_kl_exp", KL, baseline)
            cells.append(paired_p(ours, theirs) < LEVEL)
            if len(ours):
                factors.append(f"{dataset} {baseline} {theirs.mean() / ours.mean():.2f}")
    if cells:
        note = f"bound of the baseline over ours: {', '.join(factors)}"
        yield claim(_over("share_bound_lowest", names), cells, note)


def _over(name: str, datasets: list[str]) -> str:
    """Return the name alone for the paper's datasets, else with the datasets."""
    return name if set(datasets) == set(CLAIMED) else statistic_name(name, datasets="+".join(datasets))
