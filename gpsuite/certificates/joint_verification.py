"""What `gpsuite verify` does with a certificate of several classes or of a regression: three levels, and plain words.

Equation: Blaas et al. 2020, Sec. 5, Definition 2
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import IntArray
from gpsuite.certificates.joint_certificate import (
    JointCertificate,
    JointOrigin,
    StatedClaim,
    read_joint,
)
from gpsuite.certificates.joint_checker import MEAN, check_joint
from gpsuite.certificates.joint_quantity import QuantileQuantity
from gpsuite.certificates.joint_stationarity import joint_residuals
from gpsuite.certificates.model import SOFTMAX
from gpsuite.certificates.verification import (
    INFERENCES,
    MINIBATCH,
    OPEN,
    Level,
    bound_level,
    claimed_ends,
    dataset_level,
    labels_of,
    model_words,
    origin_words,
    region_words,
    residual_level,
    rows_fault,
    told,
)
from gpsuite.data.dataset import Dataset
from gpsuite.untrusted import printable


def verify_certificate(
    path: Path, description: dict[str, Any], dataset: Dataset | None
) -> tuple[int, list[str]]:
    """Check a certificate of several classes or of a regression.

    Args:
        path: of either file.
        description: content of its JSON file.
        dataset: the one it should be about, if it was given.

    Returns:
        exit code (0 confirmed, 1 refuted) and what to print.

    Raises:
        UnusableFileError: if it is not a usable certificate.
    """
    certificate = read_joint(path, description)
    return told(
        path,
        lambda: check_joint_levels(certificate, dataset),
        lambda proved: describe_joint(certificate, proved),
    )


def check_joint_levels(certificate: JointCertificate, dataset: Dataset | None) -> tuple[Level, Level, Level]:
    """Check that (a) the bound holds, (b) the posterior is the stated one, (c) its rows are the dataset's.

    Raises:
        MalformedError: if it is not a certificate.
    """
    bound, origin = bound_level(check_joint(certificate)), certificate.origin
    fault = None if origin is None else partial(joint_fault, certificate, origin)
    rows = 0 if origin is None else len(origin.rows)
    return bound, _posterior_level(certificate), dataset_level(dataset, fault, rows)


def _posterior_level(certificate: JointCertificate) -> Level:
    origin, model = certificate.origin, certificate.model
    if origin is None:
        return Level("the stored posterior is the one of its data", OPEN, "the certificate states no data")
    kind = "labels" if model.likelihood == SOFTMAX else "targets"
    statement = (
        f"the stored posterior is the {INFERENCES[origin.inference]} posterior of the stored rows and {kind}"
    )
    if origin.inference == "minibatch":
        return Level(statement, OPEN, MINIBATCH)
    if origin.inference == "sparse":
        statement += f", {len(model.X)} inducing inputs, jitter {origin.jitter:g}"
    return residual_level(statement, joint_residuals(model, origin))


def joint_fault(certificate: JointCertificate, origin: JointOrigin, dataset: Dataset) -> str:
    """Return how the dataset differs from what a certificate states, or an empty string."""
    several = certificate.model.likelihood == SOFTMAX

    def fault(rows: IntArray) -> str:
        if several:
            stated = [origin.outputs[int(target)] for target in origin.targets]
            return "" if labels_of(dataset, rows) == stated else "the labels are not the dataset's"
        if dataset.target_names != origin.outputs:
            return "the target has another name"
        targets = (dataset.y[rows, 0] - origin.target_offset) / origin.target_scale
        return "" if np.array_equal(targets, origin.targets) else "the targets are not the dataset's"

    task = "classification" if several else "regression"
    return rows_fault(certificate.model.X, certificate.region, origin, dataset, task, fault)


def describe_joint(certificate: JointCertificate, proved: bool) -> Iterator[tuple[str, str]]:
    """Yield in words what a certificate is about and what it claims, with a warning unless that was proved."""
    model, origin = certificate.model, certificate.origin
    several = model.likelihood == SOFTMAX
    if origin is not None:
        yield from origin_words(origin)
        yield ("classes" if several else "target"), ", ".join(map(printable, origin.outputs))
    observed = f"softmax of {model.functions} classes" if several else f"noise variance {model.noise:.6g}"
    yield "model", model_words(model, origin, observed, certificate.model_hash)
    yield from region_words(certificate.region, origin)
    for stated in certificate.claims:
        side = "maximum" if stated.claim.sign > 0 else "minimum"
        statement = _claim_words(stated, origin)
        yield side, statement if proved else f"claimed, not proved: {statement}"


def _claim_words(stated: StatedClaim, origin: JointOrigin | None) -> str:
    quantity, claim = stated.quantity, stated.claim
    if isinstance(quantity, QuantileQuantity):
        mean = quantity.level == MEAN
        name = "mean prediction" if mean else f"prediction's {100 * quantity.level:g} % quantile"
        unit, (offset, scale) = "the model's units", (0.0, 1.0)
        if origin is not None:
            unit, offset, scale = "the target's units", origin.target_offset, origin.target_scale
        return f"no {name} in the region is {claimed_ends(claim, scale, offset)} ({unit})"
    names = [
        f"class {each}" if origin is None else printable(origin.outputs[each]) for each in quantity.classes
    ]
    if quantity.rival is None:
        return f"no probability of {names[0]} in the region is {claimed_ends(claim)}"
    lead = claimed_ends(claim, 2.0, -1.0)
    return f"no lead of {names[0]} over {names[1]} in the region, probability less probability, is {lead}"
