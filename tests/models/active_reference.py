"""The sections of safe_al.json, shared by the tests that compare with them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.arrays import Array

HERE = Path(__file__).parents[1] / "reference"
FILE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or HERE) / "safe_al.json"
REFERENCE: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}

# As the file states for deterministic cases.
TOLERANCE: dict[str, float] = {"rtol": 1e-6, "atol": 1e-8}
GRADIENT_RTOL = 1e-4


def section(name: str) -> Any:
    """Return a section of the file, empty if it is absent."""
    return REFERENCE.get(name, {})


def cases(*kinds: str) -> list[Any]:
    """Return the fixed cases of these kinds as parameters of a test, with their ids."""
    return [pytest.param(case, id=case["id"]) for case in REFERENCE.get("cases", []) if case["kind"] in kinds]


def table(values: list[list[float | None]]) -> Array:
    """Return a table of outputs [N, P] in which what was not observed is NaN."""
    return np.array([[np.nan if value is None else value for value in row] for row in values])
