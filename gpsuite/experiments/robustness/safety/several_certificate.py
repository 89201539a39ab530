"""The certificate of a point among several classes: its class' range, and its lead over every rival searched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Task
from gpsuite.experiments.robustness.safety.plan import ClassesTask
from gpsuite.experiments.robustness.shared.classifiers import Problem
from gpsuite.experiments.robustness.shared.several_classes import SeveralClasses
from gpsuite.experiments.robustness.shared.stored_certificates import Certified, stored
from gpsuite.experiments.robustness.shared.tasks import MinibatchParams
from gpsuite.methods.robustness.certificates.joint.certificate import (
    JointCertificate,
    JointOrigin,
    pack_joint,
)
from gpsuite.methods.robustness.certificates.joint.certify import certify_classes
from gpsuite.methods.robustness.certificates.joint.quantity import ClassQuantity
from gpsuite.methods.robustness.decision import Verdict
from gpsuite.methods.robustness.multiclass.multiclass_search import ClassRange, MultiClassSearch
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.classification.robust_max_posterior import RobustMaxPosterior
from gpsuite.untrusted import LARGEST_ARRAYS

FOR_TREES = 16 << 20  # bytes of the largest certificate that are left for its trees


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
) -> Certified:
    """Certify the range of the point's class and its lead over the rivals.

    Args:
        task: names dataset and point.
        found: the classifier.
        judged: the point.
        budget: its seconds.
    """
    fault = no_certificate(found.posterior)
    if fault:
        return Certified({"uncertified": fault})
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
    low, high = (stated.claim.outer for stated in certificate.claims[:2])
    metrics = {
        "certified_min": low,
        "certified_max": high,
        "certificate_decides": _decides(judged, certificate),
    }
    return Certified(metrics, stored(*pack_joint(certificate)), bool(certificate.search["out_of_time"]))


def no_certificate(posterior: MultiClassPosterior) -> str:
    """Return why there is none for a posterior, for example that it would be more than `gpsuite verify` reads."""
    if isinstance(posterior, RobustMaxPosterior):
        return "gpsuite verify has no bound of the robust maximum of several classes"
    size = sum(each.nbytes for each in (posterior.root, posterior.alpha, posterior.X))
    if size > LARGEST_ARRAYS - FOR_TREES:
        most, C = LARGEST_ARRAYS >> 20, posterior.n_classes
        rows = int(np.sqrt((LARGEST_ARRAYS - 2 * FOR_TREES) / 8.0) / C)
        return (
            f"the posterior of {C} classes and {len(posterior.X)} rows takes {size >> 20} MB, certificates at most "
            f"{most}; take train_rows={rows}, or certificates=false"
        )
    return ""


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
