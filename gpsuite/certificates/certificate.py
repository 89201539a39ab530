"""The certificate of ranges: claims about a model, and the boxes and bounds that prove them.

There is one format for class probabilities, for margins between classes, and for predictive quantiles. The description
holds claims, names and the model's hash. The arrays hold model, region, origin, and the trees of cuts of all claims in
sequence. Boxes are not stored: they follow from the cuts.

Equation: Blaas et al. 2020, Definition 2
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.envelope import FORMAT, VERSION, read_content, read_envelope, write_packed
from gpsuite.certificates.model import GAUSSIAN, LOGISTIC, MODEL_ARRAYS, PROBIT, SOFTMAX, Model, pack_model, parse_model
from gpsuite.untrusted import UnusableFileError, file_pair, parse_fields, real, words

KINDS = {
    PROBIT: "classification", LOGISTIC: "classification", SOFTMAX: "classification", GAUSSIAN: "regression",
}  # fmt: skip
SIDES = {"minimum": -1, "maximum": 1}
REGION_ARRAYS = ("centre", "free", "lower", "upper")
NODE_ARRAYS = ("parent", "dim", "cut")
LEAF_ARRAYS = ("leaf", "leaf_bound", "leaf_threshold", "leaf_proved")
TREE_ARRAYS = (*NODE_ARRAYS, *LEAF_ARRAYS, "witness")
ORIGIN_NAMES = (
    "dataset", "content", "row", "outputs", "inputs", "inference", "jitter", "target_offset", "target_scale",
)  # fmt: skip
ORIGIN_ARRAYS = ("rows", "targets", "offset", "scale", "X", "sites")
INTEGERS = ("free", "parent", "dim", "leaf", "leaf_proved", "rows")
AXES = {f"model_{name}": axes for name, axes in MODEL_ARRAYS.items()} | {
    "origin_X": 2,
    "origin_sites": 2,
}  # the others: one


@dataclass(frozen=True)
class ClassQuantity:
    """The probability of a class, or (1 + p_own - p_rival) / 2. The latter is above 1/2 if `own` exceeds `rival`."""

    own: int
    rival: int | None = None

    @property
    def classes(self) -> tuple[int, ...]:
        return (self.own,) if self.rival is None else (self.own, self.rival)


@dataclass(frozen=True)
class MarginQuantity:
    """Margin of a class in the latent functions (`plain_margin`). Above 0 the class is the most probable one."""

    own: int


@dataclass(frozen=True)
class QuantileQuantity:
    """A predictive quantile of this level in (0, 1), in the units of the model. At 0.5 it is the mean."""

    level: float


Quantity = ClassQuantity | MarginQuantity | QuantileQuantity
NO_ROW = -1  # `Origin.row` of a point that is stated by its inputs: a row of the dataset or not
POSITIVE = ClassQuantity(1)  # of two classes that share one latent function


@dataclass(frozen=True)
class StoredRegion:
    """The region's floats, as in `regions.Region`: centre [D], free [d], lower and upper [d], norm and radius."""

    centre: FloatArray
    free: IntArray
    lower: FloatArray
    upper: FloatArray
    norm: str
    radius: float


@dataclass(frozen=True)
class Claim:
    """One side of the range of a quantity.

    Attributes:
        quantity: the bounded quantity.
        sign: 1 if no value exceeds `outer`, -1 if none is below it.
        outer: the claimed bound.
        inner: value claimed at the witness, or None without a witness.
        witness: [d] free inputs, or None.
        parent: [K] node that was cut, -1 for the root. Nodes 2k+1, 2k+2 are lower and upper sibling.
        dim: [K] free input that was cut.
        cut: [K] place of the cut.
        leaf: [L] nodes without children.
        leaf_bound: [L] stated bound of the score there.
        leaf_threshold: [L] T, the score at which the bound was taken. Other scores give sound but looser bounds.
        leaf_proved: [L] the leaf itself or the ancestor for which the bound was computed.
    """

    quantity: Quantity
    sign: int
    outer: float
    inner: float | None
    witness: FloatArray | None
    parent: IntArray
    dim: IntArray
    cut: FloatArray
    leaf: IntArray
    leaf_bound: FloatArray
    leaf_threshold: FloatArray
    leaf_proved: IntArray

    @property
    def side(self) -> str:
        return "maximum" if self.sign > 0 else "minimum"

    @property
    def proves_margin(self) -> bool:
        """Whether the claim proves that a class is the most probable one everywhere."""
        return isinstance(self.quantity, MarginQuantity) and self.sign < 0 and self.outer > 0.0


@dataclass(frozen=True)
class Origin:
    """Origin of model and point, as far as it is stated.

    Attributes:
        dataset: name of the dataset.
        content: content hash of the dataset.
        row: the point's row in the dataset. `NO_ROW` of a point that is stated only by its inputs.
        outputs: names of the classes, or of the target.
        inputs: names of the region's free inputs.
        inference: a key of `form.INFERENCES`. "minibatch" if training ended before an optimum.
        rows: [N] the training rows in the dataset.
        targets: [N] numbers of the classes, or the targets given to the model.
        offset: [D] model inputs are the dataset's minus `offset`, over `scale`.
        scale: [D].
        X: [N, D] training inputs of a sparse posterior, otherwise [0, D]. A sparse model holds the inducing inputs.
        sites: [2, N] precision and shift of EP's sites, otherwise [2, 0]. Other sites follow from the posterior.
        jitter: jitter on the diagonal of the prior covariance of inducing or variational values, 0 for others.
        target_offset: the model's targets are the dataset's minus this, over `target_scale`, 0 for classes.
        target_scale: 1 for classes.
    """

    dataset: str
    content: str
    row: int
    outputs: tuple[str, ...]
    inputs: tuple[str, ...]
    inference: str
    rows: IntArray
    targets: FloatArray
    offset: FloatArray
    scale: FloatArray
    X: FloatArray
    sites: FloatArray
    jitter: float = 0.0
    target_offset: float = 0.0
    target_scale: float = 1.0


@dataclass(frozen=True)
class Certificate:
    """A model, a region and claims.

    Attributes:
        model: the stored posterior.
        region: inputs over which the claims hold, such as `robustness.linf_ball`.
        claims: claims, one for each side of a quantity.
        model_hash: SHA-256 of the model, as stated.
        search: the search's bound, and whether seconds ended the certificate. Only for the reader.
        origin: rows and names behind the posterior. None if only the posterior is known.
    """

    model: Model
    region: StoredRegion
    claims: tuple[Claim, ...]
    model_hash: str
    search: dict[str, Any]
    origin: Origin | None = None


def pack(certificate: Certificate) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the contents of the two files: the description, plain JSON values, and the arrays."""
    model, region, origin = certificate.model, certificate.region, certificate.origin
    about, arrays = pack_model(model)
    arrays |= {f"region_{name}": getattr(region, name) for name in REGION_ARRAYS}
    for name in TREE_ARRAYS:
        parts = [getattr(claim, name) for claim in certificate.claims]
        arrays[f"tree_{name}"] = np.concatenate([np.empty(0) if part is None else part for part in parts])
    if origin is not None:
        arrays |= {f"origin_{name}": getattr(origin, name) for name in ORIGIN_ARRAYS}
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kind": KINDS[model.likelihood],
        "claims": [_pack_claim(claim) for claim in certificate.claims],
        "model": about | {"sha256": certificate.model_hash},
        "region": {"norm": region.norm, "radius": None if region.norm == "box" else region.radius},
        "origin": None if origin is None else {name: getattr(origin, name) for name in ORIGIN_NAMES},
        "search": certificate.search,
    }
    return description, arrays


def _pack_claim(claim: Claim) -> dict[str, Any]:
    return _pack_quantity(claim.quantity) | {
        "side": claim.side,
        "outer": claim.outer,
        "inner": claim.inner,
        "nodes": len(claim.parent),
        "leaves": len(claim.leaf),
    }


def _pack_quantity(quantity: Quantity) -> dict[str, Any]:
    if isinstance(quantity, QuantileQuantity):
        return {"level": quantity.level}
    if isinstance(quantity, MarginQuantity):
        return {"leads": quantity.own}
    return {"class": quantity.own, "rival": quantity.rival}


def write_certificate(certificate: Certificate, path: Path) -> tuple[Path, Path]:
    """Write `path` with the suffixes .npz and .json, each file whole or not at all. Return both paths.

    Raises:
        OSError: if a file cannot be written.
    """
    return write_packed(*pack(certificate), path)


def read_certificate(path: Path, description: dict[str, Any] | None = None) -> Certificate:
    """Return a certificate by the path of either file.

    Args:
        path: NAME.npz, NAME.json or NAME.
        description: result of `read_envelope` for it, if already read.

    Raises:
        UnusableFileError: if a file is missing, damaged, incomplete, or of another format or version.
    """
    other = file_pair(path)[1]
    found = read_envelope(path) if description is None else description
    if found.get("kind") not in KINDS.values():
        raise UnusableFileError(f"{other}: not a certificate of classes or of a regression")
    groups = {"model": tuple(MODEL_ARRAYS), "region": REGION_ARRAYS, "tree": TREE_ARRAYS}
    if found.get("origin") is not None:
        groups["origin"] = ORIGIN_ARRAYS
    expected: dict[str, tuple[type[np.generic], int]] = {
        f"{group}_{name}": (np.int64 if name in INTEGERS else np.float64, AXES.get(f"{group}_{name}", 1))
        for group, names in groups.items()
        for name in names
    }
    arrays = read_content(path, found, expected)
    certificate: Certificate = parse_fields(other, lambda: _parse(found, arrays))
    return certificate


def _parse(description: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Certificate:
    about, region, origin = description["model"], description["region"], description["origin"]
    model = parse_model(about, arrays)
    if KINDS.get(model.likelihood) != description["kind"]:
        raise ValueError("the model's likelihood is not the kind's")
    stored = StoredRegion(
        **{name: arrays[f"region_{name}"] for name in REGION_ARRAYS},
        norm=words(region["norm"]),
        radius=np.inf if region["radius"] is None else real(region["radius"]),
    )
    return Certificate(
        model,
        stored,
        _parse_claims(description["claims"], arrays),
        words(about["sha256"]),
        dict(description["search"]),
        None if origin is None else _parse_origin(origin, arrays),
    )


def _parse_claims(stated: Any, arrays: dict[str, npt.NDArray[Any]]) -> tuple[Claim, ...]:
    """Return the claims: the arrays of all trees are cut into those of each."""
    if not isinstance(stated, list) or not stated:
        raise ValueError("claims nothing")
    free, at = len(arrays["region_free"]), {"node": 0, "leaf": 0, "witness": 0}
    found = []
    for each in stated:
        counts = {"node": _whole(each["nodes"]), "leaf": _whole(each["leaves"])}
        counts["witness"] = 0 if each["inner"] is None else free
        if min(counts.values()) < 0:
            raise ValueError("a claim has a negative number of nodes")
        parts = {}
        for name in TREE_ARRAYS:
            group = "node" if name in NODE_ARRAYS else "leaf" if name in LEAF_ARRAYS else "witness"
            parts[name] = arrays[f"tree_{name}"][at[group] : at[group] + counts[group]]
            if len(parts[name]) != counts[group]:
                raise ValueError("the claims' trees are incomplete")
        at = {group: start + counts[group] for group, start in at.items()}
        found.append(_parse_claim(each, parts))
    ends = {"node": "parent", "leaf": "leaf", "witness": "witness"}
    if any(len(arrays[f"tree_{name}"]) != at[group] for group, name in ends.items()):
        raise ValueError("trees that no claim states")
    return tuple(found)


def _parse_claim(stated: dict[str, Any], tree: dict[str, npt.NDArray[Any]]) -> Claim:
    inner = stated["inner"]
    witness = tree.pop("witness")
    return Claim(
        quantity=_parse_quantity(stated),
        sign=SIDES[words(stated["side"])],
        outer=real(stated["outer"]),
        inner=None if inner is None else real(inner),
        witness=None if inner is None else witness,
        **tree,
    )


def _parse_quantity(stated: dict[str, Any]) -> Quantity:
    if "level" in stated:
        return QuantileQuantity(real(stated["level"]))
    if "leads" in stated:
        return MarginQuantity(_whole(stated["leads"]))
    rival = stated["rival"]
    return ClassQuantity(_whole(stated["class"]), None if rival is None else _whole(rival))


def _parse_origin(about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Origin:
    return Origin(
        dataset=words(about["dataset"]),
        content=words(about["content"]),
        row=_whole(about["row"]),
        outputs=tuple(words(name) for name in about["outputs"]),
        inputs=tuple(words(name) for name in about["inputs"]),
        inference=words(about["inference"]),
        jitter=real(about["jitter"]),
        target_offset=real(about["target_offset"]),
        target_scale=real(about["target_scale"]),
        **{name: arrays[f"origin_{name}"] for name in ORIGIN_ARRAYS},
    )


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("a number is not whole")
    return value
