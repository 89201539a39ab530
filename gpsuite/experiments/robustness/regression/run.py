"""One point of robustness/regression: proved ranges of mean and quantiles, and the model's own values in the box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import BUDGET, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.regression.certificate import certify_ranges
from gpsuite.experiments.robustness.regression.models import RegressionProblem, build, trained_regression
from gpsuite.experiments.robustness.regression.plan import RangeTask
from gpsuite.experiments.robustness.shared.classifiers import numbers_of
from gpsuite.experiments.robustness.shared.stored_certificates import Certified
from gpsuite.methods.robustness.regression.prediction_range import MEAN, QuantileRange, prediction_range
from gpsuite.methods.robustness.search.regions import Region, box
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import stream

if TYPE_CHECKING:
    from gpflow.models import GPR, SGPR


def run(task: Task[RangeTask], shared: SharedWork) -> Outcome:
    """Bound the predictions around one point.

    Arrays: ranges [K, 5], for mean and quantiles the value at the point, lowest proved and attained, highest attained
    and proved, in the target's own units; certified [K, 2], what the certificate claims; moved [D], how far each
    input may be off, in its own units.
    """
    clock, params = Budget(seconds=task.budget_seconds), task.params
    problem, found, Z = trained_regression(task.require_dataset(), params.model, shared, task.budget_seconds)
    from gpsuite.models.regression.latent import regression_posterior

    model = build(problem, params.model.spec, found, Z)
    posterior = regression_posterior(model)
    region = uncertain_box(problem, params)
    levels = [MEAN, *params.quantiles]
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    ranges = prediction_range(
        posterior.latent, posterior.noise_variance, region, levels, params.tolerance, budget
    )
    own = np.array([own_units(problem, each) for each in ranges])
    certified = Certified({})
    if params.certificate_boxes:
        certified = certify_ranges(task, problem, posterior, region, ranges, clock.rest())
        own = _best_of_both(own, ranges, certified.arrays.get("certified", np.full((len(own), 2), np.nan)))
    metrics = {
        **_metrics(problem, params.point, own[0]),
        "noise_deviation": float(problem.target_scale * np.sqrt(found.noise_variance)),
        "boxes": sum(each.boxes for each in ranges),
        "outside": _outside(problem, model, found, region, own, levels, params),
        **certified.metrics,
    }
    moved = np.zeros(len(problem.inputs))
    moved[region.free] = (region.upper - region.start) * problem.input_scale[region.free]
    reason = next((each.status for each in ranges if each.status != "closed"), "")
    cut = any(side.status == "budget" for each in ranges for side in (each.minimum, each.maximum))
    status = BUDGET if cut else DONE  # done, too, where rounding leaves nothing to be searched
    if certified.out_of_time and not cut:
        status, reason = BUDGET, f"{task.budget_seconds:g} seconds used up, in the certificate"
    arrays = {"ranges": own, "moved": moved, **certified.arrays}
    headline = f"{own[0, 0]:.4g} in [{own[0, 1]:.4g}, {own[0, 4]:.4g}]"
    return Outcome(metrics, status, reason, arrays, headline)


def _metrics(problem: RegressionProblem, point: int, mean: FloatArray) -> dict[str, float]:
    """Return a test point's row, target and prediction, and how far its range [5] lets the prediction move."""
    change = float(max(mean[4] - mean[0], mean[0] - mean[1]))
    return {
        "row": int(problem.test_rows[point]),
        "target": float(problem.y_test[point]),
        "prediction": float(mean[0]),
        "largest_change": change,
        "relative_change": change / problem.target_scale,
        "target_deviation": problem.target_scale,
    }


def uncertain_box(problem: RegressionProblem, params: RangeTask) -> Region:
    """Return the box of what the inputs may be, standardised; levels of a category stay unless they are named."""
    named = np.array([problem.inputs.index(name) for name in params.uncertain], dtype=np.int64)
    places = named if len(named) else numbers_of(problem.inputs, problem.level_inputs)
    radii = np.zeros(len(problem.inputs))
    radii[places] = np.array(params.within) / problem.input_scale[places] if params.within else params.radius
    return box(problem.X_test[params.point], radii)


def own_units(problem: RegressionProblem, found: QuantileRange) -> FloatArray:
    """Return centre, lowest proved and attained, highest attained and proved [5], in own units, outwards."""
    # the point's own value is attained, too; both are known up to rounding
    lowest, highest = min(found.lowest, found.centre), max(found.highest, found.centre)
    values = [found.centre, found.lowest_proved, lowest, highest, found.highest_proved]
    return problem.own_units(np.array(values), outward=np.array([0.0, -1.0, 1.0, -1.0, 1.0]))


def _best_of_both(own: FloatArray, ranges: Sequence[QuantileRange], certified: FloatArray) -> FloatArray:
    """Return ranges [K, 5] with the certificate's ends [K, 2] where its bound is better than a search cut short."""
    cut = np.array([each.status != "closed" for each in ranges])
    found = own.copy()
    found[cut, 1] = np.fmax(own[cut, 1], certified[cut, 0])
    found[cut, 4] = np.fmin(own[cut, 4], certified[cut, 1])
    return found


def _outside(
    problem: RegressionProblem,
    model: GPR | SGPR,
    found: Hyperparameters,
    region: Region,
    ranges: FloatArray,
    levels: list[float],
    params: RangeTask,
) -> int:
    """Return how many values of GPflow's own prediction at random points of the box lie outside the proved ranges.

    A thousandth of the target's deviation is allowed for GPflow's jitter of 1e-6 on the inducing covariance.
    """
    from gpsuite.models.regression.prediction import predict

    rng = stream(params.model.draw_seed, "samples", params.point)
    share = rng.choice([0.0, 0.5, 1.0], (params.samples, len(region.free)))
    share = np.where(rng.random((params.samples, 1)) < 0.5, share, rng.random(share.shape))
    points = region.embed(region.lower + share * (region.upper - region.lower))
    mean, variance = (part[:, 0] for part in predict(model, points))
    deviation, room = np.sqrt(variance + found.noise_variance), 1e-3 * problem.target_scale
    count = 0
    for level, row in zip(levels, ranges, strict=True):
        z = 0.0 if level == MEAN else float(ndtri(level))
        values = problem.own_units(mean + z * deviation)
        count += int(np.count_nonzero((values < row[1] - room) | (values > row[4] + room)))
    return count
