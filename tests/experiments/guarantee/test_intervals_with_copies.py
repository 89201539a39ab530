"""Intervals of a table whose equal rows are draws that agree, and of targets exactly at an interval's end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.arrays import FloatArray
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.guarantee.regression import KERNEL, judged_model, kept_model, latent_posterior, rounding
from gpsuite.experiments.guarantee.saved import SavedRegression
from gpsuite.experiments.guarantee.tasks import Learning
from gpsuite.methods.conformal import LeaveOneOut

LEARNING = Learning(
    seed=0, goal=1.0, own=True, delta=0.01, coverage=0.9, test_share=0.2, preparation=0.1, most_rows=1000,
    max_evaluations=10,
)  # fmt: skip


def drawn(rows: int, rng: np.random.Generator) -> FloatArray:
    """Return independent draws of four whole numbers and a target: half of them one input with a coin's target."""
    common = rng.random(rows) < 0.5
    X = np.where(common[:, None], 0, rng.integers(1, 10, (rows, 4)))
    y = np.where(common, rng.choice([-3, 3], rows), np.where(X[:, 0] > 5, 1, -1))
    return np.column_stack([X, y])


def kept(folder: Path, seed: int, offset: int = 0) -> SavedRegression:
    path = folder / f"table{seed}.csv"
    table = drawn(300, np.random.default_rng(seed))
    table[:, 4] += offset
    np.savetxt(path, table, delimiter=",", header="a,b,c,d,y", comments="", fmt="%d")
    dataset = prepare(CsvSpec(path=str(path), target="y", task="regression"), cache_dir=folder)
    shared = SharedWork()
    fitted, judged = kept_model(dataset, LEARNING, shared), judged_model(dataset, LEARNING, shared)
    return SavedRegression.of(load(dataset), fitted, judged, latent_posterior(fitted.posterior), LEARNING.coverage)


@pytest.mark.parametrize("name", ["conformal", "jackknife"])
def test_intervals_hold_where_equal_rows_are_draws(tmp_path: Path, name: str) -> None:
    new, shares = drawn(2000, np.random.default_rng(4)), []
    for seed in range(100, 105):
        low, high = getattr(kept(tmp_path, seed).predict(new[:, :4]), name).T
        shares.append(float(np.mean((low <= new[:, 4]) & (new[:, 4] <= high))))
    assert np.mean(shares) >= LEARNING.coverage, shares


@pytest.mark.parametrize("offset", [0, 10**9])
def test_a_test_row_as_far_off_as_the_radius_is_inside(tmp_path: Path, offset: int) -> None:
    met = 0
    for seed in range(100, 105):
        saved = kept(tmp_path, seed, offset)
        found = saved.predict(np.zeros((1, 4)))
        (low, high), middle = found.conformal[0], float(found.judged[0])
        far = offset + (-3.0 if middle > offset else 3.0)
        near = 1e-9 + 1e-14 * offset
        if saved.radius is not None and abs(saved.radius - abs(far - middle)) < near:  # this row is the radius
            met += 1
            assert low <= far <= high, (seed, low, high)
    assert met


def test_rows_that_one_draw_filled_are_lost(tmp_path: Path) -> None:
    """If copies are one draw stored again, the models that were not trained on it are too few: no finite end."""
    rng = np.random.default_rng(8)
    table = rng.normal(size=(150, 3))
    for copies, finite in ((0, True), (150, False)):
        path = tmp_path / f"copies{copies}.csv"
        np.savetxt(path, np.concatenate([table, table[:copies]]), delimiter=",", header="a,b,y", comments="")
        dataset = prepare(CsvSpec(path=str(path), target="y", task="regression"), cache_dir=tmp_path)
        shared = SharedWork()
        judged = judged_model(dataset, LEARNING, shared)
        fitted = kept_model(dataset, LEARNING, shared)
        saved = SavedRegression.of(load(dataset), fitted, judged, latent_posterior(fitted.posterior), 0.9)
        assert bool(np.isfinite(saved.predict(np.zeros((1, 2))).jackknife).all()) is finite
        assert (judged.held_different is None) is finite
    groups = load(dataset).groups
    assert judged.held_different is not None and groups is not None
    held, train = groups[judged.held], groups[judged.fitted.rows]
    for place, lost in zip(judged.held_different.places, judged.held_different.seen, strict=True):
        assert lost == (held[place] in train or np.count_nonzero(held == held[place]) > 1)


@pytest.mark.parametrize(("mean", "scale"), [(1e9, 1.0), (-3e5, 1e-6), (1e12, 2e3)])
def test_what_a_far_mean_rounds_is_counted(mean: float, scale: float) -> None:
    """In own units the target's mean is added, which rounds by half a unit in its last place, at errors and at ends."""
    models = LeaveOneOut(np.zeros((1, 1)), KERNEL, 1.0, np.ones(1), np.zeros(1), np.zeros((1, 1)), np.zeros(1))
    target = Standardiser(np.array([mean]), np.array([scale]))
    assert rounding(models, target) * scale >= 2.0 * np.spacing(abs(mean))
