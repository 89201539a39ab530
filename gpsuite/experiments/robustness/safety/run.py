"""One point of robustness/safety: its certified range, verdict, attack and certificate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.safety.checks import run_checks
from gpsuite.experiments.robustness.safety.plan import CheckTask, PointTask, point_region
from gpsuite.experiments.robustness.safety_curves.plan import label_name
from gpsuite.experiments.robustness.shared.classifiers import Problem, read_problem, task_classifier
from gpsuite.experiments.robustness.shared.minibatch_classifiers import train_minibatch
from gpsuite.experiments.robustness.shared.stored_certificates import Certified, stored, too_large
from gpsuite.experiments.robustness.shared.tasks import MinibatchParams
from gpsuite.methods.robustness.certificates.certificate import Certificate, Claim, Origin, pack
from gpsuite.methods.robustness.certificates.certify import certify
from gpsuite.methods.robustness.decision import HALF, Verdict, binary_contest
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import PointSearch, ProbabilityRange
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.models.classification.posterior import GPCPosterior
from gpsuite.seeds import stream

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
        classes=(problem.label_names[0], problem.label_names[1]),
        inputs=tuple(problem.input_names[place] for place in region.free),
        inference="minibatch" if isinstance(method, MinibatchParams) else method.inference,
        rows=problem.train_rows.astype(np.int64),
        labels=problem.y,
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
        (found.minimum, found.maximum),
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
