"""Check of a certificate of ranges by `gpsuite verify`: three levels, with the conclusion in words.

Equation: Blaas et al. 2020, Sec. 5, Definition 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.arrays import IntArray
from gpsuite.certificates.certificate import (
    KINDS,
    NO_ROW,
    Certificate,
    Claim,
    MarginQuantity,
    Origin,
    QuantileQuantity,
    StoredRegion,
    read_certificate,
)
from gpsuite.certificates.checker import MEAN, Report, check_certificate, estimated_minutes
from gpsuite.certificates.envelope import MOST_MINUTES, require_time
from gpsuite.certificates.form import MalformedError
from gpsuite.certificates.model import GAUSSIAN, SOFTMAX, Model
from gpsuite.certificates.stationarity import TOLERANCE, Residuals, stationarity_residuals
from gpsuite.data.dataset import Dataset
from gpsuite.rounding import rounded, rounded_interval, rounded_units
from gpsuite.text import visible_name
from gpsuite.untrusted import UnusableFileError

CONFIRMED, REFUTED, OPEN = "confirmed", "refuted", "not checked"
INFERENCES = {
    "laplace": "Laplace",
    "ep": "EP",
    "variational": "variational",
    "exact": "exact Gaussian",
    "sparse": "sparse variational",
    "minibatch": "minibatch-trained",
}
MINIBATCH = "training by minibatches ends at no equation that could be checked: take it as stated"
MOST_INPUTS_SHOWN = 12


@dataclass(frozen=True)
class Level:
    """One of the three levels of a check: statement, result and reason."""

    statement: str
    outcome: str
    reason: str


def verify_certificate(
    path: Path, description: dict[str, Any], dataset: Dataset | None, minutes: float = MOST_MINUTES
) -> tuple[int, list[str]]:
    """Check a certificate of ranges.

    Args:
        path: path of either file.
        description: description of its envelope.
        dataset: dataset that the certificate should be about, or None.
        minutes: largest estimated time of the check.

    Returns:
            exit code (0 confirmed, 1 refuted) and text to print.

    Raises:
        UnusableFileError: if it is not a usable certificate, or the check would take longer.
    """
    certificate = read_certificate(path, description)
    require_time(path, estimated_minutes(certificate), minutes)
    try:
        levels = check_levels(certificate, dataset)
    except MalformedError as error:
        raise UnusableFileError(f"{path}: not a certificate, {error}") from error
    refuted = any(level.outcome == REFUTED for level in levels)
    lines = [f"{path}\t{REFUTED if refuted else CONFIRMED}"]
    for letter, level in zip("abc", levels, strict=True):
        lines.append(f"({letter}) {level.statement}\t{level.outcome}: {level.reason}")
    names = dataset.input_names if dataset is not None and levels[2].outcome == CONFIRMED else None
    said = describe(certificate, levels[0].outcome == CONFIRMED, names)
    return (1 if refuted else 0), lines + [f"{name}\t{text}" for name, text in said]


def check_levels(certificate: Certificate, dataset: Dataset | None) -> tuple[Level, Level, Level]:
    """Check that (a) the bound holds, (b) the posterior is the stated one, (c) its rows are the dataset's.

    Raises:
        MalformedError: if it is not a certificate.
    """
    bound = _bound_level(check_certificate(certificate))
    return bound, _posterior_level(certificate), _dataset_level(certificate, dataset)


def _bound_level(report: Report) -> Level:
    found = "; ".join(report.problems) or f"{report.leaves} leaves, {report.boxes} bounds computed again"
    outcome = CONFIRMED if report.confirmed else REFUTED
    return Level("the bound holds for the stored posterior", outcome, found)


def _posterior_level(certificate: Certificate) -> Level:
    origin, model = certificate.origin, certificate.model
    if origin is None:
        return Level("the stored posterior is the one of its data", OPEN, "the certificate states no data")
    targets = "targets" if model.likelihood == GAUSSIAN else "labels"
    name = INFERENCES[origin.inference]
    statement = f"the stored posterior is the {name} posterior of the stored rows and {targets}"
    if origin.inference == "minibatch":
        return Level(statement, OPEN, MINIBATCH)
    if origin.inference in ("variational", "sparse"):
        values = f"{len(model.X)} inducing inputs" if len(origin.X) else "one value per row"
        statement += f", {values}, jitter {origin.jitter:g}"
    return residual_level(statement, stationarity_residuals(model, origin))


def residual_level(statement: str, found: Residuals) -> Level:
    """Return level (b) from the residuals."""
    reason = (
        f"stationarity residual {found.mean:.1e} (mean, in prior standard deviations), {found.covariance:.1e} "
        f"(covariance, of the prior's), {found.moments:.1e} (moments). Tolerance {TOLERANCE:g}"
    )
    if found.largest <= TOLERANCE:
        return Level(statement, CONFIRMED, reason)
    if found.largest <= found.rounding:
        return Level(statement, OPEN, f"too ill-conditioned to tell, rounding {found.rounding:.1e}; {reason}")
    return Level(statement, REFUTED, reason)


def _dataset_level(certificate: Certificate, dataset: Dataset | None) -> Level:
    statement, origin = "the stored rows and labels are the dataset's", certificate.origin
    if origin is None or not origin.content:
        stated = "" if origin is None else ". The names and units below are as stated"
        return Level(statement, OPEN, f"the certificate states no dataset{stated}")
    if dataset is None:
        given = "give dataset=NAME, or dataset.path=FILE dataset.target=NAME"
        return Level(statement, OPEN, f"the names and units below are as stated; {given}")
    fault = dataset_fault(certificate, origin, dataset)
    point = "" if origin.row == NO_ROW else " and the point's row"
    size = f"{len(origin.rows)} training rows{point} compared, content {dataset.content_hash}"
    return Level(statement, REFUTED if fault else CONFIRMED, fault or size)


def dataset_fault(certificate: Certificate, origin: Origin, dataset: Dataset) -> str:
    """Return how the dataset differs from the certificate's statements, or an empty string."""
    model, region, rows = certificate.model, certificate.region, origin.rows
    if dataset.content_hash != origin.content:
        return (
            f"the content of {dataset.name} is {dataset.content_hash} (line ends and number formats count). A table is "
            "read alike with the keys of the run, such as dataset.na="
        )
    if dataset.task != KINDS[model.likelihood]:
        return f"{dataset.name} is a {dataset.task} dataset"
    if dataset.X.shape[1] != model.X.shape[1] or max(origin.row, int(rows.max())) >= len(dataset.X):
        return "rows or inputs that the dataset does not have"
    if len(np.unique(rows)) != len(rows) or origin.row in rows:
        return "a training row comes twice, or is the point itself"
    if fault := _targets_fault(model, origin, dataset):
        return fault
    with np.errstate(over="ignore"):  # an infinite row differs from every stored row
        X, x = ((dataset.X[each] - origin.offset) / origin.scale for each in (rows, origin.row))
    if not np.array_equal(origin.X if len(origin.X) else model.X, X):
        return "the training inputs are not the dataset's"
    if origin.row != NO_ROW and not np.array_equal(region.centre, x):
        return f"the region's centre is not row {origin.row}"
    if tuple(dataset.input_names[place] for place in region.free) != origin.inputs:
        return "the free inputs have other names"
    return ""


def _targets_fault(model: Model, origin: Origin, dataset: Dataset) -> str:
    if model.likelihood != GAUSSIAN:
        stated = [origin.outputs[int(target)] for target in origin.targets]
        return "" if _labels(dataset, origin.rows) == stated else "the labels are not the dataset's"
    if dataset.target_names != origin.outputs:
        return "the target has another name"
    targets = (dataset.y[origin.rows, 0] - origin.target_offset) / origin.target_scale
    return "" if np.array_equal(targets, origin.targets) else "the targets are not the dataset's"


def _labels(dataset: Dataset, rows: IntArray) -> list[str]:
    names = dataset.label_names or tuple(f"{number}" for number in range(dataset.n_classes))
    return [names[int(label)] for label in dataset.y[rows, 0]]


def describe(certificate: Certificate, proved: bool, names: Sequence[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield in words a certificate's subject and claims, with a warning unless they were proved.

    Args:
        names: of all inputs, if they are known from the dataset. A certificate names the free ones only.
    """
    model, origin = certificate.model, certificate.origin
    if origin is not None and origin.content:
        yield "dataset", f"{visible_name(origin.dataset)}, content {visible_name(origin.content)} (as stated)"
        named = f"row {origin.row} of the dataset, counted from 0 without rows that were left out"
        yield "point", "the middle of the region. No row number is stated" if origin.row == NO_ROW else named
    if origin is not None:
        name = "target" if model.likelihood == GAUSSIAN else "classes"
        yield name, ", ".join(map(visible_name, origin.outputs))
    yield "model", _model_words(model, origin, certificate.model_hash)
    yield from _region_words(certificate.region, origin, names)
    for claim in certificate.claims:
        statement = _claim_words(claim, origin)
        yield claim.side, statement if proved else f"claimed, not proved: {statement}"


def _claim_words(claim: Claim, origin: Origin | None) -> str:
    quantity = claim.quantity
    if isinstance(quantity, QuantileQuantity):
        mean = quantity.level == MEAN
        name = "mean prediction" if mean else f"prediction's {100 * quantity.level:g} % quantile"
        unit, (offset, scale) = "the model's units", (0.0, 1.0)
        if origin is not None:
            unit, offset, scale = "the target's units", origin.target_offset, origin.target_scale
        return f"no {name} in the region is {_claimed_ends(claim, scale, offset)} ({unit})"
    if isinstance(quantity, MarginQuantity):
        name = _class_name(quantity.own, origin)
        margin = f"no latent margin of {name} over all other classes is {_claimed_ends(claim)}"
        return f"{name} is the most probable class of the whole region: {margin}" if claim.proves_margin else margin
    names = [_class_name(each, origin) for each in quantity.classes]
    if quantity.rival is None:
        return f"no probability of {names[0]} in the region is {_claimed_ends(claim)}"
    margin = _claimed_ends(claim, 2.0, -1.0)
    return f"no margin of {names[0]} over {names[1]} in the region, probability less probability, is {margin}"


def _class_name(number: int, origin: Origin | None) -> str:
    return f"class {number}" if origin is None else visible_name(origin.outputs[number])


def _claimed_ends(claim: Claim, scale: float = 1.0, offset: float = 0.0) -> str:
    """Return a claim's proved and attained value, times scale plus offset, rounded so that both stay true."""
    no, at = ("above", "at least") if claim.sign > 0 else ("below", "at most")
    proved = f"{no} {rounded_units(claim.outer, scale, offset, claim.sign)}"
    if claim.inner is None:
        return proved
    return f"{proved}; {at} {rounded_units(claim.inner, scale, offset, -claim.sign)} is attained"


def _model_words(model: Model, origin: Origin | None, digest: str) -> str:
    """Return inference and kernel of a model, how its latent function is observed, its size and stated hash."""
    by = "" if origin is None else f"{INFERENCES[origin.inference]}, "
    if model.likelihood == GAUSSIAN:
        observed = f"noise variance {model.noise:.6g}"
    elif model.likelihood == SOFTMAX:
        observed = f"softmax of {model.functions} classes"
    else:
        squeezed = f" squeezed by {model.squeeze:g}" if model.squeeze else ""
        observed = f"{model.likelihood}{squeezed} link"
    return (
        f"{by}kernel {model.kernel}, variance {model.variance:.6g}, lengthscales {model.lengthscales.min():.6g} to "
        f"{model.lengthscales.max():.6g}, {observed}, {len(model.X)} rows, SHA-256 {visible_name(digest)}"
    )


def _region_words(
    region: StoredRegion, origin: Origin | None, names: Sequence[str] | None
) -> Iterator[tuple[str, str]]:
    """Yield the free inputs with their ends, the others with their values, and the region's shape.

    Values are in the dataset's units if they are known.
    """
    yield "free", "; ".join(_free_inputs(region, origin))
    if fixed := _fixed_inputs(region, origin, names):
        yield "fixed", "; ".join(fixed)
    shape = (
        "box"
        if region.norm == "box"
        else f"{region.norm.upper()} ball of radius {rounded(region.radius, 6, -1)}, cut by the box"
    )
    unit = "inputs as the model takes them" if origin is None else "inputs after the stored offset and scale"
    yield "region", f"{shape} of these ends ({unit}). All other inputs stay fixed"


def _free_inputs(region: StoredRegion, origin: Origin | None) -> list[str]:
    """Return the free inputs with their ends, in the dataset's units if they are known."""
    names = [f"input {place}" for place in region.free] if origin is None else [*map(visible_name, origin.inputs)]
    count = len(region.free)
    offset, scale = np.zeros(count), np.ones(count)
    if origin is not None:
        offset, scale = origin.offset[region.free], origin.scale[region.free]
    shown = []
    for name, *numbers in zip(names, region.lower, region.upper, scale, offset, strict=True):
        low, high = rounded_interval(*numbers)
        shown.append(f"{name} from {low} to {high}")
    return _shortened(shown)


def _fixed_inputs(region: StoredRegion, origin: Origin | None, names: Sequence[str] | None) -> list[str]:
    """Return the inputs that do not move with their values, rounded, in the dataset's units if they are known."""
    fixed = np.setdiff1d(np.arange(len(region.centre)), region.free)
    values = region.centre[fixed]
    if origin is not None:
        values = origin.offset[fixed] + origin.scale[fixed] * values
    named = (f"input {place}" if names is None else visible_name(names[place]) for place in fixed)
    return _shortened([f"{name} at {value:.6g}" for name, value in zip(named, values, strict=True)])


def _shortened(shown: list[str]) -> list[str]:
    more = len(shown) - MOST_INPUTS_SHOWN
    return shown if more <= 0 else [*shown[:MOST_INPUTS_SHOWN], f"and {more} more"]
