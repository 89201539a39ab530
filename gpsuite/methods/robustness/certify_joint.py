"""From finished searches to a certificate of several classes or of a regression.

Equation: Blaas et al. 2020, Definition 2, Algorithm 1
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import StoredRegion
from gpsuite.certificates.joint_certificate import (
    JointCertificate,
    JointOrigin,
    StatedClaim,
)
from gpsuite.certificates.joint_checker import JointBounds
from gpsuite.certificates.joint_quantity import (
    ClassQuantity,
    QuantileQuantity,
    Quantity,
)
from gpsuite.certificates.model import GAUSSIAN, SOFTMAX, JointModel, joint_hash
from gpsuite.methods.robustness.certify import build_claim
from gpsuite.methods.robustness.decision import HALF
from gpsuite.methods.robustness.regression import QuantileRange
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.models.latent import LatentPosterior

Found = tuple[Quantity, Extremum]


def certify_classes(
    posterior: MultiClassPosterior,
    region: Region,
    found: Sequence[tuple[ClassQuantity, Extremum]],
    slack: float = 1e-2,
    bound_name: str = "",
    most_boxes: int | None = None,
    budget: Budget | None = None,
    origin: JointOrigin | None = None,
) -> JointCertificate:
    """Build a certificate of searches of class probabilities and leads over the same region.

    Args:
        posterior: of several classes.
        region: inputs over which the claims hold.
        found: what each search was about, and what it found; that of a margin is (1 + p_own - p_rival) / 2.
        slack: how much looser than the search's a claim may be, > 0; half as loose as a lead that is proved positive.
        bound_name: the search's bound, for the reader.
        most_boxes: boxes bounded at most per claim.
        budget: its seconds are for all claims, each an equal share of what is left.
        origin: where model and point come from.

    Raises:
        ValueError: if the checker knows no plain bound for this model, or nothing can be claimed.
    """
    model = JointModel(
        posterior.X, posterior.kernel, float(posterior.variance), posterior.lengthscales, posterior.alpha,
        posterior.root, posterior.weights, SOFTMAX,
    )  # fmt: skip
    return _certify(model, region, found, slack, bound_name, most_boxes, budget, origin)


def certify_predictions(
    latent: LatentPosterior,
    noise: float,
    region: Region,
    ranges: Sequence[QuantileRange],
    slack: float = 1e-2,
    bound_name: str = "",
    most_boxes: int | None = None,
    budget: Budget | None = None,
    origin: JointOrigin | None = None,
) -> JointCertificate:
    """Build a certificate of ranges of predictive quantiles over the same region, in the units of the model.

    Args:
        latent: posterior of the latent function.
        noise: variance of the observation noise, above 0.
        region: a box around a point.
        ranges: of `prediction_range`.
        slack: how much looser than the search's a claim may be, > 0.
        bound_name: as the following, of `certify_classes`.
        most_boxes: likewise.
        budget: likewise.
        origin: likewise.

    Raises:
        ValueError: if the checker knows no plain bound for this model, or nothing can be claimed.
    """
    model = JointModel(
        latent.X, latent.kernel, float(latent.variance), latent.lengthscales, latent.alpha[None],
        latent.root[:, None], latent.weights, GAUSSIAN, float(noise),
    )  # fmt: skip
    found: list[Found] = []
    for each in ranges:
        quantity = QuantileQuantity(float(each.level))
        found += [(quantity, each.minimum), (quantity, each.maximum)]
    return _certify(model, region, found, slack, bound_name, most_boxes, budget, origin)


def _certify(
    model: JointModel,
    region: Region,
    found: Sequence[Found],
    slack: float,
    bound_name: str,
    most_boxes: int | None,
    budget: Budget | None,
    origin: JointOrigin | None,
) -> JointCertificate:
    stored = StoredRegion(region.centre, region.free, region.lower, region.upper, region.norm, region.radius)
    bounds = JointBounds(model, stored)
    left = math.inf if budget is None or budget.seconds is None else budget.seconds - budget.elapsed
    ends, claims, out_of_time = time.monotonic() + left, [], False
    for rank, (quantity, extremum) in enumerate(found):
        seconds = (ends - time.monotonic()) / (len(found) - rank)
        plain = bounds.of(quantity)
        claim, stopped = build_claim(
            plain, stored, extremum, _slack(quantity, extremum, slack), most_boxes, seconds
        )
        out_of_time = out_of_time or stopped
        if np.isfinite(claim.outer):  # a quantile of which nothing is known is not claimed
            claims.append(StatedClaim(quantity, claim))
    if not claims:
        raise ValueError("nothing can be claimed of this model and region")
    search = {
        "bound": bound_name,
        "boxes": [extremum.boxes for _, extremum in found],
        "out_of_time": out_of_time,
    }
    return JointCertificate(model, stored, tuple(claims), joint_hash(model), search, origin)


def _slack(quantity: Quantity, extremum: Extremum, slack: float) -> float:
    """Return a claim's slack: a lead whose search proved it positive, above one half, is to stay positive."""
    lead = isinstance(quantity, ClassQuantity) and quantity.rival is not None
    if lead and extremum.sign < 0 and extremum.outer > HALF:
        return min(slack, 0.5 * (extremum.outer - HALF))
    return slack
