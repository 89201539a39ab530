"""A certificate of a classifier's risk as two files: rows, prior, posterior and bounds.

Equation: none, a file format
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.envelope import FORMAT, VERSION, read_content
from gpsuite.untrusted import UnusableFileError, file_pair, parse_fields, real, words

KIND = "pac_bayes_classes"
ROOT, LOG, STANDARDISED = "root of scattering", "log of scattering", "standardised columns"
FEATURES = (ROOT, LOG, STANDARDISED)
INFORMED, UNINFORMED = "informed", "uninformed"
BOUNDS = ("kl", "catoni", "binomial")
MOST_CLASSES, MOST_INDUCING, MOST_DIRECTIONS = 10, 16_000, 2_000
ARRAYS = {"inducing": (np.int64, 1), "directions": (np.float64, 2), "shift": (np.float64, 2), "ratio": (np.float64, 1)}


@dataclass(frozen=True)
class ClassRows:
    """Use of the dataset's rows.

    Attributes:
        dataset: name of the dataset.
        content_hash: hash of its content.
        count: number of its rows.
        test_share: share kept for testing. 0 if the dataset has its own test rows, or for no test.
        prior_share: share of the others that the prior used. 0 for an uninformed prior.
        seed: seed of both random splits.
    """

    dataset: str
    content_hash: str
    count: int
    test_share: float
    prior_share: float
    seed: int


@dataclass(frozen=True, eq=False)
class ClassModel:
    """Prior and posterior.

    Attributes:
        features: one of `FEATURES`.
        prior: `INFORMED` or `UNINFORMED`.
        gamma: gamma of the kernel exp(-gamma |x - z|^2 / median).
        noise: sigma^2 of the prior's regression.
        temper: s, the factor of its covariance.
        arrays: arrays of `ARRAYS`: inducing rows of the dataset [M], V [M, R], d [R, C], rho [R].
    """

    features: str
    prior: str
    gamma: float
    noise: float
    temper: float
    arrays: Mapping[str, npt.NDArray[Any]]

    @property
    def inducing(self) -> IntArray:
        return np.asarray(self.arrays["inducing"], dtype=np.int64)

    @property
    def directions(self) -> FloatArray:
        return np.asarray(self.arrays["directions"], dtype=np.float64)

    @property
    def shift(self) -> FloatArray:
        return np.asarray(self.arrays["shift"], dtype=np.float64)

    @property
    def ratio(self) -> FloatArray:
        return np.asarray(self.arrays["ratio"], dtype=np.float64)


@dataclass(frozen=True)
class ClassClaim:
    """Claims that hold with probability 1 - delta.

    Attributes:
        delta: allowed probability of failure, of each bound.
        choices: number of settings that the rows may have chosen from.
        constant: C of Catoni's bound.
        gibbs_risk: upper bound of the risk on the rows.
        kl: upper bound of KL(Q||P) in nats.
        bounds: bounds of `BOUNDS` on the Gibbs risk. `binomial` is on the risk of the mean scores' class, 1 if there is
            none.
    """

    delta: float
    choices: int
    constant: float
    gibbs_risk: float
    kl: float
    bounds: Mapping[str, float]


@dataclass(frozen=True)
class ClassCertificate:
    """Everything that a check needs except the dataset."""

    rows: ClassRows
    model: ClassModel
    claim: ClassClaim


def pack(certificate: ClassCertificate) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the description, plain JSON values, and the arrays."""
    model = certificate.model
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kind": KIND,
        "dataset": asdict(certificate.rows),
        "model": {name: getattr(model, name) for name in ("features", "prior", "gamma", "noise", "temper")},
        "claim": asdict(certificate.claim),
    }
    return description, dict(model.arrays)


def read(path: Path, description: dict[str, Any]) -> ClassCertificate:
    """Return the certificate of files that anybody may have written.

    Raises:
        UnusableFileError: if a field or array is missing, unknown, of another type, or out of range.
    """
    found: ClassCertificate = parse_fields(file_pair(path)[1], lambda: _parse(description, path))
    return found


def _parse(description: dict[str, Any], path: Path) -> ClassCertificate:
    data, model, claim = (description[part] for part in ("dataset", "model", "claim"))
    rows = ClassRows(
        words(data["dataset"]), words(data["content_hash"]), _whole(data["count"]), real(data["test_share"]),
        real(data["prior_share"]), _whole(data["seed"]),
    )  # fmt: skip
    _require(0.0 <= rows.test_share < 1.0 and 0.0 <= rows.prior_share < 1.0 and rows.seed < 2**32, "no such split")
    bounds = {name: real(value) for name, value in claim["bounds"].items()}
    _require(set(bounds) == set(BOUNDS), f"the bounds are {', '.join(BOUNDS)}")
    stated = ClassClaim(
        real(claim["delta"]), _whole(claim["choices"]), real(claim["constant"]), real(claim["gibbs_risk"]),
        real(claim["kl"]), bounds,
    )  # fmt: skip
    _require(0.0 < stated.delta < 1.0 and stated.choices >= 1, "delta is no probability, or nothing was chosen")
    _require(1e-6 <= stated.constant <= 1e3, "no constant of Catoni's bound")
    arrays = read_content(path, description, ARRAYS)
    found = ClassModel(
        words(model["features"]), words(model["prior"]), real(model["gamma"]), real(model["noise"]),
        real(model["temper"]), arrays,
    )  # fmt: skip
    _check(found, rows, file_pair(path)[0])
    return ClassCertificate(rows, found, stated)


def _check(model: ClassModel, rows: ClassRows, npz: Path) -> None:
    """Raise if numbers are not those of a model, or arrays do not fit together."""
    informed = model.prior == INFORMED
    known = model.features in FEATURES and model.prior in (INFORMED, UNINFORMED)
    known = known and informed == (rows.prior_share > 0.0) == (len(model.inducing) > 0)
    known = known and (informed or model.features != STANDARDISED)
    positive = all(1e-12 <= value <= 1e12 for value in (model.gamma, model.noise, model.temper))
    (M, R), ratio = model.directions.shape, model.ratio
    fits = model.shift.shape[0] == R == len(ratio) and 2 <= model.shift.shape[1] <= MOST_CLASSES
    fits = fits and min(M, MOST_DIRECTIONS) >= R and (not informed or M == len(model.inducing) <= MOST_INDUCING)
    finite = all(np.isfinite(model.arrays[name]).all() for name in ("directions", "shift", "ratio"))
    if not (known and positive and fits and finite and (ratio > 0.0).all() and (ratio <= 1.0).all()):
        raise UnusableFileError(f"{npz}: its numbers are no classifier's")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError("a count is not a whole number")
    return value


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise ValueError(fault)
