"""The array type of tests that pass on what they hold, whatever its numbers are."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
