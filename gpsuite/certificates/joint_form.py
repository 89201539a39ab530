"""Whether a certificate of several classes or of a regression is one at all.

Equation: none, a file format
"""

from __future__ import annotations

import math

import numpy as np

from gpsuite.certificates.certificate import StoredRegion
from gpsuite.certificates.form import (
    LARGEST,
    MOST_JITTER,
    check_claim,
    check_latent,
    check_numbers,
    check_region,
    refuse,
)
from gpsuite.certificates.joint_certificate import JointCertificate, JointOrigin
from gpsuite.certificates.joint_quantity import ClassQuantity, Quantity
from gpsuite.certificates.model import GAUSSIAN, SOFTMAX, JointModel
from gpsuite.certificates.plain_kernel import CURVATURE

INFERENCES = {SOFTMAX: ("laplace", "minibatch"), GAUSSIAN: ("exact", "sparse")}
LIMITS = {SOFTMAX: (0.0, 1.0), GAUSSIAN: (-math.inf, math.inf)}
MOST_FUNCTIONS = 100


def check_joint_form(certificate: JointCertificate) -> None:
    """Refuse what is not a certificate.

    Raises:
        MalformedError: with the first fault.
    """
    model = certificate.model
    _check_model(model)
    check_region(model.X.shape[1], certificate.region)
    for stated in certificate.claims:
        _check_quantity(model, stated.quantity)
        check_claim(certificate.region, stated.claim, LIMITS[model.likelihood])
    if certificate.origin is not None:
        _check_origin(model, certificate.region, certificate.origin)


def _check_model(model: JointModel) -> None:
    if model.kernel not in CURVATURE or model.likelihood not in LIMITS:
        refuse("a model of an unknown kernel or likelihood")
    functions = len(model.alpha)
    if not (functions == 1 if model.likelihood == GAUSSIAN else 2 <= functions <= MOST_FUNCTIONS):
        refuse(f"a regression has one latent function, a classifier 2 to {MOST_FUNCTIONS}")
    positive = check_latent(model, (functions,))
    if not np.all(positive >= 1 / LARGEST):
        refuse("the model's variance and lengthscales must be positive")
    noisy = 1 / LARGEST <= model.noise <= LARGEST
    if not (noisy if model.likelihood == GAUSSIAN else model.noise == 0):
        refuse("noise belongs to a regression, and is above 0 there")


def _check_quantity(model: JointModel, quantity: Quantity) -> None:
    if not isinstance(quantity, ClassQuantity):
        if model.likelihood != GAUSSIAN or not 0 < quantity.level < 1:
            refuse("a quantile of no regression, or of a level that is not between 0 and 1")
        return
    classes = quantity.classes
    fits = all(0 <= each < model.functions for each in classes) and len(set(classes)) == len(classes)
    if model.likelihood != SOFTMAX or not fits:
        refuse("a class that the model does not have, or is compared with itself")


def _check_origin(model: JointModel, region: StoredRegion, origin: JointOrigin) -> None:
    (n, inputs), count = model.X.shape, len(origin.targets)
    if origin.inference not in INFERENCES[model.likelihood]:
        refuse(f"an inference that is not one of {', '.join(INFERENCES[model.likelihood])}")
    sparse = origin.inference in ("sparse", "minibatch")
    shapes = (
        origin.rows.shape == (count,),
        origin.X.shape == (count if sparse else 0, inputs),
        sparse or count == n,
        origin.offset.shape == origin.scale.shape == (inputs,),
        len(origin.inputs) == len(region.free),
        len(origin.outputs) == model.functions,
        count > 0,
    )
    if not all(shapes):
        refuse("the origin's arrays do not fit the model")
    if np.any(origin.rows < 0) or not 0 <= origin.row < 2**63:
        refuse("rows are at least 0")
    check_numbers("origin", origin.offset, origin.scale, origin.X, origin.targets)
    if not np.all(origin.scale >= 1 / LARGEST) or not 1 / LARGEST <= origin.target_scale <= LARGEST:
        refuse("the scales must be positive")
    check_numbers("origin", np.array([origin.target_offset]))
    if model.likelihood == SOFTMAX:
        if not np.isin(origin.targets, np.arange(model.functions)).all():
            refuse("labels are the numbers of the classes")
        if (origin.target_offset, origin.target_scale) != (0.0, 1.0):
            refuse("labels have no scale")
    if not 0 <= origin.jitter <= (MOST_JITTER * model.variance if origin.inference == "sparse" else 0):
        refuse(f"a jitter above {MOST_JITTER:g} of the variance, or without inducing inputs")
