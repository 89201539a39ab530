"""Check of a certificate's form: arrays that fit together, a region with its centre, valid trees.

No check takes longer than reading the arrays once. So a malformed certificate is refused before any work.

Equation: none, a file format
"""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.certificate import (
    NO_ROW,
    POSITIVE,
    Certificate,
    Claim,
    ClassQuantity,
    MarginQuantity,
    Origin,
    Quantity,
    StoredRegion,
)
from gpsuite.certificates.model import GAUSSIAN, LINKS, LOGISTIC, PROBIT, SOFTMAX, Model
from gpsuite.certificates.plain_kernel import CURVATURE

LARGEST = 1e100  # largest number: products of a few such numbers are finite in extended precision
MOST_JITTER = 1e-3  # largest jitter over the prior variance: with more the values would not be the function's
MOST_FUNCTIONS = 100
MOST_NODES, MOST_ENDS = 1 << 18, 1 << 23  # limits of a tree's nodes and of nodes times inputs: a second and 128 MB
UNLIMITED = (-math.inf, math.inf)
LIMITS = {PROBIT: (0.0, 1.0), LOGISTIC: (0.0, 1.0), SOFTMAX: (0.0, 1.0), GAUSSIAN: UNLIMITED}
OF_TWO = ("laplace", "ep", "variational", "minibatch")
INFERENCES = {
    PROBIT: OF_TWO, LOGISTIC: OF_TWO, SOFTMAX: ("laplace", "minibatch"), GAUSSIAN: ("exact", "sparse"),
}  # fmt: skip


class MalformedError(ValueError):
    """Raised if the stored file is not a certificate."""


def check_form(certificate: Certificate) -> None:
    """Raise if this is not a certificate.

    Raises:
        MalformedError: with the first fault.
    """
    model, region = certificate.model, certificate.region
    check_model(model)
    _check_region(model.X.shape[1], region)
    for claim in certificate.claims:
        _check_quantity(model, claim.quantity)
        limits = UNLIMITED if isinstance(claim.quantity, MarginQuantity) else LIMITS[model.likelihood]
        _check_claim(region, claim, limits)
    if certificate.origin is not None:
        _check_origin(model, region, certificate.origin)


def most_nodes(free_inputs: int) -> int:
    return min(MOST_NODES, MOST_ENDS // free_inputs)


def rebuild_boxes(
    region: StoredRegion, parent: IntArray, dim: IntArray, cut: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends [K, d] of all nodes from the cuts. Leaves cover the region's box by construction.

    Raises:
        MalformedError: if the nodes are not a tree of cuts of the region's box.
    """
    nodes, inputs = len(parent), len(region.free)
    if not (len(dim) == len(cut) == nodes and nodes % 2 == 1 and parent[0] == dim[0] == -1):
        _refuse("the tree of cuts has no root, or half a pair of siblings")
    odd, even = np.arange(1, nodes, 2), np.arange(2, nodes, 2)
    for values in (parent, dim, cut):
        if not np.array_equal(values[odd], values[even]):
            _refuse("two siblings come from different cuts")
    if len(np.unique(parent[odd])) != len(odd) or np.any(parent[odd] < 0) or np.any(parent[odd] >= odd):
        _refuse("a node is cut twice, or before it exists")
    if np.any(dim[odd] < 0) or np.any(dim[odd] >= inputs):
        _refuse("a cut through an input that is not free")
    lo, hi = np.empty((nodes, inputs)), np.empty((nodes, inputs))
    lo[0], hi[0] = region.lower, region.upper
    for node in odd.tolist():
        above, axis, at = parent[node], dim[node], cut[node]
        if not lo[above, axis] <= at <= hi[above, axis]:
            _refuse(f"node {above} is cut outside its box")
        lo[node : node + 2], hi[node : node + 2] = lo[above], hi[above]
        hi[node, axis], lo[node + 1, axis] = at, at
    return lo, hi


def _refuse(fault: str) -> NoReturn:
    raise MalformedError(fault)


def _check_numbers(what: str, *arrays: FloatArray) -> None:
    """Raise if products of the numbers might not be finite."""
    for array in arrays:
        if not np.all(np.abs(array) <= LARGEST):  # false for NaN
            _refuse(f"{what}: a number is not finite or beyond {LARGEST:g}")


def check_model(model: Model) -> None:
    """Raise if there is no plain bound of the model, or its arrays do not fit together or are too large.

    Raises:
        MalformedError: with the first fault.
    """
    if model.kernel not in CURVATURE or model.likelihood not in LIMITS:
        _refuse("a model of an unknown kernel or likelihood")
    n, inputs = model.X.shape
    functions = len(model.alpha)
    if not (2 <= functions <= MOST_FUNCTIONS if model.likelihood == SOFTMAX else functions == 1):
        _refuse(f"two classes or a regression have one latent function, the softmax 2 to {MOST_FUNCTIONS}")
    shapes = (
        n > 0,
        inputs > 0,
        model.lengthscales.shape == (inputs,),
        model.alpha.shape == (functions, n),
        model.root.shape == (len(model.weights), functions, n),
    )
    if not all(shapes):
        _refuse("the model's arrays do not fit together")
    positive = np.append(model.lengthscales, model.variance)
    _check_numbers("model", model.X, model.alpha, model.root, model.weights, positive)
    if not np.all(positive >= 1 / LARGEST):
        _refuse("the model's variance and lengthscales must be positive")
    if not (0 <= model.squeeze < 0.5 if model.likelihood in LINKS else model.squeeze == 0):
        _refuse("a squeeze belongs to a link, and is at least 0 and below 0.5 there")
    noisy = 1 / LARGEST <= model.noise <= LARGEST
    if not (noisy if model.likelihood == GAUSSIAN else model.noise == 0):
        _refuse("noise belongs to a regression, and is above 0 there")


def _check_region(inputs: int, region: StoredRegion) -> None:
    free = region.free
    if region.centre.shape != (inputs,) or not len(free) == len(region.lower) == len(region.upper) > 0:
        _refuse("the region does not fit the model")
    if np.any(np.diff(free) <= 0) or free[0] < 0 or free[-1] >= inputs:
        _refuse("the region's free inputs do not exist")
    _check_numbers("region", region.centre, region.lower, region.upper)
    if not np.all(region.lower <= region.upper):
        _refuse("the region is empty")
    centre = region.centre[free]
    if not np.all((region.lower <= centre) & (centre <= region.upper)):
        _refuse("the region misses its centre")
    ball = region.norm in ("l1", "l2") and 0 <= region.radius <= LARGEST
    if not ball and not (region.norm == "box" and region.radius == np.inf):
        _refuse("the region is a box without radius, or an l1 or l2 ball with one that is at least 0")


def _check_quantity(model: Model, quantity: Quantity) -> None:
    if isinstance(quantity, MarginQuantity):
        if model.likelihood != SOFTMAX or not 0 <= quantity.own < model.functions:
            _refuse("a margin of a class that the model does not have")
        return
    if not isinstance(quantity, ClassQuantity):
        if model.likelihood != GAUSSIAN or not 0 < quantity.level < 1:
            _refuse("a quantile of no regression, or of a level that is not between 0 and 1")
        return
    classes = quantity.classes
    fits = all(0 <= each < model.functions for each in classes) and len(set(classes)) == len(classes)
    if not (quantity == POSITIVE if model.likelihood in LINKS else fits and model.likelihood == SOFTMAX):
        _refuse("a class that the model does not have, or is compared with itself")


def _check_claim(region: StoredRegion, claim: Claim, limits: tuple[float, float]) -> None:
    """Raise if this is not a tree of cuts of the region's box with a claim within the limits."""
    least, most = limits
    leaves, nodes = len(claim.leaf), len(claim.parent)
    if not len(claim.leaf_bound) == len(claim.leaf_proved) == len(claim.leaf_threshold) == leaves or not nodes:
        _refuse("the leaves' entries are incomplete")
    if nodes > most_nodes(len(region.free)):
        _refuse(f"too large to check: {nodes} nodes")
    if not np.array_equal(np.sort(claim.leaf), np.setdiff1d(np.arange(nodes), claim.parent)):
        _refuse("the leaves listed are not those of the tree")
    if np.any(np.isnan(claim.leaf_bound)) or np.any(np.isnan(claim.leaf_threshold)):
        _refuse("a leaf states no bound, or no threshold")
    if np.any(claim.leaf_proved < 0) or np.any(claim.leaf_proved >= nodes):
        _refuse("a leaf cites a node that does not exist")
    if not least <= claim.outer <= most or (claim.inner is None) != (claim.witness is None):
        _refuse("a claim is not a probability or value, or has half a witness")
    if claim.inner is not None and claim.witness is not None:
        if not least <= claim.inner <= most or claim.witness.shape != region.free.shape:
            _refuse("a witness does not fit the region, or attains no such value")
        _check_numbers("witness", claim.witness)


def _check_origin(model: Model, region: StoredRegion, origin: Origin) -> None:
    (n, inputs), count = model.X.shape, len(origin.targets)
    if origin.inference not in INFERENCES[model.likelihood]:
        _refuse(f"an inference that is not one of {', '.join(INFERENCES[model.likelihood])}")
    variational = origin.inference in ("variational", "sparse")
    if model.squeeze != 0 and not variational:
        _refuse("a squeezed link, which Laplace's method and EP do not take")
    sparse = origin.inference in ("sparse", "minibatch") or (variational and len(origin.X) > 0)
    names = 2 if model.likelihood in LINKS else model.functions
    shapes = (
        origin.rows.shape == origin.targets.shape == (count,),
        origin.X.shape == (count if sparse else 0, inputs),
        sparse or count == n,
        origin.offset.shape == origin.scale.shape == (inputs,),
        origin.sites.shape == (2, n if origin.inference == "ep" else 0),
        len(origin.inputs) == len(region.free),
        len(origin.outputs) == names,
        count > 0,
    )
    if not all(shapes):
        _refuse("the origin's arrays do not fit the model")
    if np.any(origin.rows < 0) or not NO_ROW <= origin.row < 2**63:
        _refuse("rows are at least 0")
    shift = np.array([origin.target_offset])
    _check_numbers("origin", origin.offset, origin.scale, origin.X, origin.targets, origin.sites, shift)
    if not np.all(origin.scale >= 1 / LARGEST) or not 1 / LARGEST <= origin.target_scale <= LARGEST:
        _refuse("the scales must be positive")
    if model.likelihood != GAUSSIAN:
        if not np.isin(origin.targets, np.arange(names)).all():
            _refuse("labels are the numbers of the classes")
        if (origin.target_offset, origin.target_scale) != (0.0, 1.0):
            _refuse("labels have no scale")
    if not 0 <= origin.jitter <= (MOST_JITTER * model.variance if variational else 0):
        _refuse(f"a jitter above {MOST_JITTER:g} of the variance, or without inducing or variational values")
