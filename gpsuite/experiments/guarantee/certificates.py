"""The certificates of a run, for `gpsuite verify`: a PAC-Bayes bound, and ranges of the first rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray
from gpsuite.certificates.certificate import NO_ROW, Origin, QuantileQuantity, pack
from gpsuite.certificates.envelope import write_packed
from gpsuite.certificates.risk import BY_NUMBER, Goal, RiskCertificate, RiskClaim, Rows, StatedRows
from gpsuite.certificates.risk import pack as pack_risk
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Record
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.experiments.guarantee.regression import Fitted, kept_copies, kept_rows
from gpsuite.experiments.guarantee.saved import PREFIX
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.experiments.pac_bayes.mnist import DESCRIPTION, Certified
from gpsuite.experiments.robustness.classifiers import Classifier
from gpsuite.experiments.robustness.judging import Limits, certificate_origin, classes_of
from gpsuite.experiments.robustness.records import too_large
from gpsuite.methods.pac_bayes.bounds import Certificate
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.regression import MEAN, prediction_range
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.latent import LatentPosterior
from gpsuite.reporting.publish import note_written, remove_stale

NAME = "certificate_"  # of the arrays of a record: certificate_NAME/ARRAY
ABOUT = "description"
SHARE = 8  # of the seconds that are left a certificate takes one part
CERTIFIED, BOXES, SLACK = 3, 2000, 1e-2  # first rows, boxes of each side, and how much looser than the search
Arrays = dict[str, npt.NDArray[Any]]


def risk_certificate(
    dataset: PreparedDataset, learning: Learning, fitted: Fitted, found: Certificate, width: float, delta: float
) -> Arrays:
    """Return the record's arrays of the certificate of the bound at one error. None if a copy chose the scale.

    Args:
        dataset: the table.
        learning: of the kept model.
        fitted: that model.
        found: its bound.
        width: the error, in standard deviations of the target.
        delta: allowed probability that this single bound fails.
    """
    data, (scaled_by, rows) = load(dataset), kept_rows(dataset, learning)
    different = kept_copies(dataset, learning).train
    if different is not None and different.seen.any():
        return {}
    target = data.target_names[0]
    about = Rows(dataset.name, dataset.content_hash, dataset.rows, 0.5, 0, BY_NUMBER, target)
    lengthscales = fitted.inputs.scale / _deviations(data, scaled_by)
    bounds = {"kl": found.bound_kl, "kl_lower": found.lower_kl}
    risk = min(found.gibbs_risk + found.risk_rounding, 1.0)
    claim = RiskClaim(delta, risk, found.penalty.kl + found.penalty.rounding, bounds)
    goal = Goal("band01", width, "standard deviations")
    stated = StatedRows(rows.astype(np.int64), scaled_by.astype(np.int64), lengthscales)
    return _in_record("risk", *pack_risk(RiskCertificate(about, fitted.posterior.predictor, goal, claim, stated)))


def _deviations(data: Dataset, rows: npt.NDArray[np.int64]) -> FloatArray:
    deviations = data.X[rows].std(axis=0)
    return np.where(np.ptp(data.X[rows], axis=0) == 0.0, 1.0, deviations)


def error_rate_certificate(made: Certified) -> Arrays:
    """Return the record's arrays of the certificate of a classifier's error rate."""
    arrays = {name: array for name, array in made.arrays.items() if name != DESCRIPTION}
    return _in_record("error_rate", json.loads(str(made.arrays[DESCRIPTION])), arrays)


def range_certificates(
    dataset: PreparedDataset, fitted: Fitted, latent: LatentPosterior, regions: Sequence[Region], searches: Searches,
    tolerance: float,
) -> Arrays:  # fmt: skip
    """Return the record's arrays of the certificates of the mean prediction over each region."""
    data, arrays, noise = load(dataset), Arrays(), fitted.posterior.hyperparameters.noise_variance
    if too_large((latent.root, latent.alpha, latent.X), 1):
        return {}
    for number, region in enumerate(regions, start=1):
        if searches.clock.exhausted:
            break
        budget = searches.budget(among=SHARE)
        (mean,) = prediction_range(latent, noise, region, [MEAN], tolerance, budget)
        sides = [(QuantileQuantity(MEAN), end) for end in (mean.minimum, mean.maximum)]
        origin = Origin(
            dataset=dataset.name,
            content=dataset.content_hash,
            row=NO_ROW,
            outputs=(data.target_names[0],),
            inputs=tuple(data.input_names[place] for place in region.free),
            inference="exact",
            rows=fitted.rows.astype(np.int64),
            targets=fitted.posterior.y,
            offset=fitted.inputs.mean,
            scale=fitted.inputs.scale,
            X=np.empty((0, latent.X.shape[1])),
            sites=np.empty((2, 0)),
            target_offset=float(fitted.target.mean[0]),
            target_scale=fitted.scale,
        )
        try:
            made = certify(latent, region, sides, SLACK, noise, most_boxes=BOXES, budget=budget, origin=origin)
        except ValueError:  # the seconds ended before anything could be claimed
            continue
        arrays |= _in_record(f"row_{number}", *pack(made))
    return arrays


def class_certificates(
    dataset: PreparedDataset, model: Classifier, regions: Sequence[Region], searches: Searches, tolerance: float
) -> Arrays:
    """Return the record's arrays of the certificates of the class probabilities over each region."""
    view, arrays, latent = classes_of(model), Arrays(), model.posterior
    if too_large((latent.root, latent.alpha, latent.X), view.couples):
        return {}
    for number, region in enumerate(regions, start=1):
        point = view.around(region.centre, region.free)
        if searches.clock.exhausted or point.only_stated:
            continue
        budget = searches.budget(among=SHARE)
        judged = point.judge(region, Limits(tolerance, 1, number), budget)
        origin = certificate_origin(dataset, model, NO_ROW, region)
        proof = point.certify(judged, region, BOXES, budget, origin)[1]
        arrays |= _in_record(f"row_{number}", proof.description, proof.arrays)
    return arrays


def _in_record(name: str, description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Arrays:
    """Return a certificate as arrays of a record, without those of the model, which the record keeps anyway."""
    kept = {each: array for each, array in arrays.items() if not each.startswith("model_")}
    return {f"{NAME}{name}/{ABOUT}": np.array(json.dumps(description))} | {
        f"{NAME}{name}/{each}": array for each, array in kept.items()
    }


def _of_record(record: Record) -> Iterator[tuple[str, dict[str, Any], Arrays]]:
    """Yield name, description and arrays of a record's certificates."""
    shared = {name.removeprefix(PREFIX): each for name, each in record.arrays.items()}
    models = {name: each for name, each in shared.items() if name.startswith("model_")}
    for key in record.arrays:
        name, slash, last = key.removeprefix(NAME).partition("/")
        if not slash or last != ABOUT:
            continue
        begin = f"{NAME}{name}/"
        own = {each.removeprefix(begin): array for each, array in record.arrays.items() if each.startswith(begin)}
        description = json.loads(str(own.pop(ABOUT)))
        yield name, description, {**(models if "claims" in description else {}), **own}


def write_certificates(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write the records' certificates into a folder, and remove those of earlier runs. Return the .npz files."""
    found = [each for record in records for each in _of_record(record)]
    files = [f"{name}{ending}" for name, *_ in found for ending in (".npz", ".json")]
    remove_stale(folder, files)
    if found:
        folder.mkdir(parents=True, exist_ok=True)
    paths = [write_packed(about, arrays, folder / name)[0] for name, about, arrays in found]
    note_written(folder, files)
    return paths
