"""Types of arrays in signatures; docstrings say the shapes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]
LongArray: TypeAlias = NDArray[np.longdouble]  # extended precision, of the independent checks of certificates
