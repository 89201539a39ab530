"""The certificates that fits leave behind: in the arrays of their records, and as files of a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gpsuite.certificates.envelope import write_packed
from gpsuite.certificates.risk import UNNAMED_TARGET, Goal, RiskCertificate, RiskClaim, Rows, pack
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Record
from gpsuite.experiments.pac_bayes.tasks import FitTask
from gpsuite.methods.pac_bayes.evaluation import Evaluation
from gpsuite.methods.pac_bayes.posteriors import Posterior

DESCRIPTION = "certificate"  # the array that holds the description as text


def stored_certificate(
    data: PreparedDataset, params: FitTask, posterior: Posterior, found: Evaluation
) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a fit's record: the posterior's, and the certificate's description as text.

    Args:
        data: the dataset.
        params: the task's science parameters.
        posterior: what was certified.
        found: the certificate and its metrics.
    """
    loss, certificate = params.loss, found.certificate
    unit = "own" if loss.epsilon is None else "standard deviations"
    goal = Goal(loss.name, float(loss.given), unit)
    # risk and KL as the bound takes them: with what rounding can have hidden
    risk = min(certificate.gibbs_risk + certificate.risk_rounding, 1.0)
    kl = certificate.penalty.kl + certificate.penalty.rounding
    bounds = {"kl": found.bound_kl, "kl_lower": certificate.lower_kl}
    claim = RiskClaim(params.delta, risk, kl, bounds)
    description, arrays = pack(RiskCertificate(_rows(data, params), posterior.predictor, goal, claim))
    return {**arrays, DESCRIPTION: np.array(json.dumps(description))}


def _rows(data: PreparedDataset, params: FitTask) -> Rows:
    target = data.spec.get("target") or UNNAMED_TARGET
    named = ", ".join(target) if isinstance(target, list) else str(target)
    return Rows(data.name, data.content_hash, data.rows, params.test_share, params.split_seed, params.scaling, named)


def write_certificates(records: Sequence[Record], folder: Path) -> list[Path]:
    """Write each record's certificate as `folder`/<method>_split_<k>.npz and .json. Return the .npz files."""
    paths = []
    for record in records:
        if DESCRIPTION in record.arrays:
            arrays = {name: array for name, array in record.arrays.items() if name != DESCRIPTION}
            path = folder / f"{record.axes['method']}_split_{record.axes['split']}.npz"
            write_packed(json.loads(str(record.arrays[DESCRIPTION])), arrays, path)
            paths.append(path)
    return paths
