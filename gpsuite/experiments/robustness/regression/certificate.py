"""The certificate of a point's prediction ranges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.budget import Budget
from gpsuite.experiments.base import Task
from gpsuite.experiments.robustness.regression.models import RegressionProblem
from gpsuite.experiments.robustness.regression.plan import RangeTask
from gpsuite.experiments.robustness.shared.stored_certificates import Certified, stored, too_large
from gpsuite.methods.robustness.certificates.joint.certificate import JointOrigin, pack_joint
from gpsuite.methods.robustness.certificates.joint.certify import certify_predictions
from gpsuite.methods.robustness.certificates.joint.quantity import QuantileQuantity
from gpsuite.methods.robustness.regression.prediction_range import QuantileRange
from gpsuite.methods.robustness.search.regions import Region

if TYPE_CHECKING:
    from gpsuite.models.regression.latent import RegressionPosterior


def certify_ranges(
    task: Task[RangeTask],
    problem: RegressionProblem,
    posterior: RegressionPosterior,
    region: Region,
    ranges: Sequence[QuantileRange],
    budget: Budget,
) -> Certified:
    """Certify the ranges of all quantiles over a point's box.

    Arrays: the certificate, and certified [K, 2], the claimed lowest and highest values in the target's own units; NaN
    where nothing is claimed.
    """
    dataset, params, sparse = task.require_dataset(), task.params, task.params.model.inducing > 0
    fault = _no_certificate(posterior, problem, sparse)
    if fault:
        return Certified({"uncertified": fault})
    origin = JointOrigin(
        dataset=dataset.name,
        content=dataset.content_hash,
        row=int(problem.test_rows[params.point]),
        outputs=(problem.target,),
        inputs=tuple(problem.inputs[place] for place in region.free),
        inference="sparse" if sparse else "exact",
        rows=problem.train_rows.astype(np.int64),
        targets=problem.y,
        offset=problem.input_offset,
        scale=problem.input_scale,
        X=problem.X if sparse else np.empty((0, problem.X.shape[1])),
        jitter=posterior.jitter,
        target_offset=problem.target_offset,
        target_scale=problem.target_scale,
    )
    certificate = certify_predictions(
        posterior.latent,
        posterior.noise_variance,
        region,
        ranges,
        most_boxes=params.certificate_boxes,
        budget=budget,
        origin=origin,
    )
    claimed = {(stated.quantity, stated.claim.sign): stated.claim.outer for stated in certificate.claims}
    ends = [
        [claimed.get((QuantileQuantity(float(each.level)), sign), np.nan) for sign in (-1, 1)]
        for each in ranges
    ]
    certified = problem.own_units(np.array(ends), outward=np.array([-1.0, 1.0]))
    arrays = {"certified": certified, **stored(*pack_joint(certificate))}
    return Certified({}, arrays, bool(certificate.search["out_of_time"]))


def _no_certificate(posterior: RegressionPosterior, problem: RegressionProblem, sparse: bool) -> str:
    if posterior.jitter and not sparse:
        return f"the covariance needed a jitter of {posterior.jitter:g} to be factorised"
    latent = posterior.latent
    return too_large((latent.root, latent.alpha, latent.X, problem.X), 1)
