"""The certificate of a probability range: what is claimed, and the boxes and bounds that prove it.

Two files: `NAME.npz` with plain arrays (model, region, one tree of cuts per claim) and `NAME.json` with the claims,
the region's kind and the model's hash. Nothing is pickled. Boxes are not stored: they follow from the cuts.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.atomic import write_atomically
from gpsuite.errors import UserError
from gpsuite.methods.robustness.plain_bound import FloatArray, PlainModel

IntArray = npt.NDArray[np.int64]

FORMAT = "gpsuite-robustness-certificate"
FORMAT_VERSION = 1
LEAF_BOUND = {"name": "plain-taylor", "version": 1}
SIDES = {"minimum": -1, "maximum": 1}
MODEL_ARRAYS = ("X", "lengthscales", "alpha", "root", "weights")
REGION_ARRAYS = ("centre", "free", "lower", "upper")
TREE_ARRAYS = ("parent", "dim", "cut", "leaf", "leaf_bound", "leaf_proved", "leaf_degree", "witness")
INTEGERS = ("free", "parent", "dim", "leaf", "leaf_proved", "leaf_degree")


class CertificateError(UserError):
    """A certificate cannot be read: missing, damaged, or of another format."""


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
        leaf_proved: [L] the leaf itself or the ancestor whose bound it is.
        leaf_degree: [L] degree of the expansion.
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
    leaf_proved: IntArray
    leaf_degree: IntArray


@dataclass(frozen=True)
class Certificate:
    """A model, a region and up to two claims; `search` says which bound the search used (for the reader only)."""

    model: PlainModel
    region: StoredRegion
    claims: tuple[Claim, ...]
    model_hash: str
    search: dict[str, Any]


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
    model, region = certificate.model, certificate.region
    description = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "claims": claims,
        "model": {
            "kernel": model.kernel,
            "variance": model.variance,
            "link": model.link,
            "squeeze": model.squeeze,
            "sha256": certificate.model_hash,
        },
        "region": {"norm": region.norm, "radius": None if region.norm == "box" else region.radius},
        "leaf_bound": LEAF_BOUND,
        "search": certificate.search,
    }
    return description, arrays


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
    text = json.dumps(description, indent=2, allow_nan=False) + "\n"
    npz, other = _paths(path)
    write_atomically(npz, lambda stream: np.savez(stream, **arrays))
    write_atomically(other, lambda stream: stream.write(text.encode()))
    return npz, other


def read_certificate(path: Path) -> Certificate:
    """Read a certificate by the path of either file.

    Raises:
        CertificateError: if a file is missing, damaged, incomplete, or of another format or version.
    """
    npz, other = _paths(path)
    description = _read_json(other)
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise CertificateError(f"{other}: not a robustness certificate")
    if description.get("version") != FORMAT_VERSION or description.get("leaf_bound") != LEAF_BOUND:
        raise CertificateError(f"{other}: a certificate of another version; this one reads {FORMAT_VERSION}")
    arrays = _read_arrays(npz)
    try:
        return _certificate(description, arrays)
    except KeyError as error:
        raise CertificateError(f"{npz}: not a complete certificate, {error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise CertificateError(f"{npz}: not a usable certificate, {error}") from error


def _paths(path: Path) -> tuple[Path, Path]:
    if not path.name:
        raise CertificateError(f"{path}: not a certificate's name")
    stem = path.with_suffix("") if path.suffix in (".npz", ".json") else path
    return stem.with_name(f"{stem.name}.npz"), stem.with_name(f"{stem.name}.json")


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise CertificateError(f"{path}: not JSON") from error


def _read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    try:
        content = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise CertificateError(f"{path}: cannot be read ({error.strerror})") from error
    try:
        if not zipfile.is_zipfile(content):
            raise CertificateError(f"{path}: damaged or not an .npz file")
        content.seek(0)
        with np.load(content, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    # what flipped bytes make of a zip: bad headers, wrong checksums, unknown compressions, ends too early
    except (ValueError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise CertificateError(f"{path}: damaged or not an .npz file") from error


def _certificate(description: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Certificate:
    about, region = description["model"], description["region"]
    parts = {name: _array(arrays, "model", name, 2 if name in ("X", "root") else 1) for name in MODEL_ARRAYS}
    model = PlainModel(
        kernel=str(about["kernel"]),
        variance=float(about["variance"]),
        link=str(about["link"]),
        squeeze=float(about["squeeze"]),
        **parts,
    )
    stored = StoredRegion(
        **{name: _array(arrays, "region", name, 1) for name in REGION_ARRAYS},
        norm=str(region["norm"]),
        radius=np.inf if region["radius"] is None else float(region["radius"]),
    )
    claims = tuple(_claim(side, claim, arrays) for side, claim in description["claims"].items())
    if not claims:
        raise ValueError("it claims nothing")
    return Certificate(model, stored, claims, str(about["sha256"]), dict(description["search"]))


def _claim(side: str, claim: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Claim:
    parts = {name: _array(arrays, side, name, 1) for name in TREE_ARRAYS}
    witness = parts.pop("witness")
    inner = claim["inner"]
    return Claim(
        sign=SIDES[side],
        outer=float(claim["outer"]),
        inner=None if inner is None else float(inner),
        witness=None if inner is None else witness,
        **parts,
    )


def _array(arrays: dict[str, npt.NDArray[Any]], group: str, name: str, ndim: int) -> npt.NDArray[Any]:
    array = arrays[f"{group}_{name}"]
    kind = np.int64 if name in INTEGERS else np.float64
    if array.ndim != ndim or array.dtype != kind:
        raise ValueError(f"{group}_{name} is not a {kind.__name__} array with {ndim} axes")
    return array
