"""A risk certificate as two files: goal, predictor, training rows and bound.

The certificate makes no claim about the predictor's training. Any posterior can be certified if its prior is on the
grid of hyperparameters of the bound. The rows stay in their file. The certificate names them.

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
from gpsuite.certificates.form import LARGEST
from gpsuite.untrusted import UnusableFileError, file_pair, parse_fields, real, words

KIND = "pac_bayes"
FULL, SPARSE, FREE_FORM = "full GP", "sparse GP", "free-form sparse GP"
# arrays of each posterior and their axes. All have the lengthscales
ARRAYS = {
    FULL: {"lengthscales": 1},
    SPARSE: {"lengthscales": 1, "inducing_inputs": 2},
    FREE_FORM: {"lengthscales": 1, "inducing_inputs": 2, "whitened_mean": 1, "whitened_factor": 2},
}
# claims about the risk on new rows, and their direction: 1 at most, -1 at least
BOUNDS = {"kl": 1, "kl_lower": -1}
LOSSES = ("band01", "exp")
UNITS = ("standard deviations", "own")
SCALINGS = ("all", "train", "others")
BY_NUMBER = "by number"  # `Rows.scaling` if `StatedRows` states the use of the rows
ROW_ARRAYS = {"learned_rows": (np.int64, 1), "scaling_rows": (np.int64, 1), "input_lengthscales": (np.float64, 1)}
UNNAMED_TARGET = "the target"  # the only target of a dataset, which its settings do not name


@dataclass(frozen=True)
class Rows:
    """The dataset's training rows and their standardisation.

    Attributes:
        dataset: name of the dataset.
        content_hash: hash of its content.
        count: number of rows of the dataset.
        test_share: share of rows kept away from training.
        seed: random state of the split (scikit-learn's).
        scaling: one of `SCALINGS`: the rows that gave means and standard deviations. The others were kept out of
            training. With `BY_NUMBER` share and seed have no meaning.
        target: name of the target column, or `UNNAMED_TARGET`. The content hash identifies its values.
    """

    dataset: str
    content_hash: str
    count: int
    test_share: float
    seed: int
    scaling: str
    target: str


@dataclass(frozen=True)
class StatedRows:
    """Use of each row, if no seed decides it.

    Attributes:
        learned: [n] the training rows.
        scaling: [p] other rows, which gave means and standard deviations.
        lengthscales: [D] further divisors of each standardised input, also chosen by these rows.
    """

    learned: IntArray
    scaling: IntArray
    lengthscales: FloatArray


@dataclass(frozen=True)
class Predictor:
    """A Gaussian posterior over functions. Its prior has the squared exponential kernel.

    Attributes:
        posterior: a key of `ARRAYS`.
        variance: sigma_f^2.
        noise_variance: sigma^2.
        alpha: kind of a sparse GP: 1 is FITC, 0 is VFE.
        jitter: multiple of sigma_f^2 on the diagonal of K_ZZ.
        arrays: arrays of `ARRAYS`.
    """

    posterior: str
    variance: float
    noise_variance: float
    alpha: float
    jitter: float
    arrays: dict[str, FloatArray]


@dataclass(frozen=True)
class Goal:
    """The bounded loss.

    Attributes:
        loss: `band01` (the share of errors above epsilon) or `exp`.
        epsilon: width of the loss.
        unit: unit of epsilon: standard deviations of the target, or the target's own.
    """

    loss: str
    epsilon: float
    unit: str


@dataclass(frozen=True)
class RiskClaim:
    """The claim, with probability 1 - delta.

    Attributes:
        delta: allowed probability of failure.
        gibbs_risk: upper bound of the risk on the training rows.
        kl: upper bound of KL(Q||P) in nats.
        bounds: bounds of the Gibbs risk on new rows, by keys of `BOUNDS`.
    """

    delta: float
    gibbs_risk: float
    kl: float
    bounds: Mapping[str, float]


@dataclass(frozen=True)
class RiskCertificate:
    """Everything that a check needs except the dataset itself."""

    rows: Rows
    predictor: Predictor
    goal: Goal
    claim: RiskClaim
    stated: StatedRows | None = None


def pack(certificate: RiskCertificate) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return the description, plain JSON values, and the arrays."""
    model, stated = asdict(certificate.predictor), certificate.stated
    arrays = dict(model.pop("arrays"))
    if stated is not None:
        arrays |= dict(zip(ROW_ARRAYS, (stated.learned, stated.scaling, stated.lengthscales), strict=True))
    description = {
        "format": FORMAT,
        "version": VERSION,
        "kind": KIND,
        "dataset": asdict(certificate.rows),
        "model": {"kernel": "squared exponential", **model},
        "goal": asdict(certificate.goal),
        "claim": asdict(certificate.claim),
    }
    return description, arrays


def read(path: Path, description: dict[str, Any]) -> RiskCertificate:
    """Return the certificate of files that anybody may have written.

    Args:
        path: path of either file.
        description: description of its envelope.

    Raises:
        UnusableFileError: if a field or array is missing, unknown, of another type, or out of range.
    """
    other = file_pair(path)[1]
    found: RiskCertificate = parse_fields(other, lambda: _parse(description, path))
    return found


def _parse(description: dict[str, Any], path: Path) -> RiskCertificate:
    data, model, goal, claim = (description[part] for part in ("dataset", "model", "goal", "claim"))
    rows = Rows(
        words(data["dataset"]), words(data["content_hash"]), _whole(data["count"]), real(data["test_share"]),
        _whole(data["seed"]), words(data["scaling"]), words(data["target"]),
    )  # fmt: skip
    _require(0.0 < rows.test_share < 1.0 and rows.scaling in (*SCALINGS, BY_NUMBER), "no such split")
    _require(rows.seed < 2**32, "no such split")
    _require(model["kernel"] == "squared exponential", "a kernel that is not known")
    posterior = words(model["posterior"])
    _require(posterior in ARRAYS, "a posterior that is not known")
    aim = Goal(words(goal["loss"]), real(goal["epsilon"]), words(goal["unit"]))
    _require(aim.loss in LOSSES and aim.unit in UNITS, "a loss that is not known")
    _require(1 / LARGEST <= aim.epsilon <= LARGEST, f"an accuracy goal beyond {LARGEST:g}")
    bounds = {name: real(value) for name, value in claim["bounds"].items()}
    _require(set(bounds) == set(BOUNDS), f"the bounds are {' and '.join(BOUNDS)}")
    stated = RiskClaim(real(claim["delta"]), real(claim["gibbs_risk"]), real(claim["kl"]), bounds)
    _require(0.0 < stated.delta < 1.0, "delta is not a probability")
    expected: dict[str, tuple[type[np.generic], int]] = {
        name: (np.float64, axes) for name, axes in ARRAYS[posterior].items()
    }
    numbered = rows.scaling == BY_NUMBER
    arrays = read_content(path, description, {**expected, **(ROW_ARRAYS if numbered else {})})
    by_number = StatedRows(*(arrays.pop(name) for name in ROW_ARRAYS)) if numbered else None
    variance, noise, alpha, jitter = (real(model[name]) for name in ("variance", "noise_variance", "alpha", "jitter"))
    predictor = Predictor(posterior, variance, noise, alpha, jitter, arrays)
    _check(predictor, file_pair(path)[0])
    return RiskCertificate(rows, predictor, aim, stated, by_number)


def _check(predictor: Predictor, npz: Path) -> None:
    """Raise if numbers are not those of a posterior, or arrays do not fit together."""
    arrays = predictor.arrays
    finite = all(np.isfinite(array).all() for array in arrays.values())
    positive = predictor.variance > 0.0 and predictor.noise_variance > 0.0 and (arrays["lengthscales"] > 0.0).all()
    inside = 0.0 <= predictor.alpha <= 1.0 and 0.0 <= predictor.jitter <= 1e-3
    M = len(arrays.get("inducing_inputs", [0]))
    fit = M > 0 and len(arrays["lengthscales"]) > 0
    if predictor.posterior == FREE_FORM:
        factor = arrays["whitened_factor"]
        fit = fit and arrays["whitened_mean"].shape == (M,) and factor.shape == (M, M)
        fit = fit and not np.triu(factor, 1).any() and bool((np.diagonal(factor) != 0.0).all())
    if not (finite and positive and inside and fit):
        raise UnusableFileError(f"{npz}: its numbers are no {predictor.posterior}'s")


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise ValueError("a count is not a whole number")
    return value


def _require(condition: bool, fault: str) -> None:
    if not condition:
        raise ValueError(fault)
