"""Tables of the toy problem's comparisons: inference, priors, cost of the likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.experiments.active_learning.shared.claims import AL
from gpsuite.experiments.active_learning.shared.curves import Curves
from gpsuite.experiments.active_learning.shared.figures import draw_curves
from gpsuite.experiments.active_learning.toy.parts import COST, Parts
from gpsuite.experiments.active_learning.toy.samplers import report_samplers
from gpsuite.experiments.active_learning.toy.settings import ToySettings
from gpsuite.experiments.base import Report
from gpsuite.reporting.metrics import metric
from gpsuite.reporting.palette import inference_style
from gpsuite.reporting.tables import mean_and_error, summarise_groups

if TYPE_CHECKING:
    import pandas as pd


METRICS = ("rmse", "log_density", "precision_noisy", "precision_true")


KINDS = {"smc": "full Bayes, SMC", "hmc": "full Bayes, HMC", "map": "MAP", "ml": "ML"}


def report_parts(report: Report[ToySettings], parts: Parts) -> None:
    """Write what each comparison found, and the figure of AL_MOGP by kind of inference."""
    kinds = {kind: curves for kind, curves in parts.inferences.items() if AL in curves.methods}
    if AL in parts.hmc.methods:
        kinds["hmc"] = parts.hmc
    title = report.titles.get(AL, AL)
    if len(kinds) > 1:
        frame = compared_table({KINDS[kind]: curves for kind, curves in kinds.items()}, "inference")
        caption = f"{title} by kind of inference; mean ± standard error"
        report.table(frame, "toy_kinds_of_inference", caption)
        _draw_kinds(report, kinds, title)
    report_samplers(report, parts.main, parts.hmc)
    priors = {f"{factor:g}": curves for factor, curves in parts.priors.items() if AL in curves.methods}
    if len(priors) > 1:
        caption = f"{title} with priors of the hyperparameters times a factor; mean ± standard error"
        report.table(compared_table(priors, "prior factor"), "toy_prior_sensitivity", caption)
    if COST in parts.checks:
        caption = "Milliseconds of one log likelihood with gradient, and log-log slopes"
        report.table(cost_table(parts), "toy_likelihood_timing", caption)


def compared_table(sets: Mapping[str, Curves], heading: str) -> pd.DataFrame:
    """Return AL_MOGP's metrics in each set at the first, middle and last N_sum of the second set."""
    import pandas as pd

    n_sums = [curves.curve(AL, "rmse").n_sum.tolist() for curves in sets.values()]
    shown = list(dict.fromkeys([n_sums[1][0], n_sums[1][len(n_sums[1]) // 2], n_sums[1][-1]]))
    rows = []
    for n_sum in shown:
        for (label, curves), known in zip(sets.items(), n_sums, strict=True):
            if n_sum not in known:
                continue
            row: dict[str, object] = {"N_sum": n_sum, heading: label}
            for name in METRICS:
                found = pd.DataFrame({"set": label, name: curves.curve(AL, name).at(n_sum)})
                line = summarise_groups(found, ["set"], [name]).iloc[0]
                row[metric(name).short_heading] = mean_and_error(line["mean"], line["standard_error"])
            rows.append({**row, "repetitions": len(curves.runs[AL])})
    return pd.DataFrame(rows)


def _draw_kinds(report: Report[ToySettings], kinds: Mapping[str, Curves], title: str) -> None:
    """Draw AL_MOGP's RMSE and precision, one curve per kind of inference over all its repetitions."""
    joined = Curves({kind: curves.runs[AL] for kind, curves in kinds.items()})
    titles = {kind: f"{KINDS[kind]}, {len(joined.runs[kind])} repetitions" for kind in kinds}
    styles = {kind: inference_style(kind) for kind in kinds}
    heading = f"sine and sigmoid: {title} by kind of inference"
    metrics = {
        "rmse": "RMSE (output units)",
        "precision_noisy": "precision of the safety model\n(by measured z)",
    }
    draw_curves(report, joined, "toy_kinds_of_inference", heading, metrics, titles=titles, styles=styles)


def cost_table(parts: Parts) -> pd.DataFrame:
    """Return milliseconds per likelihood of both models, their ratio, and the slopes from size to size."""
    import pandas as pd

    arrays = parts.checks[COST].arrays
    sizes, joint, independent = (arrays[name] for name in ("sizes", "seconds_free", "seconds_identity"))
    frame = pd.DataFrame({"N_sum": sizes, "LMC (ms)": 1e3 * joint, "independent GPs (ms)": 1e3 * independent,
                          "ratio": joint / independent})  # fmt: skip
    if len(sizes) > 1:
        for label, seconds in (("LMC", joint), ("independent GPs", independent)):
            slopes = np.diff(np.log(seconds)) / np.diff(np.log(sizes))
            frame[f"slope, {label}"] = [float("nan"), *slopes]
    return frame.round(4)
