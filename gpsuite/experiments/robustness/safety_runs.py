"""One point of robustness/safety: range, verdict, attack and certificate, and the checks of the paper's statements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit, ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import load
from gpsuite.experiments.base import BUDGET, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.classifiers import (
    Classifier,
    Problem,
    task_classifier,
    trained_classifier,
    unconverged_is_diverged,
)
from gpsuite.experiments.robustness.judging import Judged, Limits, Point, certificate_origin, classes_of, named
from gpsuite.experiments.robustness.records import Certified, stored, too_large
from gpsuite.experiments.robustness.safety_tasks import CheckTask, PointTask, point_region
from gpsuite.experiments.robustness.tasks import Metrics
from gpsuite.methods.robustness.class_probability import probability_bounds
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import cell_mass_bounds, cell_probability_bounds
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.point_search import PointSearch, build_bound, probability_range
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import ClassRange
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import Link
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import stream

ROUNDING = 1e-9  # of a class probability
UNTIMED = [0, 2, 3]  # columns of a trace: boxes, inner and outer
CELLS = (10, 100, 1000)
BOXES = 40  # sub-boxes of the region on which the closed form is compared with Prop. 1
PERTURBATIONS = ((0.0, 0.0), (0.3, 0.0), (-0.3, 0.2), (0.0, -0.2))  # of log variance and log lengthscales
CANDIDATE_ROWS = 40  # of the classifier on which the paper's bound runs with and without its candidates
CANDIDATE_EPS, CANDIDATE_BOXES = 0.1, 500  # tolerance and limit of these searches
INVERSES = {"probit": ndtri, "logistic": logit}


@unconverged_is_diverged
def run_point(task: Task[PointTask], shared: SharedWork) -> Outcome:
    """Judge and certify one point."""
    clock, params, dataset = shared.budget(task.budget_seconds), task.params, task.require_dataset()
    classifier = trained_classifier(dataset, params.model, shared, task.budget_seconds)
    problem, rows = classifier.problem, load(dataset).X
    chosen, region = point_region(problem, rows, params, classifier.posterior.lengthscales)
    searches = classes_of(classifier).around(region.centre, region.free, params.bound)
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    judged = searches.judge(region, Limits(params.tolerance, params.starts, params.point), budget)
    reason = _limit(judged, task.budget_seconds)
    certified, fault = Certified({}), uncertified(classifier)
    if params.certificate_boxes and fault:
        certified = Certified({"uncertified": fault})
    elif params.certificate_boxes:
        origin = certificate_origin(dataset, classifier, int(problem.test_rows[params.point]), region)
        judged, proof = searches.certify(judged, region, params.certificate_boxes, clock.rest(), origin)
        claims = {"certified_min": proof.lowest, "certified_max": proof.highest}
        proved = {**claims, "certificate_decides": proof.decides}
        certified = Certified(proved, stored(proof.description, proof.arrays), proof.out_of_time)
    if certified.out_of_time and not judged.limits:
        reason = f"{task.budget_seconds:g} seconds used up, in the certificate"
    known = dict(judged.known)
    margin = {name: known.pop(name) for name in ("margin_proved",) if name in known}
    metrics: Metrics = {
        **identity(problem, params.point, searches),
        **known,
        "chosen_by": chosen.by,
        "free_inputs": len(chosen.inputs),
        "verdict": _verdict(judged),
        "why": named(judged.verdict.reason, classifier.labels),
        **margin,
        **_range_metrics(judged),
        **judged.attack,
        **certified.metrics,
    }
    arrays = _arrays(judged, region, rows[problem.test_rows[params.point]], problem.scale)
    low, high = judged.minimum.outer, judged.maximum.outer
    headline = f"{metrics['verdict']}, p {searches.probability:.3f} in [{low:.3f}, {high:.3f}]"
    status = BUDGET if reason else DONE
    return Outcome(metrics, status, reason, {**arrays, **certified.arrays}, headline)


def identity(problem: Problem, point: int, searches: Point) -> Metrics:
    """Return a test point's row, its label, the predicted class and its probability."""
    true = int(problem.test_classes[point])
    return {
        "row": int(problem.test_rows[point]),
        "label": problem.label_names[true],
        "predicted": problem.label_names[searches.own],
        "correct": true == searches.own,
        "probability": searches.probability,
    }


def uncertified(classifier: Classifier) -> str:
    """Return why there is no certificate, for example that it would be more than `gpsuite verify` reads."""
    posterior = classifier.posterior
    arrays = (posterior.root, posterior.alpha, classifier.stored_inputs, posterior.X)
    return classifier.trained.uncertified or too_large(arrays, classes_of(classifier).couples)


def _verdict(judged: Judged) -> str:
    timed = any("seconds" in reason for reason in judged.limits)
    return "timeout" if judged.verdict.status == "unknown" and timed else judged.verdict.status


def _limit(judged: Judged, seconds: float | None) -> str:
    """Return which limit ended a search: the task's seconds, which the training may have used in part."""
    if seconds is not None and any("seconds" in reason for reason in judged.limits):
        return f"{seconds:g} seconds used up"
    return "; ".join(judged.limits)


def _range_metrics(judged: Judged) -> dict[str, float]:
    return {
        "min_proved": judged.minimum.outer,
        "min_attained": judged.minimum.inner,
        "max_attained": judged.maximum.inner,
        "max_proved": judged.maximum.outer,
        "gap": max(judged.minimum.gap, judged.maximum.gap),
        "boxes": sum(each.boxes for each in judged.searches),
        "search_seconds": sum(each.seconds for each in judged.searches),
    }


def _arrays(judged: Judged, region: Region, row: FloatArray, scale: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """Return traces, free inputs and the counterexample of a point, a row [D] of the dataset."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "minimum_trace": judged.minimum.trace[:, UNTIMED],
        "maximum_trace": judged.maximum.trace[:, UNTIMED],
        "free": region.free,
    }
    example = judged.verdict.counterexample
    if example is not None:
        arrays["change"] = (example - region.centre) * scale
        arrays["counterexample"] = row + arrays["change"]
    return arrays


@unconverged_is_diverged
def run_check(task: Task[CheckTask], shared: SharedWork) -> Outcome:
    """Check the paper's statements at one point: soundness, convergence, cells, mixtures, candidates."""
    classifier, params = task_classifier(task, shared), task.params
    posterior = classifier.posterior
    rows = load(task.require_dataset()).X
    _, region = point_region(classifier.problem, rows, params, posterior.lengthscales)
    rng = stream(0, "safety checks", params.point)
    points = sampled(region, params.samples, rng)
    metrics: Metrics = {}
    outside, search = 0, PointSearch(posterior, region.centre, region.free, params.bound)
    for tolerance in params.tolerances:
        found = search.range(region, tolerance, Budget(boxes=params.boxes))
        outside += points_outside(posterior, region, found, points, params.starts, rng)
        metrics[f"unbudgeted[eps={tolerance}]"] = found.status != "budget"
        metrics[f"gap[eps={tolerance}]"] = found.gap
        metrics[f"prop1_gap[eps={tolerance}]"] = prop1_gap(posterior, region, math.ceil(2 / tolerance))
    metrics["points_outside_bounds"] = outside
    metrics |= _cells(posterior, region, params.bound, rng)
    metrics["points_outside_mixture_bounds"] = _mixture(classifier, params, region, points)
    metrics |= candidate_boxes(classifier, region)
    return Outcome(metrics, headline=f"{outside} points outside")


def sampled(region: Region, samples: int, rng: np.random.Generator) -> FloatArray:
    """Return uniform points of the region's box and its corners' neighbourhood, projected to it, full inputs."""
    low, high = region.lower, region.upper
    inside = rng.uniform(low, high, size=(samples, len(low)))
    corners = np.where(rng.random((samples, len(low))) < 0.5, low, high)
    return region.embed(region.project(np.vstack([inside, corners, region.start[None]])))


def points_outside(
    posterior: GPCPosterior,
    region: Region,
    found: ClassRange,
    points: FloatArray,
    starts: int,
    rng: np.random.Generator,
) -> int:
    """Return how many points, multi-start optima included, any iteration's bounds leave out."""
    best = [strong_attack(posterior, region, sign, starts, rng)[0] for sign in (-1, 1)]
    probability = posterior.probability(np.vstack([points, np.array(best)]))
    lowest = max([found.minimum.outer, *found.minimum.trace[:, 3]])
    highest = min([found.maximum.outer, *found.maximum.trace[:, 3]])
    return int(np.sum((probability < lowest - ROUNDING) | (probability > highest + ROUNDING)))


def prop1_gap(posterior: GPCPosterior, region: Region, cells: int) -> float | None:
    """Return the gap of Prop. 1 at only the point, with cells uniform in the link's value. None without inverse."""
    inverse = INVERSES.get(posterior.link.name)
    if inverse is None:
        return None
    mean, variance = posterior.latent(region.centre[None])
    edges = np.asarray(inverse(np.arange(1, cells) / cells))[None]
    ends = np.full((1, 1), np.inf)
    a, b = np.hstack([-ends, edges]), np.hstack([edges, ends])
    smallest, largest = cell_mass_bounds(a, b, (mean, mean), (variance, variance))
    values = np.arange(cells + 1) / cells
    return float(values[1:] @ largest[0] - values[:-1] @ smallest[0])


def _cells(
    posterior: GPCPosterior, region: Region, bound: str, rng: np.random.Generator
) -> dict[str, float | int | None]:
    """Return on how many sub-boxes Prop. 1 is tighter than the closed form, and how many it approaches it on."""
    ends = np.sort(rng.uniform(region.lower, region.upper, size=(BOXES, 2, len(region.lower))), axis=1)
    lo, hi = np.vstack([region.lower[None], ends[:, 0]]), np.vstack([region.upper[None], ends[:, 1]])
    found = build_bound(bound, posterior, region).bounds(lo, hi)
    mean, variance = (found.mean_low, found.mean_high), (found.variance_low, found.variance_high)
    usable = np.isfinite(mean[0]) & np.isfinite(mean[1]) & np.isfinite(variance[1])
    mean, variance = (mean[0][usable], mean[1][usable]), (variance[0][usable], variance[1][usable])
    return compare_closed_form(posterior.link, mean, variance)


def compare_closed_form(
    link: Link, mean: tuple[FloatArray, FloatArray], variance: tuple[FloatArray, FloatArray]
) -> dict[str, float | int | None]:
    """Compare the closed form with Prop. 1 on rectangles of latent mean and variance.

    Args:
        link: of the classifier.
        mean: lower and upper ends, [B] each.
        variance: the same.
    """
    low, high = probability_bounds(link, mean, variance)
    violations, distances = 0, []
    for cells in CELLS:
        cell_low, cell_high = cell_probability_bounds(link, mean, variance, cells)
        violations += int(np.sum((low < cell_low - ROUNDING) | (high > cell_high + ROUNDING)))
        distances.append(np.maximum(low - cell_low, 0.0) + np.maximum(cell_high - high, 0.0))
    falls = np.all(np.diff(np.array(distances), axis=0) <= ROUNDING, axis=0)
    return {"closed_form_boxes": len(low), "closed_form_violations": violations, "prop1_approaches": int(np.sum(falls))}


def _mixture(classifier: Classifier, params: CheckTask, region: Region, points: FloatArray) -> int:
    """Return how many points a mixture's bounds leave out: the mean of its components' bounds.

    The components are posteriors at hyperparameters around the trained ones, equally weighted: what sampling of
    hyperparameters gives.
    """
    tolerance = max(params.tolerances)
    low, high, probability = 0.0, 0.0, np.zeros(len(points))
    components = mixture(classifier)
    for component in components:
        budget = Budget(boxes=params.boxes)
        found = probability_range(component, region, tolerance, budget, params.bound)
        low += found.minimum.outer / len(components)
        high += found.maximum.outer / len(components)
        probability += component.probability(points) / len(components)
    return int(np.sum((probability < low - ROUNDING) | (probability > high + ROUNDING)))


def mixture(classifier: Classifier) -> list[GPCPosterior]:
    """Return posteriors at hyperparameters around the trained ones. Those that do not converge are left out."""
    trained, found = classifier.trained.hyperparameters, []
    assert trained is not None
    for by_variance, by_length in PERTURBATIONS:
        theta = trained.to_log()
        theta[0] += by_variance
        theta[1:-1] += by_length
        fit = classifier.at(Hyperparameters.from_log(theta), len(classifier.problem.X))
        if fit.converged:
            found.append(fit.posterior)
    return found


def candidate_boxes(classifier: Classifier, region: Region) -> dict[str, int | None]:
    """Return the boxes that the paper's bound needs until eps with and without the candidates of its App. D.

    Neither has an attack. The classifier is that of the first training rows at the trained hyperparameters, as every
    box costs the square of the rows.

    Returns:
        by side, empty for other kernels than the bound's. None if the limit ended the search.
    """
    trained = classifier.trained.hyperparameters
    if classifier.posterior.kernel != "squared_exponential" or trained is None:
        return {}
    fit = classifier.at(trained, CANDIDATE_ROWS)
    if not fit.converged:
        return {}
    bounding = paper_bound(fit.posterior, region.centre, region.free)
    found: dict[str, int | None] = {}
    for side, sign in (("minimum", -1), ("maximum", 1)):
        for variant, candidates in (("with", bounding.candidates), ("without", None)):
            budget = Budget(boxes=CANDIDATE_BOXES)
            # One box cut at a time, as in Algorithm 1: a larger batch would hide small differences.
            search = branch_and_bound(bounding, region, CANDIDATE_EPS, budget, sign, batch=2, candidates=candidates)
            closed = search.status == "closed"
            found[f"boxes_{variant}_candidates[side={side}]"] = search.boxes if closed else None
    return found
