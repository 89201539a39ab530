"""Check of a risk certificate by `gpsuite verify`: recompute it from the dataset, and state the conclusion.

Equation: Reeb et al. 2018, Eq. (4)
Equation: Maurer 2004
"""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.envelope import MOST_MINUTES, require_time
from gpsuite.certificates.form import LARGEST
from gpsuite.certificates.plain_risk import (
    LARGEST_FULL,
    WORK_PER_MINUTE,
    extended,
    largest_risk,
    on_grid,
    penalty,
    risk_and_kl,
    smallest_risk,
    work,
)
from gpsuite.certificates.risk import (
    BOUNDS,
    FREE_FORM,
    FULL,
    SPARSE,
    UNNAMED_TARGET,
    Predictor,
    RiskCertificate,
    RiskClaim,
    StatedRows,
    read,
)
from gpsuite.data.dataset import Dataset
from gpsuite.data.splits import DifferentRows, train_test_indices
from gpsuite.errors import UserError
from gpsuite.rounding import rounded, sureness
from gpsuite.text import visible, visible_name
from gpsuite.untrusted import UnusableFileError

NAMES = {"kl": "bound", "kl_lower": "lower bound"}
LEAST_ROWS = 8  # Maurer's theorem, behind ln(2 sqrt(n) / delta)
MOST_INDUCING = 4000
# Largest distance of a stated number on the wrong side of the check's number, as a multiple of 1 + its size.
LONG_TOLERANCE, DOUBLE_TOLERANCE = 1e-8, 1e-5
UNDECIDED = 1e-2  # largest error of float64 if K_ZZ is nearly singular: this is no reason to refute

TRUST = (
    "to be trusted: the rows are independent draws from one distribution. Accuracy goal, delta and grid were "
    "chosen before seeing them.{scales} Eq. 4 of Reeb et al. 2018 (Maurer 2004); numpy, libm, this computer"
)
FIXED = " Means and standard deviations count as fixed, as in the paper."
SCALED_BY = {"all": "all rows", "train": "the training rows", "others": "the other rows"}


def verify_certificate(
    path: Path, description: dict[str, Any], dataset: Dataset | None, minutes: float = MOST_MINUTES
) -> tuple[int, list[str]]:
    """Check a risk certificate on its dataset.

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
    X, y, scale, different = _training_rows(path, certificate, dataset)
    assert dataset is not None
    if certificate.rows.target not in (dataset.target_names[0], UNNAMED_TARGET):
        return 1, [f"{path}\trefuted", f"the dataset's target is {visible_name(dataset.target_names[0])}"]
    _check_size(path, certificate.predictor, X)
    require_time(path, work(certificate.predictor, len(X)) / WORK_PER_MINUTE, minutes)
    goal, claim, predictor = certificate.goal, certificate.claim, certificate.predictor
    epsilon = goal.epsilon if goal.unit == "standard deviations" else goal.epsilon / scale
    if not 1 / LARGEST <= epsilon <= LARGEST:
        raise UnusableFileError(f"{path}: its accuracy goal is none in units of this target")
    kernel = np.append(predictor.arrays["lengthscales"], predictor.variance)
    if not on_grid(kernel):
        return 1, [f"{path}\trefuted", "variance and lengthscales are not on the grid of the bound"]
    try:
        risk, least, kl = risk_and_kl(predictor, X, y, goal, epsilon, different)
    except ArithmeticError as error:  # overflows too
        raise UnusableFileError(f"{path}: cannot be computed, {error}") from error
    exact = extended(predictor, len(y))
    near = LONG_TOLERANCE if exact else DOUBLE_TOLERANCE
    c = penalty(kl, len(y) if different is None else len(different.places), len(kernel), claim.delta)
    own = {"kl": largest_risk(risk, c), "kl_lower": smallest_risk(least, c)}
    faults = _faults(path, claim, RiskClaim(claim.delta, risk, kl, own), exact)
    if faults:
        return 1, [f"{path}\trefuted", *faults]
    proved = {"kl": min(1.0, own["kl"] + near * (1.0 + own["kl"])), "kl_lower": own["kl_lower"] - near}
    return 0, [
        f"{path}\tconfirmed\trisk, KL and bound computed again "
        f"{'in extended precision' if exact else 'in float64, not in extended precision'}",
        *_words(certificate, X.shape, scale, RiskClaim(claim.delta, risk, kl, proved)),
    ]


def _faults(path: Path, claim: RiskClaim, own: RiskClaim, exact: bool) -> list[str]:
    """Return the stated numbers on the wrong side of the check's numbers.

    Raises:
        UnusableFileError: if float64 cannot decide.
    """
    found = {"risk on the training rows": (claim.gibbs_risk, own.gibbs_risk), "KL": (claim.kl, own.kl)}
    found |= {NAMES[name]: (sign * claim.bounds[name], sign * own.bounds[name]) for name, sign in BOUNDS.items()}
    excess = {name: (true - stated) / (1.0 + abs(true)) for name, (stated, true) in found.items()}
    wrong = [name for name, by in excess.items() if not by <= (LONG_TOLERANCE if exact else DOUBLE_TOLERANCE)]
    if wrong and not exact and max(excess.values()) <= UNDECIDED:
        raise UnusableFileError(f"{path}: too large for extended precision, and float64 does not decide it")
    return [f"{name}: {abs(found[name][0]):.10g} is stated, {abs(found[name][1]):.10g} is true" for name in wrong]


def _training_rows(
    path: Path, certificate: RiskCertificate, dataset: Dataset | None
) -> tuple[FloatArray, FloatArray, float, DifferentRows | None]:
    """Return standardised inputs and targets of the training rows, the target's deviation, and the different rows."""
    rows = certificate.rows
    if dataset is None:
        from_file = f"dataset.path=FILE.csv {shlex.quote(f'dataset.target={visible_name(rows.target)}')}"
        named = shlex.quote(f"dataset={visible_name(rows.dataset)}")
        if rows.target == UNNAMED_TARGET:
            fix = named
        else:
            fix = from_file if rows.dataset == "csv" else f"{named}, or {from_file}"
        raise UserError(
            f"verify: a risk certificate is checked on its dataset, {visible_name(rows.dataset)}\nadd {fix}",
            key="dataset",
        )
    if dataset.content_hash != rows.content_hash or len(dataset.X) != rows.count:
        raise UserError(
            f"dataset={visible(dataset.name)}: not the content that the certificate is about\n"
            f"it is about {visible_name(rows.dataset)}, {rows.count} rows, hash {visible(rows.content_hash[:16])}. "
            f"This has {len(dataset.X)} rows, hash {dataset.content_hash[:16]}. A table is read alike with the run's "
            "dataset.inputs=, dataset.ignore= and so on, and from the same bytes: line ends count",
            key="dataset",
        )
    if certificate.stated is not None:
        return _numbered_rows(path, certificate.stated, dataset)
    left = rows.count - math.ceil(rows.count * rows.test_share)
    if left < LEAST_ROWS:
        raise UnusableFileError(f"{path}: learns from {max(left, 0)} rows. The bound needs {LEAST_ROWS} or more")
    train, others = train_test_indices(rows.count, rows.test_share, rows.seed)
    shown = {"all": np.arange(len(dataset.X)), "train": train, "others": others}[rows.scaling]
    X, _ = _standardised(dataset.X, shown)
    y, scale = _standardised(dataset.y[:, :1], shown)
    # choices by other rows are fixed for a row, unless it is a copy of such a row
    different = DifferentRows.of(train, others if rows.scaling == "others" else train[:0], dataset.groups)
    return X[train], y[train, 0], float(scale[0]), different


def _numbered_rows(
    path: Path, stated: StatedRows, dataset: Dataset
) -> tuple[FloatArray, FloatArray, float, DifferentRows | None]:
    """Return the result of `_training_rows` for rows given by number.

    Raises:
        UnusableFileError: if they are not rows of the dataset, too few, or the same as the scaling rows.
    """
    learned, scaling, D = stated.learned, stated.scaling, dataset.X.shape[1]
    every = np.concatenate([learned, scaling])
    if len(every) != len(np.unique(every)) or every.min() < 0 or every.max() >= len(dataset.X):
        raise UnusableFileError(f"{path}: rows that the dataset does not have, or that come twice")
    if stated.lengthscales.shape != (D,) or not (np.isfinite(stated.lengthscales) & (stated.lengthscales > 0.0)).all():
        raise UnusableFileError(f"{path}: no lengthscales of the dataset's {D} inputs")
    together = dataset.groups if dataset.clusters is None else dataset.clusters
    if together is not None and np.isin(together[learned], together[scaling]).any():
        raise UnusableFileError(f"{path}: a training row repeats, or belongs to, one that chose the scale")
    if dataset.clusters is None:
        different = DifferentRows.of(learned, learned[:0], dataset.groups)
    else:
        first = np.sort(np.unique(dataset.clusters[learned], return_index=True)[1])
        different = DifferentRows(first, np.zeros(len(first), dtype=bool))
    if len(learned if different is None else different.places) < LEAST_ROWS:
        raise UnusableFileError(f"{path}: learns from {len(learned)} rows. The bound needs {LEAST_ROWS} or more")
    X, _ = _standardised(dataset.X, scaling)
    y, scale = _standardised(dataset.y[:, :1], scaling)
    return X[learned] / stated.lengthscales, y[learned, 0], float(scale[0]), different


def _standardised(values: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return columns less their mean over `rows`, divided by their deviation there.

    A constant column is only shifted.
    """
    part = values[rows]
    mean = part.sum(axis=0) / len(part)
    scale = np.sqrt(((part - mean) ** 2).sum(axis=0) / len(part))
    scale[(np.ptp(part, axis=0) == 0.0) | (scale == 0.0)] = 1.0
    return (values - mean) / scale, scale


def _check_size(path: Path, predictor: Predictor, X: FloatArray) -> None:
    """Raise if the predictor does not fit the data, or the check would take too long."""
    n, dimension = X.shape
    inducing = predictor.arrays.get("inducing_inputs", np.empty((1, dimension)))
    if len(predictor.arrays["lengthscales"]) not in (1, dimension) or inducing.shape[1] != dimension:
        raise UnusableFileError(f"{path}: its predictor has other inputs than the dataset's {dimension}")
    large = n > LARGEST_FULL if predictor.posterior == FULL else len(inducing) > MOST_INDUCING
    if large:
        raise UnusableFileError(f"{path}: too large to check here ({predictor.posterior}, {n} training rows)")


def _words(certificate: RiskCertificate, shape: tuple[int, ...], scale: float, found: RiskClaim) -> list[str]:
    """Return in plain words the proved claims, their subject and their assumptions.

    Args:
        certificate: the checked certificate.
        shape: n and D of the training inputs.
        scale: standard deviation of the target.
        found: the check's numbers. The bounds include its tolerance.
    """
    rows, predictor, goal = certificate.rows, certificate.predictor, certificate.goal
    n, dimension = shape
    bound, lower = found.bounds["kl"], max(found.bounds["kl_lower"], 0.0)
    own = goal.epsilon * scale if goal.unit == "standard deviations" else goal.epsilon
    width = (
        f"{rounded(own, 6, 1)} (units of {visible_name(rows.target)}; {rounded(own / scale, 6, 1)} standard deviations)"
    )
    share = rounded(bound, 6, 1)
    errs = f"errs by more than {width} on at most a share {share} of new rows"
    if goal.loss == "exp":
        errs = f"has a mean loss 1 - exp(-(error / epsilon)^2), epsilon = {width}, of at most {share} on new rows"
    names = {
        FULL: "full GP",
        SPARSE: f"sparse GP (alpha = {predictor.alpha:g}: 1 is FITC, 0 is VFE)",
        FREE_FORM: "sparse GP with a free-form posterior",
    }
    inducing = "" if predictor.posterior == FULL else f", {len(predictor.arrays['inducing_inputs'])} inducing inputs"
    jitter = "" if predictor.posterior == FULL else f", jitter {predictor.jitter:g}"
    if certificate.stated is not None:
        split, by = "the stated ones", f"{len(certificate.stated.scaling)} others"
        trust = TRUST.format(scales="")
        trust += f". No target decided which rows are learned from, and the {by} chose the lengthscales"
    else:
        split, by = f"all but a random {rows.test_share:g} (seed {rows.seed})", SCALED_BY[rows.scaling]
        trust = TRUST.format(scales="" if rows.scaling == "others" else FIXED)
    return [
        f"dataset\t{visible_name(rows.dataset)}, {rows.count} rows, {dimension} inputs, "
        f"content {visible_name(rows.content_hash)}",
        f"rows\t{n} learned from: {split}, scaled by {by}",
        f"model\t{names[predictor.posterior]}{inducing}, squared exponential kernel, "
        f"variance {predictor.variance:.6g}, noise variance {predictor.noise_variance:.6g}{jitter}",
        f"proved\twith probability at least {sureness(found.delta)} over the draw of the rows, a prediction "
        f"drawn from the model {errs} (at least {rounded(lower, 6, -1)})",
        f"\tits mean prediction, as one predictor: at most {rounded(min(1.0, 2.0 * bound), 6, 1)}",
        f"because\trisk {found.gibbs_risk:.6f} on the {n} rows, KL(Q||P) {found.kl:.6g} nats, "
        f"{len(predictor.arrays['lengthscales']) + 1} hyperparameters of 1201 values each",
        trust,
    ]
