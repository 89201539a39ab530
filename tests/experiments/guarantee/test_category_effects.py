"""What categories do to a kept classifier's probability, against its own predictions of rows with other levels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite.budget import Budget
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.classification import input_effects, kept_classifier, level_effects
from gpsuite.experiments.guarantee.saved_classifier import SavedClassifier
from gpsuite.experiments.guarantee.searches import Searches
from gpsuite.experiments.guarantee.tasks import Learning

LEARNING = Learning(
    seed=3, goal=1.0, own=False, delta=0.01, coverage=0.9, test_share=0.2, preparation=0.1, most_rows=90,
    max_evaluations=3,
)  # fmt: skip


@pytest.mark.parametrize("classes", [2, 3])
def test_effects_of_levels_are_differences_of_predictions(tmp_path: Path, classes: int) -> None:
    rng = np.random.default_rng(classes)
    color, sex, dose = rng.choice(["b", "g", "r"], 80), rng.choice(["f", "m"], 80), rng.normal(size=80)
    score = dose + 1.5 * (color == "r") + (sex == "m") + 0.2 * rng.normal(size=80)
    label = np.digitize(score, np.linspace(0.2, 1.2, classes - 1))
    frame = pd.DataFrame(
        {"color": color, "sex": sex, "dose": dose, "kind": [f"class{each}" for each in label]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    spec = CsvSpec(path=str(tmp_path / "t.csv"), target="kind", task="classification")
    dataset = prepare(spec, cache_dir=tmp_path)
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
