"""The estimators pass scikit-learn's own checks; none is excepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import gpsuite

EXCEPTED: dict[str, str] = {}  # name of a check -> why it does not apply
ESTIMATORS = [
    gpsuite.PACGPRegressor(max_evaluations=20),
    gpsuite.PACSGPRegressor(inducing=10, max_evaluations=50),
    gpsuite.ConfidenceBand(),
]
TABLE = pd.DataFrame(np.random.default_rng(0).uniform(-2.0, 2.0, (60, 3)), columns=["speed", "load", "heat"])
TARGET = pd.Series(np.sin(TABLE.speed) + 0.1 * TABLE.heat, name="wear")


@pytest.mark.filterwarnings("ignore:at the edge of the grid")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXCEPTED)  # type: ignore[untyped-decorator]
def test_scikit_learns_checks_pass(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
def test_a_table_keeps_its_column_names(estimator: Any) -> None:
    fitted = clone(estimator).fit(TABLE, TARGET)
    assert fitted.feature_names_in_.tolist() == ["speed", "load", "heat"]
    assert fitted.n_features_in_ == 3
    expected = fitted.predict(TABLE)
    other = TABLE.assign(colour="red")[["heat", "colour", "speed", "load"]]
    np.testing.assert_array_equal(fitted.predict(other), expected)
    with pytest.raises(
        ValueError, match=r"^no column 'load': the columns speed, load, heat are needed, got speed, heat$"
    ):
        fitted.predict(TABLE[["speed", "heat"]])
    with pytest.raises(ValueError, match=r"^2 columns are called 'load'"):
        fitted.predict(pd.concat([TABLE, TABLE[["load"]]], axis=1))


def test_they_work_in_pipelines_and_cross_validation() -> None:
    model = make_pipeline(StandardScaler(), gpsuite.PACGPRegressor(accuracy=0.5))
    assert cross_val_score(model, TABLE, TARGET, cv=3).min() > 0.0
    nested = gpsuite.ConfidenceBand(model=KernelRidge(alpha=0.5))
    assert clone(nested.set_params(model__alpha=0.25)).model.alpha == 0.25
