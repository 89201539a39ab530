"""The certificate of a probability range: what is claimed about what, and the boxes and bounds that prove it.

Two files: `NAME.npz` with plain arrays (model, region, origin, one tree of cuts per claim) and `NAME.json` with the
claims, names and the model's hash. Nothing is pickled. Boxes are not stored: they follow from the cuts.

Equation: none, a file format
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.atomic import write_described
from gpsuite.certificates.plain_model import PlainModel
from gpsuite.untrusted import (
    UnusableFileError,
    file_pair,
    parse_fields,
    read_arrays,
    read_description,
    real,
    words,
)

FORMAT = "gpsuite-certificate"
KIND = "robustness"
VERSION = 3
LEAF_BOUND = {"name": "plain-taylor", "version": 3}
SIDES = {"minimum": -1, "maximum": 1}
MODEL_ARRAYS = ("X", "lengthscales", "alpha", "root", "weights")
REGION_ARRAYS = ("centre", "free", "lower", "upper")
TREE_ARRAYS = ("parent", "dim", "cut", "leaf", "leaf_bound", "leaf_threshold", "leaf_proved", "witness")
ORIGIN_NAMES = ("dataset", "content", "row", "classes", "inputs", "inference", "jitter")
ORIGIN_ARRAYS = ("rows", "labels", "offset", "scale", "sites", "X")
INTEGERS = ("free", "parent", "dim", "leaf", "leaf_proved", "rows")


@dataclass(frozen=True)
class FileForm:
    """What the two files of one sort of certificate hold.

    Attributes:
        kinds: that the description may state.
        name: of the sort, for messages.
        version: of the format.
        leaf_bound: name and version of the bound that recomputes the leaves.
        axes: of arrays that have more than one.
    """

    kinds: tuple[str, ...]
    name: str
    version: int
    leaf_bound: dict[str, Any]
    axes: Mapping[str, int]


FORM = FileForm(
    (KIND,),
    "robustness certificate",
    VERSION,
    LEAF_BOUND,
    {"model_X": 2, "model_root": 2, "origin_sites": 2, "origin_X": 2},
)


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
    """One side of the range.

    Attributes:
        sign: 1: no probability exceeds `outer`; -1: none is below it.
        outer: the claimed bound of the probability.
        inner: probability claimed at the witness, or None without a witness.
        witness: [d] free inputs, or None.
        parent: [K] node that was cut, -1 for the root; nodes 2k+1, 2k+2 are lower and upper sibling.
        dim: [K] free input that was cut.
        cut: [K] where.
        leaf: [L] nodes without children.
        leaf_bound: [L] stated bound of the score there.
        leaf_threshold: [L] T, the score at whose level the bound was taken; any other would do, but not as well.
        leaf_proved: [L] the leaf itself or the ancestor whose bound it is.
    """

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


@dataclass(frozen=True)
class Origin:
    """Where model and point come from, as far as it was said.

    Attributes:
        dataset: its name.
        content: its content hash.
        row: the point's row in the dataset.
        classes: names of the negative and the positive class.
        inputs: names of the region's free inputs.
        inference: "laplace", "ep", "variational", or "minibatch" where training ended before an optimum.
        rows: [N] the training rows in the dataset.
        labels: [N] -1 or 1.
        offset: [D] inputs of the model are those of the dataset minus `offset`, over `scale`.
        scale: [D].
        sites: [2, N] precision and shift of EP's sites; [2, 0] for the others, whose sites follow from the posterior.
        X: [N, D] training inputs of a sparse variational posterior, whose model holds the inducing inputs; [0, D]
            where the model's own inputs are the training inputs.
        jitter: what the prior covariance of the variational values has on its diagonal beside the kernel; 0 for others.
    """

    dataset: str
    content: str
    row: int
    classes: tuple[str, str]
    inputs: tuple[str, ...]
    inference: str
    rows: IntArray
    labels: FloatArray
    offset: FloatArray
    scale: FloatArray
    sites: FloatArray
    X: FloatArray
    jitter: float = 0.0


@dataclass(frozen=True)
class Certificate:
    """A model, a region and up to two claims.

    Attributes:
        model: the stored posterior.
        region: inputs over which the claim holds, `robustness.linf_ball` and the like.
        claims: the smaller sign first.
        model_hash: SHA-256 of the model, as stated.
        search: which bound the search used, and whether seconds ended the certificate; for the reader only.
        origin: None where a posterior was certified of which nothing else is known.
    """

    model: PlainModel
    region: StoredRegion
    claims: tuple[Claim, ...]
    model_hash: str
    search: dict[str, Any]
    origin: Origin | None = None


def model_hash(model: PlainModel) -> str:
    """Return the SHA-256 of the model's structure and floats (little-endian, row by row)."""
    digest = hashlib.sha256(f"{model.kernel} {model.variance!r} {model.link} {model.squeeze!r}".encode())
    for name in MODEL_ARRAYS:
        array = np.ascontiguousarray(getattr(model, name), dtype="<f8")
        digest.update(f" {name} {array.shape} ".encode() + array.tobytes())
    return digest.hexdigest()


def pack(certificate: Certificate) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return what the two files hold: the description, plain JSON values, and the arrays."""
    arrays = {f"model_{name}": getattr(certificate.model, name) for name in MODEL_ARRAYS}
    arrays |= {f"region_{name}": getattr(certificate.region, name) for name in REGION_ARRAYS}
    claims: dict[str, Any] = {}
    for claim in certificate.claims:
        side = "maximum" if claim.sign > 0 else "minimum"
        claims[side] = {"outer": claim.outer, "inner": claim.inner}
        for name in TREE_ARRAYS:
            value = getattr(claim, name)
            arrays[f"{side}_{name}"] = np.empty(0) if value is None else value
    model, origin = certificate.model, certificate.origin
    if origin is not None:
        arrays |= {f"origin_{name}": getattr(origin, name) for name in ORIGIN_ARRAYS}
    description = {
        "format": FORMAT,
        "kind": KIND,
        "version": VERSION,
        "claims": claims,
        "model": {
            "kernel": model.kernel,
            "variance": model.variance,
            "link": model.link,
            "squeeze": model.squeeze,
            "sha256": certificate.model_hash,
        },
        "region": pack_region(certificate.region),
        "origin": None if origin is None else {name: getattr(origin, name) for name in ORIGIN_NAMES},
        "leaf_bound": LEAF_BOUND,
        "search": certificate.search,
    }
    return description, arrays


def pack_region(region: StoredRegion) -> dict[str, Any]:
    """Return what the description holds of a region beside its arrays."""
    return {"norm": region.norm, "radius": None if region.norm == "box" else region.radius}


def parse_region(stated: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> StoredRegion:
    """Return the region of a description and its arrays.

    Raises:
        KeyError, ValueError: if there is none.
    """
    return StoredRegion(
        **{name: arrays[f"region_{name}"] for name in REGION_ARRAYS},
        norm=words(stated["norm"]),
        radius=np.inf if stated["radius"] is None else real(stated["radius"]),
    )


def write_certificate(certificate: Certificate, path: Path) -> tuple[Path, Path]:
    """Write `path` with the suffixes .npz and .json, each whole or not at all; return both paths.

    Raises:
        OSError: if a file cannot be written.
    """
    return write_packed(*pack(certificate), path)


def write_packed(
    description: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], path: Path
) -> tuple[Path, Path]:
    """Write what `pack` returned, as `write_certificate` does.

    Raises:
        OSError: if a file cannot be written.
    """
    npz, other = file_pair(path)
    write_described(npz, other, description, arrays)
    return npz, other


def read_packed(
    path: Path,
    description: dict[str, Any] | None,
    form: FileForm,
    groups: Callable[[dict[str, Any]], Mapping[str, tuple[str, ...]]],
    parse: Callable[[dict[str, Any], dict[str, npt.NDArray[Any]]], Any],
) -> Any:
    """Read a certificate by the path of either file.

    Args:
        path: NAME.npz, NAME.json or NAME.
        description: what `read_description` returned for it, if that was done already.
        form: of such files.
        groups: names of the arrays by group, as a description has them.
        parse: makes the certificate of a description and its arrays.

    Raises:
        UnusableFileError: if a file is missing, damaged, incomplete, or of another format or version.
    """
    npz, other = file_pair(path)
    found = read_description(other) if description is None else description
    if found.get("format") != FORMAT or found.get("kind") not in form.kinds:
        raise UnusableFileError(f"{other}: not a {form.name}")
    if found.get("version") != form.version or found.get("leaf_bound") != form.leaf_bound:
        raise UnusableFileError(
            f"{other}: a certificate of another version (this gpsuite reads {form.version}); run the experiment again"
        )
    named: Mapping[str, tuple[str, ...]] = parse_fields(other, lambda: groups(found))
    expected = {
        f"{group}_{name}": (
            np.int64 if name in INTEGERS else np.float64,
            form.axes.get(f"{group}_{name}", 1),
        )
        for group, names in named.items()
        for name in names
    }
    arrays = read_arrays(npz, expected)
    return parse_fields(other, lambda: parse(found, arrays))


def read_certificate(path: Path, description: dict[str, Any] | None = None) -> Certificate:
    """Read the certificate of a class probability; arguments and errors are those of `read_packed`."""
    certificate: Certificate = read_packed(path, description, FORM, _groups, _certificate)
    return certificate


def _groups(description: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return which arrays belong to a description."""
    if not description["claims"] or not set(description["claims"]) <= set(SIDES):
        raise ValueError(f"claims are of {' and '.join(SIDES)}")
    groups = {"model": MODEL_ARRAYS, "region": REGION_ARRAYS} | dict.fromkeys(
        description["claims"], TREE_ARRAYS
    )
    return groups | ({} if description["origin"] is None else {"origin": ORIGIN_ARRAYS})


def _certificate(description: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Certificate:
    about = description["model"]
    model = PlainModel(
        kernel=words(about["kernel"]),
        variance=real(about["variance"]),
        link=words(about["link"]),
        squeeze=real(about["squeeze"]),
        **{name: arrays[f"model_{name}"] for name in MODEL_ARRAYS},
    )
    stored = parse_region(description["region"], arrays)
    stated = description["claims"]
    claims = tuple(_claim(side, stated[side], arrays) for side in SIDES if side in stated)
    origin = None if description["origin"] is None else _origin(description["origin"], arrays)
    return Certificate(model, stored, claims, words(about["sha256"]), dict(description["search"]), origin)


def _origin(about: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Origin:
    negative, positive = about["classes"]
    row = about["row"]
    if isinstance(row, bool) or not isinstance(row, int):
        raise ValueError("the row is not a whole number")
    return Origin(
        dataset=words(about["dataset"]),
        content=words(about["content"]),
        row=row,
        classes=(words(negative), words(positive)),
        inputs=tuple(words(name) for name in about["inputs"]),
        inference=words(about["inference"]),
        jitter=real(about["jitter"]),
        **{name: arrays[f"origin_{name}"] for name in ORIGIN_ARRAYS},
    )


def _claim(side: str, stated: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Claim:
    return parse_claim(SIDES[side], stated, {name: arrays[f"{side}_{name}"] for name in TREE_ARRAYS})


def parse_claim(sign: int, stated: dict[str, Any], tree: dict[str, npt.NDArray[Any]]) -> Claim:
    """Return the claim of a description and the arrays of its tree.

    Raises:
        KeyError, ValueError: if there is none.
    """
    inner = stated["inner"]
    parts = {name: tree[name] for name in TREE_ARRAYS if name != "witness"}
    return Claim(
        sign=sign,
        outer=real(stated["outer"]),
        inner=None if inner is None else real(inner),
        witness=None if inner is None else tree["witness"],
        **parts,
    )
