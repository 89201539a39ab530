"""What categories do to a kept classifier's probability, against its own predictions of rows with other levels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.checks import Searches
from gpsuite.experiments.guarantee.classification import (
    class_probabilities,
    input_effects,
    kept_classifier,
    level_effects,
    probability_ranges,
    proved_safe,
)
from gpsuite.experiments.guarantee.regression import kept_model
from gpsuite.experiments.guarantee.run import run_rows
from gpsuite.experiments.guarantee.saved import SavedClassifier
from gpsuite.experiments.guarantee.tasks import RowsTask
from tests.experiments.guarantee.test_classification_guarantee import LEARNING


def table(folder: Path, classes: int) -> PreparedDataset:
    """Return a table of 80 rows with two categories and a number; of a number where there are no classes."""
    rng = np.random.default_rng(classes)
    color, sex, dose = rng.choice(["b", "g", "r"], 80), rng.choice(["f", "m"], 80), rng.normal(size=80)
    score = dose + 1.5 * (color == "r") + (sex == "m") + 0.2 * rng.normal(size=80)
    label = [f"class{each}" for each in np.digitize(score, np.linspace(0.2, 1.2, max(classes - 1, 1)))]
    frame = pd.DataFrame({"color": color, "sex": sex, "dose": dose, "kind": label if classes else score})
    frame.to_csv(folder / "t.csv", index=False)
    task = "classification" if classes else "regression"
    return prepare(CsvSpec(path=str(folder / "t.csv"), target="kind", task=task), cache_dir=folder)


@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_are_proved_of_moved_numbers_only(tmp_path: Path, classes: int) -> None:
    dataset = table(tmp_path, classes)
    model, data = kept_classifier(dataset, LEARNING, SharedWork()), load(dataset)
    dose, x = data.input_names.index("dose"), model.scaled(data.X[:8])
    ranges = probability_ranges(model, x, [0.7], Searches(Budget(), 300), 0.01)[:, 0]
    steps = proved_safe(model, x, [0.7], Searches(Budget(), 300)).tolist()
    for row, point in enumerate(x):
        own = int(np.argmax(class_probabilities(model, point[None])[0]))
        line = np.tile(point, (201, 1))
        line[:, dose] += np.linspace(-0.7, 0.7, 201)
        reached = class_probabilities(model, line)
        low, high = reached[:, own].min(), reached[:, own].max()
        assert low - 0.03 < ranges[row, 0] <= low + 1e-9 and high - 1e-9 <= ranges[row, 1] < high + 0.03
        assert steps[row] == np.all(np.argmax(reached, axis=1) == own)
    assert 0 < sum(steps) < 8


def test_predictions_are_proved_of_moved_numbers_only(tmp_path: Path) -> None:
    dataset = table(tmp_path, 0)
    data, learning = load(dataset), replace(LEARNING, max_evaluations=100)
    task: Any = SimpleNamespace(
        require_dataset=lambda: dataset,
        budget_seconds=None,
        params=RowsTask(learning=learning, new="", tolerances=[0.7], count=4, boxes=300, tolerance=0.01),
    )
    shared = SharedWork()
    arrays = run_rows(task, shared).arrays
    fitted, dose = kept_model(dataset, learning, shared), data.input_names.index("dose")
    for row, (low, high) in zip(arrays["examples"], arrays["ranges"][:, 0], strict=True):
        line = np.tile(data.X[row], (201, 1))
        line[:, dose] += np.linspace(-0.7, 0.7, 201) * data.X[:, dose].std()
        reached = fitted.predict(line)[0]
        margin = 0.03 * fitted.scale
        assert reached.min() - margin < low <= reached.min() and reached.max() <= high < reached.max() + margin


@pytest.mark.parametrize("classes", [2, 3])
def test_effects_of_levels_are_differences_of_predictions(tmp_path: Path, classes: int) -> None:
    dataset = table(tmp_path, classes)
    model, data = kept_classifier(dataset, LEARNING, SharedWork()), load(dataset)
    names, X = list(data.input_names), data.X[:6]
    x = model.scaled(X)
    moved = input_effects(model, x, Searches(Budget(), 300), 0.05)
    levels = np.array([name in data.level_inputs for name in names])
    assert (moved[:, levels] == 0.0).all() and (moved[:, ~levels] != 0.0).all()
    found, saved = level_effects(model, data, x), SavedClassifier.of(data, model)
    assert (found[:, ~levels] == 0.0).all()
    own = saved.predict(X).probabilities
    for place in np.flatnonzero(levels):
        category = names[place].split("=")[0]
        group = [each for each, name in enumerate(names) if name.startswith(f"{category}=")]
        low, high = X.copy(), X.copy()
        high[:, group] = 0.0
        high[:, place] = 1.0
        if len(group) == 1:  # two levels: raised is the second, lowered the first
            low[:, place] = 0.0
        change = saved.predict(high).probabilities - saved.predict(low).probabilities
        expected = change[np.arange(6), np.argmax(own, axis=1)]
        np.testing.assert_allclose(found[:, place], expected, atol=1e-9)
