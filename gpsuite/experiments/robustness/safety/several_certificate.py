"""The certificate of a point among several classes: its class' range, and its lead over every rival searched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Task
from gpsuite.experiments.robustness.safety.plan import ClassesTask
from gpsuite.experiments.robustness.shared.classifiers import Problem
from gpsuite.experiments.robustness.shared.several_classes import SeveralClasses
from gpsuite.experiments.robustness.shared.stored_certificates import Certified, stored, too_large
from gpsuite.experiments.robustness.shared.tasks import MinibatchParams
from gpsuite.methods.robustness.certificates.joint.certificate import (
    JointCertificate,
    JointOrigin,
    pack_joint,
)
from gpsuite.methods.robustness.certificates.joint.certify import certify_classes
from gpsuite.methods.robustness.certificates.joint.quantity import ClassQuantity
from gpsuite.methods.robustness.decision import Verdict, judge
from gpsuite.methods.robustness.multiclass.multiclass_search import ClassRange, MultiClassSearch
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.robust_max_posterior import RobustMaxPosterior


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
    certificate = certify_classes(
        found.posterior,
        region,
        claims,
        bound_name=params.bound,
        most_boxes=params.certificate_boxes,
        budget=budget,
        origin=_origin(task.require_dataset(), found.problem, params, region),
    )
    proved = [stated.claim.outer for stated in certificate.claims]
    judged = _informed(judged, proved)
    metrics = {
        "certified_min": proved[0],
        "certified_max": proved[1],
        "certificate_decides": _decides(judged, certificate),
    }
    out_of_time = bool(certificate.search["out_of_time"])
    return judged, Certified(metrics, stored(*pack_joint(certificate)), out_of_time)


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


def _origin(dataset: PreparedDataset, problem: Problem, params: ClassesTask, region: Region) -> JointOrigin:
    sparse = isinstance(params.model.method, MinibatchParams)
    return JointOrigin(
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
    )


def _decides(judged: JudgedPoint, certificate: JointCertificate) -> bool:
    """Tell whether the certificate alone proves the verdict: its leads that it is safe, a witness that it is not."""
    claims = {stated.quantity: stated.claim for stated in certificate.claims}
    centre = judged.search.centre
    leads = [(each, claims.get(ClassQuantity(centre.own, each.rival))) for each in centre.contests]
    if judged.verdict.status == "unsafe":
        return any(
            claim is not None and claim.inner is not None and bool(contest.crossed(claim.inner))
            for contest, claim in leads
        )
    kept = all(claim is not None and not contest.crossed(claim.outer) for contest, claim in leads)
    return kept and not centre.undecided
