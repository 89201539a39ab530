"""pac_bayes/kl_inverse: the inverse binary KL divergence (Fig. 4 of Reeb et al. 2018)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import EXPERIMENTS, Experiment, Outcome, Report, Request, SharedWork, Task, every_array
from gpsuite.experiments.settings import at_least, filled, not_negative, unique
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse
from gpsuite.reporting.comparison import Statistic

if TYPE_CHECKING:
    import pandas as pd


SLACK = 1e-12  # the accuracy promised of the inverse
STEP = 1e-3  # of the differences, as a share of the distance to the nearest edge


@dataclass
class KLInverseSettings:
    """Settings of the curves.

    Attributes:
        c_values: one curve each, in nats.
        grid_points: values of q in [0, 1], both edges included.
    """

    c_values: Annotated[list[Annotated[float, not_negative]], filled, unique]
    grid_points: Annotated[int, at_least(3)]


@dataclass(frozen=True)
class CurveTask:
    """The curve of one c, in nats, on so many values of q in [0, 1]."""

    c: float
    grid_points: int
    kind: str = "kl_inverse_curve"


def plan(request: Request[KLInverseSettings]) -> list[Task[CurveTask]]:
    """Return one task per curve."""
    settings = request.settings
    return [
        request.task(CurveTask(c, settings.grid_points), label=f"c {c:g}", axes={"c": c}, cost=0.05)
        for c in settings.c_values
    ]


def run(task: Task[CurveTask], shared: SharedWork) -> Outcome:
    """Compute one curve, count where it breaks a bound or an edge, and check its derivatives by differences."""
    c = task.params.c
    q = np.linspace(0.0, 1.0, task.params.grid_points)
    p = kl_inverse(q, c).p
    edges = [p[0] - -np.expm1(-c), p[-1] - 1.0, *(p - q if c == 0.0 else ())]
    metrics = {
        "above_pinsker": int((p > q + np.sqrt(c / 2.0) + SLACK).sum()),
        "above_one": int((p > 1.0).sum()),
        "off_edges": int((np.abs(edges) > SLACK).sum()),
        "start": float(p[0]),
        "derivative_error": derivative_error(q[1:-1], c) if c > 0.0 else None,  # infinite at c = 0
    }
    return Outcome(metrics, arrays={"q": q, "p": p}, headline=f"starts at {p[0]:.4f}")


def derivative_error(q: FloatArray, c: float) -> float | None:
    """Return the largest relative error of (12) and (13) against fourth-order differences of logit p.

    The logit keeps its digits where p is near 1. Where 1 - p underflows there is nothing to check, and None is
    returned if it does at every q.

    Args:
        q: empirical risks strictly inside (0, 1).
        c: in nats, above 0.
    """
    q = q[kl_inverse(q + 2.0 * STEP * (1.0 - q), c).one_minus_p > 0.0]
    if q.size == 0:
        return None
    found = kl_inverse(q, c)
    slope = found.p * found.one_minus_p  # of p in its logit
    in_q = _difference(lambda h: _logit(q + h, c + 0.0 * h), STEP * np.minimum(q, 1.0 - q))
    in_c = _difference(lambda h: _logit(q, c + h), np.full_like(q, STEP * c))
    errors = (in_q * slope / found.dp_dq - 1.0, in_c * slope / found.dp_dc - 1.0)
    return float(np.abs(errors).max())


def _logit(q: FloatArray, c: FloatArray) -> FloatArray:
    found = kl_inverse(q, c)
    return np.asarray(np.log(found.p) - np.log(found.one_minus_p), dtype=np.float64)


def _difference(function: Callable[[FloatArray], FloatArray], step: FloatArray) -> FloatArray:
    """Return the fourth-order central difference."""
    near = function(step) - function(-step)
    far = function(2.0 * step) - function(-2.0 * step)
    return np.asarray((8.0 * near - far) / (12.0 * step), dtype=np.float64)


def summarise(report: Report[KLInverseSettings]) -> list[Statistic]:
    """Write the table of edges and checks and the figure of the curves."""
    records = report.records()
    import pandas as pd

    rows = [{"c": record.axes["c"], **record.metrics} for record in records]
    labels = {
        "c": "c (nats)",
        "above_pinsker": "points above q + √(c/2)",
        "above_one": "points above 1",
        "off_edges": "edges off by more than 1e-12",
        "start": "kl⁻¹(0, c)",
        "derivative_error": "largest relative error of the derivatives",
    }
    caption = f"Inverse binary KL divergence on {report.settings.grid_points} values of q"
    report.table(pd.DataFrame(rows), "kl_inverse", caption, labels)
    curves = [
        pd.DataFrame({"c": record.axes["c"], "q": record.arrays["q"], "p": record.arrays["p"]}) for record in records
    ]
    _draw(report, pd.concat(curves, ignore_index=True))
    broken = sum(record.number(name) for record in records for name in ("above_pinsker", "above_one", "off_edges"))
    errors = [record.number("derivative_error") for record in records if record.metrics["derivative_error"] is not None]
    points = len(records) * report.settings.grid_points
    found = [Statistic("violations_of_pinsker", broken, n=points)]
    if errors:
        note = "fourth-order differences"
        found.append(Statistic("max_relative_derivative_error", max(errors), n=points, note=note))
    return found


def _draw(report: Report[KLInverseSettings], curves: pd.DataFrame) -> None:
    """Draw the paper's figure: curves for larger c lie higher; c = 0 is the diagonal."""
    values = sorted(curves["c"].unique())
    with report.figure("kl_inverse", size=(5.5, 4.6)) as drawing:
        import matplotlib as mpl

        colours = mpl.colormaps["viridis"](np.linspace(0.0, 0.85, len(values)))
        for c, colour in zip(values, colours, strict=True):
            part = curves[curves["c"] == c]
            drawing.ax.plot(part["q"], part["p"], color=colour, label=f"{c:g}")
        drawing.ax.legend(title="c (nats)", reverse=True, loc="lower right")
        drawing.ax.set_xlim(0.0, 1.0)
        drawing.ax.set_ylim(0.0, 1.02)
        drawing.name_axes("empirical risk q (probability)", "kl⁻¹(q, c) (probability)")
        drawing.data = curves


EXPERIMENTS.register("pac_bayes/kl_inverse")(
    Experiment(KLInverseSettings, plan, run, summarise, model_keys=(), published=every_array)
)
