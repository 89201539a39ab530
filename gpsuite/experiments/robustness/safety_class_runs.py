"""The certificate of a point among several classes: its class' range, and its lead over every rival searched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import Certificate, ClassQuantity, Origin, pack
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.classifiers import Problem, SeveralClasses, trained_classes
from gpsuite.experiments.robustness.records import Certified, stored, too_large
from gpsuite.experiments.robustness.safety_tasks import ClassesTask, point_region
from gpsuite.experiments.robustness.tasks import MinibatchParams
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.decision import Verdict, judge
from gpsuite.methods.robustness.multiclass.multiclass_search import (
    ClassRange,
    MultiClassSearch,
    margin_attack,
)
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior, RobustMaxPosterior
from gpsuite.seeds import stream


@dataclass(frozen=True, eq=False)
class JudgedPoint:
    """What was found around a point.

    Attributes:
        search: of the point.
        region: around it.
        verdict: of the region.
        leads: what the search found of the lead over each rival that it looked at.
        spread: the range of the point's class.
    """

    search: MultiClassSearch
    region: Region
    verdict: Verdict
    leads: Mapping[int, Extremum]
    spread: ClassRange


def certify_point(
    task: Task[ClassesTask], found: SeveralClasses, judged: JudgedPoint, budget: Budget
) -> tuple[JudgedPoint, Certified]:
    """Certify the range of the point's class and its lead over the rivals.

    A search that its budget ended may know less than the certificate's bound of the whole region.

    Args:
        task: names dataset and point.
        found: the classifier.
        judged: the point.
        budget: its seconds.

    Returns:
        the point with what the certificate proves of it, and the certificate.
    """
    fault = no_certificate(found.posterior)
    if fault:
        return judged, Certified({"uncertified": fault})
    params, spread, region = task.params, judged.spread, judged.region
    claims = [(ClassQuantity(spread.own), each) for each in (spread.minimum, spread.maximum)]
    claims += [(ClassQuantity(spread.own, rival), each) for rival, each in judged.leads.items()]
    certificate = certify(
        found.posterior,
        region,
        claims,
        slack=1e-2,
        bound_name=params.bound,
        most_boxes=params.certificate_boxes,
        budget=budget,
        origin=_origin(task.require_dataset(), found.problem, params, region),
    )
    proved = [claim.outer for claim in certificate.claims]
    judged = _informed(judged, proved)
    metrics = {
        "certified_min": proved[0],
        "certified_max": proved[1],
        "certificate_decides": _decides(judged, certificate),
    }
    out_of_time = bool(certificate.search["out_of_time"])
    return judged, Certified(metrics, stored(*pack(certificate)), out_of_time)


def _informed(judged: JudgedPoint, proved: Sequence[float]) -> JudgedPoint:
    """Return the point with the certificate's bounds: of the lowest and highest probability, then of the leads."""
    centre, spread = judged.search.centre, judged.spread
    minimum = spread.minimum.informed(proved[0], float(centre.high[spread.own]))
    maximum = spread.maximum.informed(proved[1], float(centre.low[spread.own]))
    leads = {
        rival: each.informed(bound)
        for (rival, each), bound in zip(judged.leads.items(), proved[2:], strict=True)
    }
    verdict = judged.verdict
    if verdict.status == "unknown" and len(leads) == len(centre.contests):
        verdict = judge(centre, list(leads.values()), judged.region)
    return replace(
        judged, spread=replace(spread, minimum=minimum, maximum=maximum), leads=leads, verdict=verdict
    )


def no_certificate(posterior: MultiClassPosterior) -> str:
    """Return why there is none for a posterior, for example that it would be more than `gpsuite verify` reads."""
    if isinstance(posterior, RobustMaxPosterior):
        return "gpsuite verify has no bound of the robust maximum of several classes"
    return too_large((posterior.root, posterior.alpha, posterior.X), posterior.n_classes)


def _origin(dataset: PreparedDataset, problem: Problem, params: ClassesTask, region: Region) -> Origin:
    sparse = isinstance(params.model.method, MinibatchParams)
    return Origin(
        dataset=dataset.name,
        content=dataset.content_hash,
        row=int(problem.test_rows[params.point]),
        outputs=problem.label_names,
        inputs=tuple(problem.input_names[place] for place in region.free),
        inference="minibatch" if sparse else "laplace",
        rows=problem.train_rows.astype(np.int64),
        targets=problem.y,
        offset=problem.offset,
        scale=problem.scale,
        X=problem.X if sparse else np.empty((0, problem.X.shape[1])),
        sites=np.empty((2, 0)),
    )


def _decides(judged: JudgedPoint, certificate: Certificate) -> bool:
    """Tell whether the certificate alone proves the verdict: its leads that it is safe, a witness that it is not."""
    claims = {claim.quantity: claim for claim in certificate.claims}
    centre = judged.search.centre
    leads = [(each, claims.get(ClassQuantity(centre.own, each.rival))) for each in centre.contests]
    if judged.verdict.status == "unsafe":
        return any(
            claim is not None and claim.inner is not None and bool(contest.crossed(claim.inner))
            for contest, claim in leads
        )
    kept = all(claim is not None and not contest.crossed(claim.outer) for contest, claim in leads)
    return kept and not centre.undecided


# One point of robustness/safety among several classes: verdict, range, attack and certificate.


# a class' number in the reasons of `MultiClassSearch`
_NUMBER = re.compile(
    r"(?<=class )\d+(?= is ahead)|(?<=between classes )\d+(?= and \d)|(?<= and )\d+(?= at the point)"
)
UNTIMED = [0, 2, 3]  # columns of a trace: boxes, inner and outer


def run_classes(task: Task[ClassesTask], shared: SharedWork) -> Outcome:
    """Judge one point: first its class, then the range of its probability with the boxes that are left."""
    clock, params = Budget(seconds=task.budget_seconds), task.params
    try:
        found = trained_classes(task.require_dataset(), params.model, shared, task.budget_seconds)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    problem, posterior, point = found.problem, found.posterior, params.point
    rows = load(task.require_dataset()).X
    chosen, region = point_region(problem, rows, params, posterior.lengthscales)
    search = MultiClassSearch(posterior, region.centre, region.free, params.bound)
    budget = clock.rest(boxes=params.boxes, observer=shared.observer)
    verdict, extrema = search.decide(region, budget)
    verdict, attack, attack_proved = _attacked(search, region, verdict, params)
    own = search.centre.own
    spread = search.range(own, region, params.tolerance, budget)
    searches = (*extrema.values(), spread.minimum, spread.maximum)
    limits = list(dict.fromkeys(each.reason for each in searches if each.status == "budget"))
    judged, certified = JudgedPoint(search, region, verdict, extrema, spread), Certified({})
    if params.certificate_boxes:
        judged, certified = certify_point(task, found, judged, clock.rest())
    timed = judged.verdict.status == "unknown" and any("seconds" in reason for reason in limits)
    if certified.out_of_time:
        limits.append(f"{task.budget_seconds:g} seconds used up, in the certificate")
    metrics: dict[str, Any] = {
        **_identity(found, point, search),
        "probabilities_proved": search.proves(searches) and attack_proved,
        "chosen_by": chosen.by,
        "free_inputs": len(chosen.inputs),
        "verdict": "timeout" if timed else judged.verdict.status,
        "why": _named(judged.verdict.reason, found),
        "margin_proved": _proved_margin(search, judged.leads),
        **_range_metrics(judged.spread, searches),
        **attack,
        **certified.metrics,
    }
    arrays = {**_arrays(judged, rows[problem.test_rows[point]], problem.scale), **certified.arrays}
    headline = f"{metrics['verdict']}, p {metrics['probability']:.3f} of class {metrics['predicted']}"
    return Outcome(metrics, BUDGET if limits else DONE, "; ".join(limits), arrays, headline)


def _arrays(judged: JudgedPoint, row: FloatArray, scale: FloatArray) -> dict[str, npt.NDArray[Any]]:
    """Return traces, free inputs and the counterexample of a point, a row [D] of the dataset."""
    spread, example = judged.spread, judged.verdict.counterexample
    sides = {"minimum": spread.minimum, "maximum": spread.maximum}
    arrays: dict[str, npt.NDArray[Any]] = {
        f"{name}_trace": side.trace[:, UNTIMED] for name, side in sides.items()
    }
    arrays["free"] = judged.region.free
    if example is not None:
        arrays["change"] = (example - judged.region.centre) * scale
        arrays["counterexample"] = row + arrays["change"]
    return arrays


def _proved_margin(search: MultiClassSearch, extrema: Mapping[int, Extremum]) -> float | None:
    """Return the proved lower bound of p_own - max_j p_j over the region; None if not every rival was searched."""
    if len(extrema) < search.posterior.n_classes - 1:
        return None
    return 2.0 * min(each.outer for each in extrema.values()) - 1.0


def _range_metrics(spread: ClassRange, searches: Sequence[Extremum]) -> dict[str, float]:
    return {
        "min_proved": spread.minimum.outer,
        "min_attained": spread.minimum.inner,
        "max_attained": spread.maximum.inner,
        "max_proved": spread.maximum.outer,
        "gap": max(spread.minimum.gap, spread.maximum.gap),
        "boxes": sum(each.boxes for each in searches),
        "search_seconds": sum(each.seconds for each in searches),
    }


def _identity(found: SeveralClasses, point: int, search: MultiClassSearch) -> dict[str, Any]:
    problem, own = found.problem, search.centre.own
    true = int(problem.y_test[point])
    return {
        "row": int(problem.test_rows[point]),
        "label": problem.label_names[true],
        "predicted": problem.label_names[own],
        "correct": true == own,
        "probability": float(search.centre.values[own]),
    }


def _named(reason: str, found: SeveralClasses) -> str:
    """Return a reason with the dataset's names of the classes."""
    return _NUMBER.sub(lambda number: found.problem.label_names[int(number[0])], reason)


def _attacked(
    search: MultiClassSearch, region: Region, verdict: Verdict, params: ClassesTask
) -> tuple[Verdict, dict[str, Any], bool]:
    """Set an attack from several starts against the verdict; `attacked` is the least margin that it surely reached.

    Its success decides where the search left the class open. The last says whether that margin is proved.
    """
    rng = stream(0, "attack", params.point)
    points, margins, rivals = margin_attack(search, region, params.starts, rng)
    best = int(np.argmin(margins))
    succeeds = not search.centre.undecided and any(
        contest.crossed(0.5 + 0.5 * margins[best])
        for contest in search.centre.contests
        if contest.rival == rivals[best]
    )
    if succeeds and verdict.status == "unknown":
        reason = f"class {rivals[best]} is ahead by {-margins[best]:.6g} at the attack's counterexample"
        verdict = Verdict("unsafe", reason, region.embed(points[best]))
    proved = bool(search.bound.at(points[best][None]).proved)
    return verdict, {"attacked": float(margins[best]), "attack_succeeds": bool(succeeds)}, proved
