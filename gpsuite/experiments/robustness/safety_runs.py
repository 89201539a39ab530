"""The paper's statements about its method, checked at a point: soundness, convergence, cells, mixtures, candidates."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logit, ndtri

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import POSITIVE, Certificate, Claim, Origin, pack
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.classifiers import Problem, read_problem, task_classifier, train_minibatch
from gpsuite.experiments.robustness.records import Certified, stored, too_large
from gpsuite.experiments.robustness.safety_curve_tasks import label_name
from gpsuite.experiments.robustness.safety_tasks import CheckTask, PointTask, point_region
from gpsuite.experiments.robustness.tasks import ClassifierParams, MinibatchParams
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.class_probability import probability_bounds
from gpsuite.methods.robustness.decision import HALF, Verdict, binary_contest
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import (
    cell_mass_bounds,
    cell_probability_bounds,
)
from gpsuite.methods.robustness.paper_bound import paper_bound
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import branch_and_bound
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import PointSearch, ProbabilityRange, build_bound, probability_range
from gpsuite.models.classification.approximation import BinaryProblem, GPCFit, GPCPosterior, NotConvergedError
from gpsuite.models.classification.links import Link
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


# One point of robustness/safety: its certified range, verdict, attack and certificate.


UNTIMED = [0, 2, 3]  # columns of a trace: boxes, inner and outer


def run_check(task: Task[CheckTask], shared: SharedWork) -> Outcome:
    """Check the paper's statements at one point."""
    try:
        problem, trained = task_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    rows = load(task.require_dataset()).X
    _, region = point_region(problem, rows, task.params, trained.fit.posterior.lengthscales)
    return run_checks(problem, trained, task.params, region)


@dataclass(frozen=True, eq=False)
class PointClassifier:
    """A classifier of two classes.

    Attributes:
        problem: its rows.
        posterior: what is certified.
        sites: of EP, [2, N]; [2, 0] of the others.
        X: training inputs [N, D] where the posterior has inducing inputs, else [0, D].
    """

    problem: Problem
    posterior: GPCPosterior
    sites: FloatArray
    X: FloatArray


def point_classifier(task: Task[PointTask], shared: SharedWork) -> PointClassifier:
    """Return a task's classifier; the tasks of one group train it once.

    Raises:
        NotConvergedError: if there is no converged approximation at the start, or the training diverged.
    """
    model, dataset = task.params.model, task.require_dataset()
    if not isinstance(model.method, MinibatchParams):
        problem, trained = task_classifier(task, shared)
        posterior = trained.fit.require_converged()
        sites = trained.fit.state if model.method.inference == "ep" else np.empty((2, 0))
        return PointClassifier(problem, posterior, sites, np.empty((0, problem.X.shape[1])))

    def attempt() -> PointClassifier | NotConvergedError:
        problem = read_problem(dataset, model)
        try:
            found = train_minibatch(
                problem, model, Budget(seconds=task.budget_seconds, observer=shared.observer)
            )
        except NotConvergedError as error:
            return error
        assert isinstance(found, GPCPosterior)
        return PointClassifier(problem, found, np.empty((2, 0)), problem.X)

    found = shared.once(f"minibatches {model.name}", attempt)
    if isinstance(found, NotConvergedError):
        raise found
    return found


def run_point(task: Task[PointTask], shared: SharedWork) -> Outcome:
    """Certify one point."""
    clock = Budget(seconds=task.budget_seconds)
    try:
        classifier = point_classifier(task, shared)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    params, problem, posterior = task.params, classifier.problem, classifier.posterior
    dataset, point = task.require_dataset(), params.point
    rows = load(dataset).X
    chosen, region = point_region(problem, rows, params, posterior.lengthscales)
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    search = PointSearch(posterior, region.centre, region.free, params.bound)
    found = search.range(region, params.tolerance, budget)
    found = decided(search, region, found, budget)
    found, attack = attacked(search, region, found, point, params.starts)
    limited = found.status == "budget"
    reason = _limit(found, task.budget_seconds) if limited else ""
    fault = too_large((posterior.root, posterior.alpha, classifier.X, posterior.X), 1)
    certified = Certified({"uncertified": fault} if params.certificate_boxes and fault else {})
    if params.certificate_boxes and not fault:
        origin = _origin(dataset, classifier, params, region)
        certificate = _certify(search, region, found, params, clock.rest(), origin)
        lowest, highest = (claim.outer for claim in certificate.claims)
        found = found.informed(lowest, highest, region)
        certified = _certified(certificate, found)
        if certified.out_of_time and not limited:
            limited, reason = True, f"{task.budget_seconds:g} seconds used up, in the certificate"
    metrics = {
        **_identity(problem, point, found),
        "chosen_by": chosen.by,
        "free_inputs": len(chosen.inputs),
        **_range_metrics(found),
        **attack,
        **certified.metrics,
    }
    arrays = {**_arrays(problem, rows, region, found, point), **certified.arrays}
    low, high = found.minimum.outer, found.maximum.outer
    headline = f"{metrics['verdict']}, p {found.probability:.3f} in [{low:.3f}, {high:.3f}]"
    return Outcome(metrics, BUDGET if limited else DONE, reason, arrays, headline)


def decided(search: PointSearch, region: Region, found: ProbabilityRange, budget: Budget) -> ProbabilityRange:
    """Search on for the class alone, with what is left, where one half lies between attained and proved value.

    Args:
        search: of the point.
        region: where.
        found: the range; returned as it is if its verdict is not unknown, or if the point itself is tied.
        budget: that of the range.
    """
    if found.verdict.status != "unknown" or found.centre.tied or budget.exhausted:
        return found
    verdict, extremum = search.decide(region, budget)
    if verdict.status == "unknown":
        return found
    before = found.side(extremum.sign)
    spent = replace(extremum, boxes=extremum.boxes + before.boxes, seconds=extremum.seconds + before.seconds)
    return replace(found.with_side(spent), verdict=verdict)


def _identity(problem: Problem, point: int, found: ProbabilityRange) -> dict[str, Any]:
    positive, predicted = bool(problem.y_test[point] > 0), found.probability > HALF
    return {
        "row": int(problem.test_rows[point]),
        "label": label_name(problem, positive),
        "predicted": label_name(problem, predicted),
        "correct": positive == predicted,
        "probability": found.probability,
    }


def _range_metrics(found: ProbabilityRange) -> dict[str, Any]:
    verdict = found.verdict.status
    if verdict == "unknown" and any("seconds" in reason for reason in _reasons(found)):
        verdict = "timeout"
    return {
        "verdict": verdict,
        "why": found.verdict.reason,
        "min_proved": found.minimum.outer,
        "min_attained": found.minimum.inner,
        "max_attained": found.maximum.inner,
        "max_proved": found.maximum.outer,
        "gap": found.gap,
        "boxes": found.boxes,
        "search_seconds": found.seconds,
    }


def _limit(found: ProbabilityRange, seconds: float | None) -> str:
    """Return which limit ended a search: the task's seconds, of which the training may have taken a part."""
    reasons = _reasons(found)
    if seconds is not None and any("seconds" in reason for reason in reasons):
        return f"{seconds:g} seconds used up"
    return "; ".join(reasons)


def _reasons(found: ProbabilityRange) -> list[str]:
    ended = [each for each in (found.minimum, found.maximum) if each.status == "budget"]
    return list(dict.fromkeys(each.reason for each in ended))


def attacked(
    search: PointSearch, region: Region, found: ProbabilityRange, number: int, starts: int
) -> tuple[ProbabilityRange, dict[str, Any]]:
    """Set the multi-start attack against the range; its success decides where the search left the class open.

    Args:
        search: of the point.
        region: where.
        found: the range.
        number: of the test row, which seeds the attack.
        starts: of the attack.

    Returns:
        the range with its verdict, and what the attack reached.
    """
    contest = found.centre.contest
    rng = stream(0, "attack", number)
    point, _ = strong_attack(search.posterior, region, contest.sign, starts, rng)
    reached = float(search.attained(point[None, region.free], contest.sign)[0])
    towards = found.side(contest.sign)
    found = found.with_side(towards.informed(towards.outer, reached))
    succeeds = not found.centre.tied and bool(contest.crossed(reached))
    if succeeds and found.verdict.status == "unknown":
        reason = f"class probability {reached:.6g} at the attack's counterexample"
        found = replace(found, verdict=Verdict("unsafe", reason, point))
    return found, {"attacked": reached, "attack_succeeds": succeeds}


def _arrays(
    problem: Problem, rows: FloatArray, region: Region, found: ProbabilityRange, point: int
) -> dict[str, npt.NDArray[Any]]:
    arrays: dict[str, npt.NDArray[Any]] = {
        "minimum_trace": found.minimum.trace[:, UNTIMED],
        "maximum_trace": found.maximum.trace[:, UNTIMED],
        "free": region.free,
    }
    example = found.verdict.counterexample
    if example is not None:
        change = (example - region.centre) * problem.scale
        arrays["change"] = change
        arrays["counterexample"] = rows[problem.test_rows[point]] + change
    return arrays


def _origin(
    dataset: PreparedDataset,
    classifier: PointClassifier,
    params: PointTask,
    region: Region,
) -> Origin:
    """Return where the point's model and region come from, as the certificate states it."""
    method, problem = params.model.method, classifier.problem
    return Origin(
        dataset=dataset.name,
        content=dataset.content_hash,
        row=int(problem.test_rows[params.point]),
        outputs=(problem.label_names[0], problem.label_names[1]),
        inputs=tuple(problem.input_names[place] for place in region.free),
        inference="minibatch" if isinstance(method, MinibatchParams) else method.inference,
        rows=problem.train_rows.astype(np.int64),
        targets=(problem.y + 1.0) / 2.0,
        offset=problem.offset,
        scale=problem.scale,
        sites=classifier.sites,
        X=classifier.X,
    )


def _certify(
    search: PointSearch,
    region: Region,
    found: ProbabilityRange,
    params: PointTask,
    budget: Budget,
    origin: Origin,
) -> Certificate:
    bounding = search.bounding
    return certify(
        search.posterior,
        region,
        [(POSITIVE, found.minimum), (POSITIVE, found.maximum)],
        bound_name=bounding.name,
        bound_version=bounding.version,
        most_boxes=params.certificate_boxes,
        budget=budget,
        origin=origin,
    )


def _certified(certificate: Certificate, found: ProbabilityRange) -> Certified:
    minimum, maximum = certificate.claims
    metrics = {
        "certified_min": minimum.outer,
        "certified_max": maximum.outer,
        "certificate_decides": _decides(found, minimum, maximum),
    }
    return Certified(metrics, stored(*pack(certificate)), bool(certificate.search["out_of_time"]))


def _decides(found: ProbabilityRange, minimum: Claim, maximum: Claim) -> bool:
    """Tell whether the certificate alone proves the verdict: its bound that it is safe, its witness that it is not."""
    claim = minimum if found.centre.sign < 0 else maximum
    if found.verdict.status == "unsafe":
        return claim.inner is not None and bool(binary_contest(claim.sign).crossed(claim.inner))
    return not found.centre.tied and not binary_contest(claim.sign).crossed(claim.outer)
