"""Types of arrays in signatures, whose shapes docstrings say. Columns of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
LongArray: TypeAlias = NDArray[np.longdouble]  # extended precision, of the independent checks of certificates

LARGEST = 1e100  # of a number that a user gives: products of a few such numbers are finite


def picked(X: Any, names: Sequence[str]) -> Any:
    """Return the columns of these names of a DataFrame, in their order. Anything without columns as it is.

    Raises:
        ValueError: if there is no such column, or more than one.
    """
    columns = getattr(X, "columns", None)
    if columns is None:
        return X
    given, wanted = list(columns), ", ".join(map(str, names))
    for name in names:
        if name not in given:
            raise ValueError(f"no column {name!r}: the columns {wanted} are needed, got {', '.join(map(str, given))}")
        if given.count(name) > 1:
            raise ValueError(f"{given.count(name)} columns are called {name!r}: one of each of {wanted} is needed")
    return X[list(names)]
