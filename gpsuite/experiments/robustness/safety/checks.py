"""The paper's statements about its method, checked at a point: soundness, convergence, cells, mixtures, candidates."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import logit, ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import Outcome
from gpsuite.experiments.robustness.safety.plan import CheckTask
from gpsuite.experiments.robustness.shared.classifiers import Problem
from gpsuite.experiments.robustness.shared.tasks import ClassifierParams
from gpsuite.methods.robustness.class_probability import probability_bounds
from gpsuite.methods.robustness.paper_bound.bound import paper_bound
from gpsuite.methods.robustness.paper_bound.cells import cell_mass_bounds, cell_probability_bounds
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import PointSearch, ProbabilityRange, build_bound, probability_range
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit
from gpsuite.models.classification.links import Link
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.models.classification.training import INFERENCES, TrainedGPC
from gpsuite.models.config import Hyperparameters
from gpsuite.seeds import stream

ROUNDING = 1e-9  # of a class probability


CELLS = (10, 100, 1000)


BOXES = 40  # sub-boxes of the region on which the closed form is compared with Prop. 1


PERTURBATIONS = ((0.0, 0.0), (0.3, 0.0), (-0.3, 0.2), (0.0, -0.2))  # of log variance and log lengthscales


CANDIDATE_ROWS = 40  # of the classifier on which the paper's bound runs with and without its candidates


CANDIDATE_EPS, CANDIDATE_BOXES = 0.1, 500  # tolerance and limit of these searches


INVERSES = {"probit": ndtri, "logistic": logit}


def run_checks(problem: Problem, trained: TrainedGPC, params: CheckTask, region: Region) -> Outcome:
    """Check the statements at one point.

    Args:
        problem: the data.
        trained: the classifier.
        params: of the task.
        region: the point's region.
    """
    posterior = trained.fit.posterior
    rng = stream(0, "safety checks", params.point)
    points = sampled(region, params.samples, rng)
    metrics: dict[str, float | int | str | bool | None] = {}
    outside, search = 0, PointSearch(posterior, region.centre, region.free, params.bound)
    for tolerance in params.tolerances:
        found = search.range(region, tolerance, Budget(boxes=params.boxes))
        outside += points_outside(posterior, region, found, points, params.starts, rng)
        unbudgeted = found.status != "budget"
        metrics[f"unbudgeted[eps={tolerance}]"] = unbudgeted
        metrics[f"gap[eps={tolerance}]"] = found.gap
        metrics[f"prop1_gap[eps={tolerance}]"] = prop1_gap(posterior, region, math.ceil(2 / tolerance))
    metrics["points_outside_bounds"] = outside
    metrics |= _cells(posterior, region, params.bound, rng)
    metrics["points_outside_mixture_bounds"] = _mixture(problem, trained, params, region, points)
    metrics |= candidate_boxes(problem, trained, params.model, region)
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
    found: ProbabilityRange,
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
    """Return the gap of Prop. 1 at the point alone, with cells uniform in the link's value; None without inverse."""
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
    return {
        "closed_form_boxes": len(low),
        "closed_form_violations": violations,
        "prop1_approaches": int(np.sum(falls)),
    }


def _mixture(
    problem: Problem, trained: TrainedGPC, params: CheckTask, region: Region, points: FloatArray
) -> int:
    """Return how many points a mixture's bounds leave out: the mean of its components' bounds.

    The components are posteriors at hyperparameters around the trained ones, equally weighted: what sampling of
    hyperparameters gives.
    """
    tolerance = max(params.tolerances)
    low, high, probability = 0.0, 0.0, np.zeros(len(points))
    components = mixture(problem, trained, params.model)
    for component in components:
        budget = Budget(boxes=params.boxes)
        found = probability_range(component, region, tolerance, budget, params.bound)
        low += found.minimum.outer / len(components)
        high += found.maximum.outer / len(components)
        probability += component.probability(points) / len(components)
    return int(np.sum((probability < low - ROUNDING) | (probability > high + ROUNDING)))


def mixture(problem: Problem, trained: TrainedGPC, model: ClassifierParams) -> list[GPCPosterior]:
    """Return posteriors at hyperparameters around the trained ones; those that do not converge are left out."""
    found = []
    for by_variance, by_length in PERTURBATIONS:
        theta = trained.hyperparameters.to_log()
        theta[0] += by_variance
        theta[1:-1] += by_length
        fit = _refit(problem, trained, model, Hyperparameters.from_log(theta), len(problem.X))
        if fit.converged:
            found.append(fit.posterior)
    return found


def _refit(
    problem: Problem, trained: TrainedGPC, model: ClassifierParams, at: Hyperparameters, rows: int
) -> GPCFit:
    """Approximate the posterior of the first rows at given hyperparameters."""
    infer = INFERENCES.get(model.method.inference)
    first = BinaryProblem(problem.X[:rows], problem.y[:rows], model.spec, trained.fit.posterior.link)
    return infer(first, at, None)


def candidate_boxes(
    problem: Problem, trained: TrainedGPC, model: ClassifierParams, region: Region
) -> dict[str, int | None]:
    """Return the boxes that the paper's bound needs until eps with and without the candidates of its App. D.

    Neither has an attack. The classifier is that of the first training rows at the trained hyperparameters, as every
    box costs the square of the rows.

    Returns:
        by side, empty for other kernels than the bound's; None where the limit ended the search.
    """
    if trained.fit.posterior.kernel != "squared_exponential":
        return {}
    fit = _refit(problem, trained, model, trained.hyperparameters, CANDIDATE_ROWS)
    if not fit.converged:
        return {}
    bounding = paper_bound(fit.posterior, region.centre, region.free)
    found: dict[str, int | None] = {}
    for side, sign in (("minimum", -1), ("maximum", 1)):
        for variant, candidates in (("with", bounding.candidates), ("without", None)):
            budget = Budget(boxes=CANDIDATE_BOXES)
            # One box cut at a time, as in Algorithm 1: a larger batch would hide small differences.
            search = branch_and_bound(
                bounding, region, CANDIDATE_EPS, budget, sign, batch=2, candidates=candidates
            )
            closed = search.status == "closed"
            found[f"boxes_{variant}_candidates[side={side}]"] = search.boxes if closed else None
    return found
