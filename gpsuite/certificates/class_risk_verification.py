"""Check of a classifier's risk certificate by `gpsuite verify`: everything is recomputed from the dataset's rows.

Equation: Catoni 2007, Theorem 1.2.6
Equation: Maurer 2004
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.class_risk import BOUNDS, INFORMED, STANDARDISED, ClassCertificate, ClassClaim, read
from gpsuite.certificates.envelope import MOST_MINUTES, require_time
from gpsuite.certificates.plain_class_risk import FLOAT32, bounds_of, features_of, kl_of, largest_risks, scores
from gpsuite.data.dataset import Dataset
from gpsuite.errors import UserError
from gpsuite.rounding import rounded, sureness
from gpsuite.text import visible_name
from gpsuite.untrusted import UnusableFileError

LEAST_ROWS = 8  # Maurer's theorem, behind ln(2 sqrt(n) / delta)
TOLERANCE = 1e-7  # slack of a bound, in addition to float32's change of the risk
ORTHONORMAL = 1e-9
CLOSE = 1e-3  # largest change of a score by float32: a row nearer to a tie is undecided
WORK_PER_MINUTE = 6e11  # multiplications on one core
IMAGE_WORK = 1.2e7  # multiplications of the scattering of an image
TRUST = (
    "to be trusted: the rows are independent draws from one distribution. Seed, shares, delta and Catoni's constant "
    "were fixed before seeing the rows that bound the risk. The other settings are among the choices that the bounds "
    "hold for. Maurer 2004 and Catoni 2007; numpy, scipy, this computer"
)


def verify_certificate(
    path: Path, description: dict[str, Any], dataset: Dataset | None, minutes: float = MOST_MINUTES
) -> tuple[int, list[str]]:
    """Check a classifier's certificate on its dataset.

    Args:
        path: path of either file.
        description: description of its envelope.
        dataset: dataset of the certificate.
        minutes: largest estimated time of the check.

    Returns:
            exit code (0 confirmed, 1 refuted) and text to print.

    Raises:
        UnusableFileError: if it is not a usable certificate, or too large to check.
        UserError: if the dataset is missing or is another one.
    """
    certificate = read(path, description)
    data = _dataset(certificate, dataset)
    prior, bound = _split(path, certificate, data)
    model, claim = certificate.model, certificate.claim
    _check_fit(path, certificate, data)
    require_time(path, _work(certificate, data, len(prior), len(bound)) / WORK_PER_MINUTE, minutes)
    if len(model.inducing) and not (np.isin(model.inducing, prior).all() and _different(model.inducing)):
        return 1, [f"{path}\trefuted", "an inducing row is none of the prior's: the rows that bound the risk chose it"]
    if np.abs(model.directions.T @ model.directions - np.eye(len(model.ratio))).max(initial=0.0) > ORTHONORMAL:
        return 1, [f"{path}\trefuted", "the posterior's directions are not orthonormal: its KL is another"]
    labels = data.y[:, 0].astype(np.int64)
    try:
        features = features_of(model, data.X, prior)
        mean, variance = scores(model, features, labels, prior, bound)
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        raise UnusableFileError(f"{path}: cannot be computed, {error}") from error
    if not (np.isfinite(mean).all() and np.isfinite(variance).all()):
        raise UnusableFileError(f"{path}: its scores are not finite")
    own = labels[bound]
    risk = min(float(largest_risks(mean, variance, own).mean()) + FLOAT32, 1.0)
    errors, surely = _wrong(mean, own, -CLOSE), _wrong(mean, own, CLOSE)
    found = bounds_of(risk, errors, kl_of(model), len(bound), claim.delta / claim.choices, claim.constant)
    if len(model.ratio):
        found["binomial"] = 1.0  # these rows moved the predictor
    checked = ClassClaim(claim.delta, claim.choices, claim.constant, risk, kl_of(model), found)
    least = bounds_of(risk, surely, kl_of(model), len(bound), claim.delta / claim.choices, claim.constant)["binomial"]
    faults = _faults(claim, checked, least if not len(model.ratio) else 1.0)
    if faults:
        return 1, [f"{path}\trefuted", *faults]
    return 0, [
        f"{path}\tconfirmed\tfeatures, prior, risk, KL and bounds computed again from the rows",
        *_words(certificate, checked, len(prior), len(bound), errors),
    ]


def _different(rows: IntArray) -> bool:
    return len(np.unique(rows)) == len(rows)


def _wrong(mean: FloatArray, labels: IntArray, by: float) -> int:
    """Return how many rows have another score that exceeds their class's score by at least `by`."""
    own = np.take_along_axis(mean, labels[:, None], axis=1)
    other = mean.copy()
    np.put_along_axis(other, labels[:, None], -np.inf, axis=1)
    return int((other.max(axis=1) >= own[:, 0] + by).sum())


def _dataset(certificate: ClassCertificate, dataset: Dataset | None) -> Dataset:
    rows = certificate.rows
    if dataset is None:
        table = "dataset.path=FILE.csv dataset.target=COLUMN"
        raise UserError(
            f"verify: a risk certificate is checked on its dataset, {visible_name(rows.dataset)}\n"
            f"add {table if rows.dataset == 'csv' else f'dataset={visible_name(rows.dataset)}'}",
            key="dataset",
        )
    if (dataset.content_hash, len(dataset.X)) != (rows.content_hash, rows.count):
        raise UserError(
            f"dataset={visible_name(dataset.name)}: the certificate is about {visible_name(rows.dataset)}, "
            "with other content. A table is read alike with the keys of the run, such as dataset.na=",
            key="dataset",
        )
    if dataset.task != "classification":
        raise UserError(f"dataset={visible_name(dataset.name)}: its targets are no classes", key="dataset")
    return dataset


def _split(path: Path, certificate: ClassCertificate, data: Dataset) -> tuple[IntArray, IntArray]:
    """Return the row numbers of the prior and of the bound, by the stated seed."""
    rows = certificate.rows
    if rows.test_share > 0.0 and data.fixed_split is not None:
        raise UnusableFileError(f"{path}: its test rows are not those of the dataset")
    if data.fixed_split is not None:
        kept = np.asarray(data.fixed_split[0])
    else:
        kept = np.random.RandomState(rows.seed).permutation(rows.count)[math.ceil(rows.count * rows.test_share) :]
    order = kept[np.random.RandomState(rows.seed).permutation(len(kept))]
    first = int(len(kept) * rows.prior_share)
    if len(order) - first < LEAST_ROWS:
        raise UnusableFileError(f"{path}: {len(order) - first} rows bound its risk; {LEAST_ROWS} or more must")
    return order[:first], order[first:]


def _check_fit(path: Path, certificate: ClassCertificate, data: Dataset) -> None:
    """Raise if the model has other inputs or classes."""
    model, inputs = certificate.model, data.X.shape[1]
    side = math.isqrt(inputs)
    image = model.features != STANDARDISED
    if image and (side * side != inputs or side % 4 or side < 8):
        raise UnusableFileError(f"{path}: its features are those of square images, which the dataset has not")
    features = 81 * (side // 4) ** 2 if image else inputs
    basis = len(model.inducing) if model.prior == INFORMED else features
    if model.directions.shape[0] != basis or model.shift.shape[1] != data.n_classes:
        raise UnusableFileError(f"{path}: its posterior has other features or classes than the dataset")


def _work(certificate: ClassCertificate, data: Dataset, prior: int, bound: int) -> float:
    """Return the approximate number of multiplications of a check."""
    model = certificate.model
    (M, R), inputs = model.directions.shape, data.X.shape[1]
    image = model.features != STANDARDISED
    features = 5 * inputs if image else inputs
    # distances in float32 are twice as fast. Symmetric matrices and triangular solves take half
    kernel = (prior + bound) * (M * features / 2 + M * M / 2) + M**3 / 6 if model.prior == INFORMED else 0
    return float((IMAGE_WORK * len(data.X) if image else 0) + kernel + bound * M * R)


def _faults(claim: ClassClaim, own: ClassClaim, binomial: float) -> list[str]:
    """Return the stated numbers below the check's, for the binomial bound those below that of the surely wrong rows."""
    pairs = {"risk on the rows": (claim.gibbs_risk, own.gibbs_risk), "KL": (claim.kl, own.kl)}
    pairs |= {f"bound {name}": (claim.bounds[name], {**own.bounds, "binomial": binomial}[name]) for name in BOUNDS}
    return [
        f"{name}: {stated:.10g} is stated, {true:.10g} is true"
        for name, (stated, true) in pairs.items()
        if not stated
        >= true - (TOLERANCE * (1.0 + abs(true)) + (0.0 if name in ("KL", "bound binomial") else 2 * FLOAT32))
    ]


def _words(certificate: ClassCertificate, found: ClassClaim, prior: int, bound: int, errors: int) -> list[str]:
    """Return in plain words the proved claims, their subject and their assumptions."""
    rows, model = certificate.rows, certificate.model
    sure = sureness(found.delta)
    informed = model.prior == INFORMED
    kind = f"GP regression on {prior} other rows, {len(model.inducing)} inducing rows" if informed else "no rows"
    largest = {name: rounded(value, 6, 1) for name, value in found.bounds.items()}
    lines = [
        f"dataset\t{visible_name(rows.dataset)}, {rows.count} rows, content {visible_name(rows.content_hash)}",
        f"rows\t{bound} bound the risk, {prior} made the prior (seed {rows.seed})",
        f"model\t{model.features}. Prior from {kind}. Posterior moved in {len(model.ratio)} directions",
        f"proved\tby Catoni's bound, with probability at least {sure} over the draw of the rows:",
        f"\ta classifier drawn from the model errs on at most a share {largest['catoni']} of new rows",
        f"\tby the PAC-Bayes-kl bound, with the same probability: at most {largest['kl']}",
    ]
    if not len(model.ratio):
        lines.append(
            f"\tthe class of the mean scores, {errors} of {bound} wrong, errs on at most {largest['binomial']} "
            "(binomial bound, with the same probability)"
        )
    because = f"because\trisk {found.gibbs_risk:.6f} on the {bound} rows, KL(Q||P) {found.kl:.6g} nats"
    return [*lines, f"{because}. The bounds hold for all {found.choices} choices at once", TRUST]
