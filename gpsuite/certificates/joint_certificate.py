"""The certificate of ranges of several classes or of a regression: any number of claims about one model and region.

Two files as those of a class probability: `NAME.npz` with plain arrays, the trees of all claims one after the other,
and `NAME.json` with the claims, names and the model's hash.

Equation: none, a file format
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.certificate import (
    FORMAT,
    REGION_ARRAYS,
    SIDES,
    TREE_ARRAYS,
    Claim,
    FileForm,
    StoredRegion,
    pack_region,
    parse_claim,
    parse_region,
    read_packed,
    write_packed,
)
from gpsuite.certificates.joint_quantity import (
    Quantity,
    pack_quantity,
    parse_quantity,
    whole,
)
from gpsuite.certificates.model import GAUSSIAN, JOINT_ARRAYS, SOFTMAX, JointModel
from gpsuite.untrusted import real, words

KINDS = {SOFTMAX: "robustness_classes", GAUSSIAN: "robustness_regression"}
VERSION = 1
LEAF_BOUND = {"name": "plain-joint", "version": 1}
ORIGIN_NAMES = (
    "dataset", "content", "row", "outputs", "inputs", "inference", "jitter", "target_offset", "target_scale",
)  # fmt: skip
ORIGIN_ARRAYS = ("rows", "targets", "offset", "scale", "X")
FORM = FileForm(
    tuple(KINDS.values()),
    "certificate of several classes or of a regression",
    VERSION,
    LEAF_BOUND,
    {"model_X": 2, "model_alpha": 2, "model_root": 3, "origin_X": 2},
)
NODE_ARRAYS = ("parent", "dim", "cut")  # the others but the witness are of leaves


@dataclass(frozen=True)
class StatedClaim:
    """One side of the range of a quantity."""

    quantity: Quantity
    claim: Claim


@dataclass(frozen=True)
class JointOrigin:
    """Where model and point come from.

    Attributes:
        dataset: its name.
        content: its content hash.
        row: the point's row in the dataset.
        outputs: names of the classes, or of the target.
        inputs: names of the region's free inputs.
        inference: "laplace" or "minibatch" for several classes; "exact" or "sparse" for a regression.
        rows: [N] the training rows in the dataset.
        targets: [N] numbers of the classes, or the targets that the model was given.
        offset: [D] inputs of the model are those of the dataset minus `offset`, over `scale`.
        scale: [D].
        X: [N, D] training inputs of a sparse regression, whose model holds the inducing inputs; else [0, D].
        jitter: on the inducing covariance's diagonal.
        target_offset: the model's targets are the dataset's minus this, over `target_scale`; 0 for classes.
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
    jitter: float = 0.0
    target_offset: float = 0.0
    target_scale: float = 1.0


@dataclass(frozen=True)
class JointCertificate:
    """A model, a region and claims.

    Attributes:
        model: the stored posterior.
        region: inputs over which the claims hold.
        claims: one for each side of a quantity.
        model_hash: SHA-256 of the model, as stated.
        search: which bound the searches used; for the reader only.
        origin: None where a posterior was certified of which nothing else is known.
    """

    model: JointModel
    region: StoredRegion
    claims: tuple[StatedClaim, ...]
    model_hash: str
    search: dict[str, Any]
    origin: JointOrigin | None = None


def pack_joint(certificate: JointCertificate) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return what the two files hold: the description, plain JSON values, and the arrays."""
    model, origin = certificate.model, certificate.origin
    arrays = {f"model_{name}": getattr(model, name) for name in JOINT_ARRAYS}
    arrays |= {f"region_{name}": getattr(certificate.region, name) for name in REGION_ARRAYS}
    trees = [stated.claim for stated in certificate.claims]
    for name in TREE_ARRAYS:
        parts = [getattr(tree, name) for tree in trees]
        arrays[f"tree_{name}"] = np.concatenate([np.empty(0) if part is None else part for part in parts])
    if origin is not None:
        arrays |= {f"origin_{name}": getattr(origin, name) for name in ORIGIN_ARRAYS}
    description = {
        "format": FORMAT,
        "kind": KINDS[model.likelihood],
        "version": VERSION,
        "claims": [
            pack_quantity(stated.quantity)
            | {
                "side": "maximum" if stated.claim.sign > 0 else "minimum",
                "outer": stated.claim.outer,
                "inner": stated.claim.inner,
                "nodes": len(stated.claim.parent),
                "leaves": len(stated.claim.leaf),
            }
            for stated in certificate.claims
        ],
        "model": {
            "kernel": model.kernel,
            "variance": model.variance,
            "likelihood": model.likelihood,
            "noise": model.noise,
            "sha256": certificate.model_hash,
        },
        "region": pack_region(certificate.region),
        "origin": None if origin is None else {name: getattr(origin, name) for name in ORIGIN_NAMES},
        "leaf_bound": LEAF_BOUND,
        "search": certificate.search,
    }
    return description, arrays


def write_joint(certificate: JointCertificate, path: Path) -> tuple[Path, Path]:
    """Write `path` with the suffixes .npz and .json, each whole or not at all; return both paths.

    Raises:
        OSError: if a file cannot be written.
    """
    return write_packed(*pack_joint(certificate), path)


def read_joint(path: Path, description: dict[str, Any] | None = None) -> JointCertificate:
    """Read a certificate; arguments and errors are those of `certificate.read_packed`."""
    certificate: JointCertificate = read_packed(path, description, FORM, _groups, _certificate)
    return certificate


def _groups(description: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return which arrays belong to a description."""
    groups = {"model": JOINT_ARRAYS, "region": REGION_ARRAYS, "tree": TREE_ARRAYS}
    return groups | ({} if description.get("origin") is None else {"origin": ORIGIN_ARRAYS})


def _certificate(description: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> JointCertificate:
    about, origin = description["model"], description["origin"]
    model = JointModel(
        kernel=words(about["kernel"]),
        variance=real(about["variance"]),
        likelihood=words(about["likelihood"]),
        noise=real(about["noise"]),
        **{name: arrays[f"model_{name}"] for name in JOINT_ARRAYS},
    )
    if KINDS.get(model.likelihood) != description["kind"]:
        raise ValueError("the model's likelihood is not the kind's")
    return JointCertificate(
        model,
        parse_region(description["region"], arrays),
        _claims(description["claims"], arrays),
        words(about["sha256"]),
        dict(description["search"]),
        None if origin is None else _origin(origin, arrays),
    )


def _claims(stated: Any, arrays: dict[str, npt.NDArray[Any]]) -> tuple[StatedClaim, ...]:
    """Cut the arrays of all trees into those of each."""
    if not isinstance(stated, list) or not stated:
        raise ValueError("claims nothing")
    free, at = len(arrays["region_free"]), {"node": 0, "leaf": 0, "witness": 0}
    found = []
    for each in stated:
        counts = {"node": whole(each["nodes"]), "leaf": whole(each["leaves"])}
        counts["witness"] = 0 if each["inner"] is None else free
        if min(counts.values()) < 0:
            raise ValueError("a claim has fewer than no nodes")
        parts = {}
        for name in TREE_ARRAYS:
            group = "witness" if name == "witness" else "node" if name in NODE_ARRAYS else "leaf"
            parts[name] = arrays[f"tree_{name}"][at[group] : at[group] + counts[group]]
            if len(parts[name]) != counts[group]:
                raise ValueError("the claims' trees are incomplete")
        at = {group: start + counts[group] for group, start in at.items()}
        found.append(StatedClaim(parse_quantity(each), parse_claim(SIDES[each["side"]], each, parts)))
    ends = {"node": "parent", "leaf": "leaf", "witness": "witness"}
    if any(len(arrays[f"tree_{name}"]) != at[group] for group, name in ends.items()):
        raise ValueError("trees that no claim states")
    return tuple(found)


def _origin(about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> JointOrigin:
    return JointOrigin(
        dataset=words(about["dataset"]),
        content=words(about["content"]),
        row=whole(about["row"]),
        outputs=tuple(words(name) for name in about["outputs"]),
        inputs=tuple(words(name) for name in about["inputs"]),
        inference=words(about["inference"]),
        jitter=real(about["jitter"]),
        target_offset=real(about["target_offset"]),
        target_scale=real(about["target_scale"]),
        **{name: arrays[f"origin_{name}"] for name in ORIGIN_ARRAYS},
    )
