"""Categories among the inputs: they change from level to level, not by fractions."""

from __future__ import annotations

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.experiments.robustness.shared.classifiers import Problem


def levels_of(data: Dataset) -> list[tuple[str, str]]:
    """Return every category and level, S pairs, in the order of `switched`."""
    return [(name, level) for name, levels in data.categories.items() for level in levels]


def switched(problem: Problem, data: Dataset, x: FloatArray) -> FloatArray:
    """Return a scaled point [D] with each level of each category in turn, [S, D]."""
    found = []
    for name, levels in data.categories.items():
        inputs = {f"{name}={level}" for level in levels}
        places = np.array([place for place, each in enumerate(data.input_names) if each in inputs])
        for level in levels:
            own = np.array([float(data.input_names[place] == f"{name}={level}") for place in places])
            point = x.copy()
            point[places] = (own - problem.offset[places]) / problem.scale[places]
            found.append(point)
    return np.array(found).reshape(len(found), len(x))
