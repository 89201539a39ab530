"""The scores of wasserstein/regression over folds: their intervals pay for the training rows that folds share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.wasserstein.regression import BEFORE, SHOWN, summarise
from gpsuite.statistics.estimates import corrected_mean


def test_means_over_folds_are_corrected_for_the_rows_they_share(tmp_path: Path) -> None:
    words = ["experiment=wasserstein/regression", "methods=[exact_gp]", "folds=5", "used_folds=3"]
    request: Any = read_request(words)[0]
    drawn = 0.5 + 0.1 * np.random.default_rng(0).uniform(size=(3, len(SHOWN) + len(BEFORE)))
    records = []
    for fold, values in enumerate(drawn.tolist()):
        axes: dict[str, str | int | float] = {"method": "exact_gp", "fold": fold}
        metrics = dict(zip((*SHOWN, *BEFORE), values, strict=True))
        records.append(Record("key", request.experiment, "", axes, "done", "", metrics, {}))
    found = {each.name: each for each in summarise(Report(request, records, tmp_path))}
    one = found["rmse_test_own_units[method=exact_gp]"]
    expected = corrected_mean(drawn[:, 0], 1.0 / 4.0)  # one part is tested, four are learnt
    assert (one.value, one.n, one.interval) == (expected.value, 3, expected.interval)
    assert one.standard_error == pytest.approx(expected.error, rel=1e-12)
    assert one.interval_high == pytest.approx(expected.high, rel=1e-12)
