"""What `gpsuite verify` does with a robustness certificate: check it at three levels, and say in words what follows.

Equation: Blaas et al. 2020, Definition 2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.certificates.certificate import (
    Certificate,
    Claim,
    Origin,
    StoredRegion,
    read_certificate,
)
from gpsuite.certificates.checker import Report, check_certificate
from gpsuite.certificates.form import MalformedError
from gpsuite.certificates.stationarity import TOLERANCE, Residuals, stationarity_residuals
from gpsuite.data.dataset import Dataset
from gpsuite.rounding import rounded, rounded_interval, rounded_units
from gpsuite.untrusted import UnusableFileError, printable

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
    """One of the three levels of a check: what it says, how it ended, and why."""

    statement: str
    outcome: str
    reason: str


def verify_certificate(
    path: Path, description: dict[str, Any], dataset: Dataset | None
) -> tuple[int, list[str]]:
    """Check a robustness certificate.

    Args:
        path: of either file.
        description: content of its JSON file.
        dataset: the one it should be about, if it was given.

    Returns:
        exit code (0 confirmed, 1 refuted) and what to print.

    Raises:
        UnusableFileError: if it is not a usable certificate.
    """
    certificate = read_certificate(path, description)
    return told(
        path, lambda: check_levels(certificate, dataset), lambda proved: describe(certificate, proved)
    )


def told(
    path: Path,
    check: Callable[[], tuple[Level, Level, Level]],
    described: Callable[[bool], Iterable[tuple[str, str]]],
) -> tuple[int, list[str]]:
    """Return exit code and lines of a check, and of what a certificate is about.

    Args:
        path: of the certificate.
        check: the three levels.
        described: name and text of each line, told whether the claims were proved.

    Raises:
        UnusableFileError: if it is not a usable certificate.
    """
    try:
        levels = check()
    except MalformedError as error:
        raise UnusableFileError(f"{path}: not a certificate, {error}") from error
    refuted = any(level.outcome == REFUTED for level in levels)
    lines = [f"{path}\t{REFUTED if refuted else CONFIRMED}"]
    for letter, level in zip("abc", levels, strict=True):
        lines.append(f"({letter}) {level.statement}\t{level.outcome}: {level.reason}")
    said = described(levels[0].outcome == CONFIRMED)
    return (1 if refuted else 0), lines + [f"{name}\t{text}" for name, text in said]


def check_levels(certificate: Certificate, dataset: Dataset | None) -> tuple[Level, Level, Level]:
    """Check that (a) the bound holds, (b) the posterior is the stated one, (c) its rows are the dataset's.

    Raises:
        MalformedError: if it is not a certificate.
    """
    bound = bound_level(check_certificate(certificate))
    origin = certificate.origin
    fault = None if origin is None else partial(dataset_fault, certificate, origin)
    return (
        bound,
        _posterior_level(certificate),
        dataset_level(dataset, fault, 0 if origin is None else len(origin.rows)),
    )


def bound_level(report: Report) -> Level:
    """Return level (a)."""
    found = "; ".join(report.problems) or f"{report.leaves} leaves, {report.boxes} bounds computed again"
    outcome = CONFIRMED if report.confirmed else REFUTED
    return Level("the bound holds for the stored posterior", outcome, found)


def _posterior_level(certificate: Certificate) -> Level:
    origin = certificate.origin
    if origin is None:
        return Level("the stored posterior is the one of its data", OPEN, "the certificate states no data")
    name = INFERENCES[origin.inference]
    statement = f"the stored posterior is the {name} posterior of the stored rows and labels"
    if origin.inference == "minibatch":
        return Level(statement, OPEN, MINIBATCH)
    if origin.inference == "variational":
        values = f"{len(certificate.model.X)} inducing inputs" if len(origin.X) else "one value a row"
        statement += f", {values}, jitter {origin.jitter:g}"
    return residual_level(statement, stationarity_residuals(certificate.model, origin))


def residual_level(statement: str, found: Residuals) -> Level:
    """Return level (b)."""
    reason = (
        f"stationarity residual {found.mean:.1e} (mean, in prior standard deviations), {found.covariance:.1e} "
        f"(covariance, of the prior's), {found.moments:.1e} (moments); tolerance {TOLERANCE:g}"
    )
    if found.largest <= TOLERANCE:
        return Level(statement, CONFIRMED, reason)
    if found.largest <= found.rounding:
        return Level(statement, OPEN, f"too ill-conditioned to tell, rounding {found.rounding:.1e}; {reason}")
    return Level(statement, REFUTED, reason)


def dataset_level(dataset: Dataset | None, fault_of: Callable[[Dataset], str] | None, rows: int) -> Level:
    """Return level (c); `fault_of` is None where no dataset is stated."""
    statement = "the stored rows and labels are the dataset's"
    if fault_of is None:
        return Level(statement, OPEN, "the certificate states no dataset")
    if dataset is None:
        given = "give dataset=NAME, or dataset.path=FILE dataset.target=NAME"
        return Level(statement, OPEN, f"the names and units below are as stated; {given}")
    fault = fault_of(dataset)
    size = f"{rows} training rows and the point's row compared, content {dataset.content_hash}"
    return Level(statement, REFUTED if fault else CONFIRMED, fault or size)


def dataset_fault(certificate: Certificate, origin: Origin, dataset: Dataset) -> str:
    """Return how the dataset differs from what a certificate states, or an empty string."""

    def labels(rows: IntArray) -> str:
        stated = [origin.classes[int(label > 0)] for label in origin.labels]
        return "" if labels_of(dataset, rows) == stated else "the labels are not the dataset's"

    return rows_fault(certificate.model.X, certificate.region, origin, dataset, "classification", labels)


def labels_of(dataset: Dataset, rows: IntArray) -> list[str]:
    """Return the labels of rows as the dataset names them."""
    names = dataset.label_names or tuple(f"{number}" for number in range(dataset.n_classes))
    return [names[int(label)] for label in dataset.y[rows, 0]]


class StatedModel(Protocol):
    """What every certificate says of its model."""

    @property
    def kernel(self) -> str: ...  # noqa: D102
    @property
    def variance(self) -> float: ...  # noqa: D102
    @property
    def lengthscales(self) -> FloatArray: ...  # noqa: D102
    @property
    def X(self) -> FloatArray: ...  # noqa: D102


class StatedOrigin(Protocol):
    """What every certificate says of the data of its model."""

    @property
    def dataset(self) -> str: ...  # noqa: D102
    @property
    def inference(self) -> str: ...  # noqa: D102
    @property
    def content(self) -> str: ...  # noqa: D102
    @property
    def row(self) -> int: ...  # noqa: D102
    @property
    def rows(self) -> IntArray: ...  # noqa: D102
    @property
    def inputs(self) -> tuple[str, ...]: ...  # noqa: D102
    @property
    def offset(self) -> FloatArray: ...  # noqa: D102
    @property
    def scale(self) -> FloatArray: ...  # noqa: D102
    @property
    def X(self) -> FloatArray: ...  # noqa: D102


def rows_fault(
    model_X: FloatArray,
    region: StoredRegion,
    origin: StatedOrigin,
    dataset: Dataset,
    task: str,
    targets_fault: Callable[[IntArray], str],
) -> str:
    """Return how the dataset differs from stated rows, inputs and point, or an empty string.

    Args:
        model_X: inputs of the model, the training inputs unless the origin has some.
        region: around the point.
        origin: as stated.
        dataset: the one it should be about.
        task: of such a dataset.
        targets_fault: how the targets of existing rows differ.
    """
    if dataset.content_hash != origin.content:
        return f"the content of {dataset.name} is {dataset.content_hash} (line ends and number formats count)"
    if dataset.task != task:
        return f"{dataset.name} is a {dataset.task} dataset"
    if dataset.X.shape[1] != model_X.shape[1] or max(origin.row, int(origin.rows.max())) >= len(dataset.X):
        return "rows or inputs that the dataset does not have"
    if len(np.unique(origin.rows)) != len(origin.rows) or origin.row in origin.rows:
        return "a training row comes twice, or is the point itself"
    if targets_fault(origin.rows):
        return targets_fault(origin.rows)
    with np.errstate(over="ignore"):  # an infinite row differs from any stored one
        X, x = ((dataset.X[rows] - origin.offset) / origin.scale for rows in (origin.rows, origin.row))
    if not np.array_equal(origin.X if len(origin.X) else model_X, X):
        return "the training inputs are not the dataset's"
    if not np.array_equal(region.centre, x):
        return f"the region's centre is not row {origin.row}"
    if tuple(dataset.input_names[place] for place in region.free) != origin.inputs:
        return "the free inputs have other names"
    return ""


def describe(certificate: Certificate, proved: bool) -> Iterator[tuple[str, str]]:
    """Yield in words what a certificate is about and what it claims, with a warning unless that was proved."""
    model, region, origin = certificate.model, certificate.region, certificate.origin
    if origin is not None:
        yield from origin_words(origin)
        negative, positive = map(printable, origin.classes)
        yield "classes", f"probability of {positive} against {negative}"
    squeezed = f" squeezed by {model.squeeze:g}" if model.squeeze else ""
    yield "model", model_words(model, origin, f"{model.link}{squeezed} link", certificate.model_hash)
    yield from region_words(region, origin)
    for claim in certificate.claims:
        side = "maximum" if claim.sign > 0 else "minimum"
        statement = f"no class probability in the region is {claimed_ends(claim)}"
        yield side, statement if proved else f"claimed, not proved: {statement}"


def claimed_ends(claim: Claim, scale: float = 1.0, offset: float = 0.0) -> str:
    """Return what a claim proves and what it attains, times scale plus offset, rounded so that both stay true."""
    no, at = ("above", "at least") if claim.sign > 0 else ("below", "at most")
    proved = f"{no} {rounded_units(claim.outer, scale, offset, claim.sign)}"
    if claim.inner is None:
        return proved
    return f"{proved}; {at} {rounded_units(claim.inner, scale, offset, -claim.sign)} is attained"


def origin_words(origin: StatedOrigin) -> Iterator[tuple[str, str]]:
    """Yield the dataset and the point."""
    yield "dataset", f"{printable(origin.dataset)}, content {printable(origin.content)} (as stated)"
    yield "point", f"row {origin.row} of the dataset, counted from 0 without rows that were left out"


def model_words(model: StatedModel, origin: StatedOrigin | None, observed: str, digest: str) -> str:
    """Return inference and kernel of a model, how its latent function is observed, its size and stated hash."""
    by = "" if origin is None else f"{INFERENCES[origin.inference]}, "
    return (
        f"{by}kernel {model.kernel}, variance {model.variance:.6g}, lengthscales {model.lengthscales.min():.6g} to "
        f"{model.lengthscales.max():.6g}, {observed}, {len(model.X)} rows, SHA-256 {printable(digest)}"
    )


def region_words(region: StoredRegion, origin: StatedOrigin | None) -> Iterator[tuple[str, str]]:
    """Yield the free inputs with their ends, in the dataset's units if they are known, and the region's shape."""
    yield "free", "; ".join(_free_inputs(region, origin))
    shape = (
        "box"
        if region.norm == "box"
        else f"{region.norm.upper()} ball of radius {rounded(region.radius, 6, -1)}, cut by the box"
    )
    unit = "inputs as the model takes them" if origin is None else "inputs after the stored offset and scale"
    yield "region", f"{shape} of these ends ({unit}); all other inputs are the point's"


def _free_inputs(region: StoredRegion, origin: StatedOrigin | None) -> list[str]:
    """Return the free inputs with their ends, in the dataset's units if they are known."""
    names = (
        [f"input {place}" for place in region.free] if origin is None else [*map(printable, origin.inputs)]
    )
    count = len(region.free)
    offset, scale = np.zeros(count), np.ones(count)
    if origin is not None:
        offset, scale = origin.offset[region.free], origin.scale[region.free]
    shown = []
    for name, *numbers in zip(names, region.lower, region.upper, scale, offset, strict=True):
        low, high = rounded_interval(*numbers)
        shown.append(f"{name} from {low} to {high}")
    more = len(shown) - MOST_INPUTS_SHOWN
    return shown if more <= 0 else [*shown[:MOST_INPUTS_SHOWN], f"and {more} more"]
