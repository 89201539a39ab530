"""Inputs of an estimator: numbers without gaps, and of a DataFrame the columns that it was fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

from gpsuite.arrays import FloatArray, picked


def rows_to_fit(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """Return inputs [N, D] and targets [N]. The estimator gets `n_features_in_`, and `feature_names_in_` of a table.

    Raises:
        TypeError, ValueError: if they are no finite numbers, or do not fit each other.
    """
    X, y = validate_data(estimator, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
    return X, np.asarray(y, dtype=np.float64)


def rows_to_predict(estimator: Any, X: Any) -> FloatArray:
    """Return inputs [B, D]: of a table the columns of those names, in any order. Others are left out.

    Raises:
        NotFittedError: before `fit`.
        TypeError, ValueError: if a column is missing, or they are no finite numbers.
    """
    check_is_fitted(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        X = picked(X, names)
    return np.asarray(validate_data(estimator, X, dtype=np.float64, reset=False))


def names_of(estimator: Any) -> list[str]:
    """Return the names of the inputs, x0 and so on if there were none."""
    names = getattr(estimator, "feature_names_in_", None)
    return [f"x{number}" for number in range(estimator.n_features_in_)] if names is None else [*map(str, names)]
