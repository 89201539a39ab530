"""Whether a certificate is one at all: arrays that fit together, a region with its centre, trees that are trees.

Nothing here costs more than reading the arrays once, so that a malformed certificate is refused before any work.

Equation: none, a file format
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.certificate import Certificate, Claim, Origin, StoredRegion
from gpsuite.certificates.plain_kernel import CURVATURE
from gpsuite.certificates.plain_model import PlainModel

LARGEST = 1e100  # of any number: products of a few of them are still finite in extended precision
MOST_JITTER = 1e-3  # of the prior variance: with more of it the values would not be the function's
INFERENCES = ("laplace", "ep", "variational", "minibatch")
MOST_NODES, MOST_ENDS = 1 << 18, 1 << 23  # of a tree, and times the free inputs: a second and 128 MB


class StoredLatent(Protocol):
    """The arrays of a stored latent function, or of several."""

    @property
    def X(self) -> FloatArray: ...  # noqa: D102
    @property
    def variance(self) -> float: ...  # noqa: D102
    @property
    def lengthscales(self) -> FloatArray: ...  # noqa: D102
    @property
    def alpha(self) -> FloatArray: ...  # noqa: D102
    @property
    def root(self) -> FloatArray: ...  # noqa: D102
    @property
    def weights(self) -> FloatArray: ...  # noqa: D102


class MalformedError(ValueError):
    """What is stored is not a certificate."""


def check_form(certificate: Certificate) -> None:
    """Refuse what is not a certificate.

    Raises:
        MalformedError: with the first fault.
    """
    _check_model(certificate.model)
    check_region(certificate.model.X.shape[1], certificate.region)
    for claim in certificate.claims:
        check_claim(certificate.region, claim, (0.0, 1.0))
    if certificate.origin is not None:
        _check_origin(certificate.model, certificate.region, certificate.origin)


def most_nodes(free_inputs: int) -> int:
    """Return how many nodes a tree may have."""
    return min(MOST_NODES, MOST_ENDS // free_inputs)


def rebuild_boxes(
    region: StoredRegion, parent: IntArray, dim: IntArray, cut: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper ends [K, d] of all nodes from the cuts; leaves cover the region's box by construction.

    Raises:
        MalformedError: if the nodes are not a tree of cuts of the region's box.
    """
    nodes, inputs = len(parent), len(region.free)
    if not (len(dim) == len(cut) == nodes and nodes % 2 == 1 and parent[0] == dim[0] == -1):
        refuse("the tree of cuts has no root, or half a pair of siblings")
    odd, even = np.arange(1, nodes, 2), np.arange(2, nodes, 2)
    for values in (parent, dim, cut):
        if not np.array_equal(values[odd], values[even]):
            refuse("two siblings come from different cuts")
    if len(np.unique(parent[odd])) != len(odd) or np.any(parent[odd] < 0) or np.any(parent[odd] >= odd):
        refuse("a node is cut twice, or before it exists")
    if np.any(dim[odd] < 0) or np.any(dim[odd] >= inputs):
        refuse("a cut through an input that is not free")
    lo, hi = np.empty((nodes, inputs)), np.empty((nodes, inputs))
    lo[0], hi[0] = region.lower, region.upper
    for node in odd.tolist():
        above, axis, at = parent[node], dim[node], cut[node]
        if not lo[above, axis] <= at <= hi[above, axis]:
            refuse(f"node {above} is cut outside its box")
        lo[node : node + 2], hi[node : node + 2] = lo[above], hi[above]
        hi[node, axis], lo[node + 1, axis] = at, at
    return lo, hi


def refuse(fault: str) -> None:
    """Say that what is stored is not a certificate.

    Raises:
        MalformedError: with the fault.
    """
    raise MalformedError(fault)


def check_numbers(what: str, *arrays: FloatArray) -> None:
    """Refuse numbers of which products might not be finite.

    Raises:
        MalformedError: naming what they belong to.
    """
    for array in arrays:
        if not np.all(np.abs(array) <= LARGEST):  # false for NaN
            refuse(f"{what}: a number is not finite or beyond {LARGEST:g}")


def check_latent(model: StoredLatent, functions: tuple[int, ...]) -> FloatArray:
    """Refuse arrays that do not fit together or are too large; `functions` stands before the data in their shapes.

    Returns:
        what must be positive: lengthscales and variance.

    Raises:
        MalformedError: with the first fault.
    """
    n, inputs = model.X.shape
    shapes = (
        n > 0,
        inputs > 0,
        model.lengthscales.shape == (inputs,),
        model.alpha.shape == (*functions, n),
        model.root.shape == (len(model.weights), *functions, n),
    )
    if not all(shapes):
        refuse("the model's arrays do not fit together")
    positive = np.append(model.lengthscales, model.variance)
    check_numbers("model", model.X, model.alpha, model.root, model.weights, positive)
    return positive


def _check_model(model: PlainModel) -> None:
    positive = check_latent(model, ())
    if not np.all(positive >= 1 / LARGEST) or not 0 <= model.squeeze < 0.5:
        refuse("the model's variance and lengthscales must be positive, its squeeze at least 0 and below .5")
    if model.kernel not in CURVATURE or model.link not in ("probit", "logistic"):
        refuse("a model of an unknown kernel or link")


def check_region(inputs: int, region: StoredRegion) -> None:
    """Refuse what is not a region of so many inputs.

    Raises:
        MalformedError: with the first fault.
    """
    free = region.free
    if region.centre.shape != (inputs,) or not len(free) == len(region.lower) == len(region.upper) > 0:
        refuse("the region does not fit the model")
    if np.any(np.diff(free) <= 0) or free[0] < 0 or free[-1] >= inputs:
        refuse("the region's free inputs do not exist")
    check_numbers("region", region.centre, region.lower, region.upper)
    if not np.all(region.lower <= region.upper):
        refuse("the region is empty")
    centre = region.centre[free]
    if not np.all((region.lower <= centre) & (centre <= region.upper)):
        refuse("the region misses its centre")
    ball = region.norm in ("l1", "l2") and 0 <= region.radius <= LARGEST
    if not ball and not (region.norm == "box" and region.radius == np.inf):
        refuse("the region is a box without radius, or an l1 or l2 ball with one that is at least 0")


def check_claim(region: StoredRegion, claim: Claim, limits: tuple[float, float]) -> None:
    """Refuse what is not a tree of cuts of the region's box with a claim within the limits.

    Raises:
        MalformedError: with the first fault.
    """
    least, most = limits
    leaves, nodes = len(claim.leaf), len(claim.parent)
    if (
        not len(claim.leaf_bound) == len(claim.leaf_proved) == len(claim.leaf_threshold) == leaves
        or not nodes
    ):
        refuse("the leaves' entries are incomplete")
    if nodes > most_nodes(len(region.free)):
        refuse(f"too large to check: {nodes} nodes")
    if not np.array_equal(np.sort(claim.leaf), np.setdiff1d(np.arange(nodes), claim.parent)):
        refuse("the leaves listed are not those of the tree")
    if np.any(np.isnan(claim.leaf_bound)) or np.any(np.isnan(claim.leaf_threshold)):
        refuse("a leaf states no bound, or no threshold")
    if np.any(claim.leaf_proved < 0) or np.any(claim.leaf_proved >= nodes):
        refuse("a leaf cites a node that does not exist")
    if not least <= claim.outer <= most or (claim.inner is None) != (claim.witness is None):
        refuse("a claim is not a probability, or has half a witness")
    if claim.inner is not None and claim.witness is not None:
        if not least <= claim.inner <= most or claim.witness.shape != region.free.shape:
            refuse("a witness does not fit the region, or attains no probability")
        check_numbers("witness", claim.witness)


def _check_origin(model: PlainModel, region: StoredRegion, origin: Origin) -> None:
    (n, inputs), count = model.X.shape, len(origin.labels)
    if origin.inference not in INFERENCES:
        refuse(f"an inference that is not one of {', '.join(INFERENCES)}")
    variational = origin.inference == "variational"
    if model.squeeze != 0 and not variational:
        refuse("a squeezed link, which neither Laplace's method nor EP takes")
    minibatch = origin.inference == "minibatch"
    sparse = minibatch or (variational and len(origin.X) > 0)
    shapes = (
        origin.rows.shape == origin.labels.shape == (count,),
        origin.X.shape == (count if sparse else 0, inputs),
        sparse or count == n,
        origin.offset.shape == origin.scale.shape == (inputs,),
        origin.sites.shape == (2, n if origin.inference == "ep" else 0),
        len(origin.inputs) == len(region.free),
        count > 0,
    )
    if not all(shapes):
        refuse("the origin's arrays do not fit the model")
    if not np.all(np.abs(origin.labels) == 1) or np.any(origin.rows < 0) or not 0 <= origin.row < 2**63:
        refuse("labels are -1 or 1, rows at least 0")
    check_numbers("origin", origin.offset, origin.scale, origin.sites, origin.X)
    if not np.all(origin.scale >= 1 / LARGEST):
        refuse("the scale must be positive")
    if not 0 <= origin.jitter <= (MOST_JITTER * model.variance if variational else 0):
        refuse(f"a jitter above {MOST_JITTER:g} of the variance, or without variational values")
