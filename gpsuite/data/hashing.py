"""Content hashes: what identifies a dataset in the keys of stored results."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.spec import DatasetSpec

STAND_IN_PREFIX = "stand-in-"


def content_hash(spec: DatasetSpec) -> str:
    """Return the hash of a named dataset's content; the spec fixes it, since every file is verified.

    Optional files count when the spec lists them: `prepare` leaves out those that are not there.
    """
    parts = [[file.name, file.expected] for file in spec.files]
    preparation = [] if spec.variant is None and spec.version == 1 else [[spec.variant, spec.version]]
    return json_hash(["dataset", spec.name, spec.content_sha256, parts, *preparation])


def array_hash(*arrays: FloatArray) -> str:
    """Return the SHA-256 of the arrays' values as little-endian float64, row by row, array after array."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def json_hash(value: Any) -> str:
    """Return the SHA-256 of the value's compact JSON text."""
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()
