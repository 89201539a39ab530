"""What newcomers hand over first: a seed for a generator, a name for a link."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpsuite.methods.active_learning import MeasurementPlanner, SafetyLimit
from gpsuite.methods.perturbation import LinearLSSVM, ModelClass, confidence_region
from gpsuite.methods.robustness import BinaryProblem, ModelSpec
from gpsuite.methods.wasserstein import split_rows

X, y = np.arange(12.0).reshape(6, 2) ** 0.5, np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])

FACES: dict[str, Callable[[Any], object]] = {
    "planner": lambda rng: MeasurementPlanner(SafetyLimit(1.0, "below"), rng),
    "region": lambda rng: confidence_region(X, y, ModelClass(partial(LinearLSSVM, C=1.0)), q=1, m=4, rng=rng),
    "rows": lambda rng: split_rows(X, y, 0.2, rng),
}


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("rng", [3, None, np.random.RandomState(0)])
def test_what_is_no_generator_is_refused_with_what_would_be(face: str, rng: object) -> None:
    expected = rf"a random generator is needed, numpy.random.default_rng\({3 if rng == 3 else ''}\)"
    with pytest.raises(TypeError, match=expected):
        FACES[face](rng)
    FACES[face](np.random.default_rng(3))


def test_the_name_of_a_link_is_refused_with_how_to_get_it() -> None:
    with pytest.raises(TypeError, match=r"link='probit': a link is needed, LINKS.get\('probit'\)"):
        BinaryProblem(X, y, ModelSpec(), "probit")  # type: ignore[arg-type]
