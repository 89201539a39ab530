"""Randomised smoothing and certified Gaussian processes on the same tables: certified accuracy on test rows.

    python scripts/study_smoothing.py FOLDER OUT

FOLDER and the split are those of scripts/study_priors.py; the first 30 test rows are asked. Of a Gaussian process the
ball of each radius around a row is searched, 200 boxes and 3 seconds: what is proved holds for every point of the ball
and for the classifier itself. Of smoothing (Cohen, Rosenfeld & Kolter 2019) a support vector classifier is trained on
ten noisy copies of every row, and 100 + 10,000 noisy predictions a row give a radius that holds with probability 0.999
for each row, for the smoothed classifier: asked again it needs 10,000 predictions more. Both deviations of the noise
are given; choosing the better one on test rows would be no guarantee.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, norm
from sklearn.svm import SVC
from study_priors import BOXES, PRIORS, SECONDS, split, trained

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import l2_ball

RADII, DEVIATIONS = (0.1, 0.25, 0.5), (0.25, 0.5)
ROWS, COPIES, CHOOSING, SAMPLES, ALPHA = 30, 10, 100, 10_000, 0.001


def main() -> None:
    rows = [judged(file) for file in sorted(Path(sys.argv[1]).glob("*.csv"))]
    table = pd.DataFrame(rows)
    table.to_csv(sys.argv[2], index=False)
    print(table.drop(columns="table").mean().round(3).to_string())


def judged(file: Path) -> dict[str, Any]:
    X, labels, _, train, test = split(file)
    test = test[:ROWS]
    row: dict[str, Any] = {"table": file.stem}
    began = time.process_time()
    row |= named("process", process_shares(X, labels, train, test))
    row["process seconds"] = time.process_time() - began
    for deviation in DEVIATIONS:
        began = time.process_time()
        row |= named(f"smoothed {deviation:g}", smoothed_shares(X, labels, train, test, deviation))
        row[f"smoothed {deviation:g} seconds"] = time.process_time() - began
    print(row, flush=True)
    return row


def named(name: str, shares: FloatArray) -> dict[str, float]:
    return {f"{name} {radius:g}": float(share) for radius, share in zip((0.0, *RADII), shares, strict=True)}


def process_shares(X: FloatArray, labels: IntArray, train: IntArray, test: IntArray) -> FloatArray:
    """Return the accuracy, and the certified accuracy at each radius."""
    posterior = trained(X[train], labels[train], int(labels.max()) + 1, PRIORS["half-normal 0.5"])
    kept = np.zeros(1 + len(RADII))
    for x, label in zip(X[test], labels[test], strict=True):
        search = PointSearch(posterior, x, np.arange(len(x)))
        if search.centre.own == label:
            kept[0] += 1
            for place, radius in enumerate(RADII, 1):
                verdict, found = search.decide(l2_ball(x, radius), Budget(SECONDS, boxes=BOXES), stated=False)
                kept[place] += verdict.status == "safe" and search.proves_class(found.values())
    return kept / len(test)


def smoothed_shares(X: FloatArray, labels: IntArray, train: IntArray, test: IntArray, deviation: float) -> FloatArray:
    """Return the accuracy, and the certified accuracy at each radius."""
    rng = np.random.default_rng(20261128)
    noisy = np.repeat(X[train], COPIES, axis=0)
    noisy = noisy + deviation * rng.standard_normal(noisy.shape)
    model = SVC().fit(noisy, np.repeat(labels[train], COPIES))
    kept = np.zeros(1 + len(RADII))
    for x, label in zip(X[test], labels[test], strict=True):
        guess, count = model.predict(x + deviation * rng.standard_normal((CHOOSING, len(x)))), 0
        own = np.bincount(guess).argmax()
        if own == label:
            count = int((model.predict(x + deviation * rng.standard_normal((SAMPLES, len(x)))) == own).sum())
            least = float(beta.ppf(ALPHA, count, SAMPLES - count + 1)) if count else 0.0
            radius = deviation * float(norm.ppf(least))
            kept += np.array([radius > 0.0, *(radius >= each for each in RADII)])
    return kept / len(test)


if __name__ == "__main__":
    main()
