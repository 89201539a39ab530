"""A small dataset and certified fits of it, as an experiment leaves them behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gpsuite.certificates.envelope import write_packed
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset
from gpsuite.data.splits import fit_standardiser, train_test_indices
from gpsuite.experiments.pac_bayes.certificates import DESCRIPTION, stored_certificate
from gpsuite.experiments.pac_bayes.methods import FullGPOptions
from gpsuite.experiments.pac_bayes.tasks import FitTask, Goal, loss_of
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID
from gpsuite.methods.pac_bayes.evaluation import Copies, Evaluation, evaluate
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, Posterior
from gpsuite.methods.pac_bayes.sparse.free_form import FreeFormPosterior, WhitenedGaussian
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.models.config import Hyperparameters

KINDS = ("full", "fitc", "vfe", "free_form")


def small_dataset(rows: int = 60) -> Dataset:
    """Return rows of a sine in units of its own."""
    rng = np.random.default_rng(12)
    X = rng.normal(size=(rows, 2)) * [3.0, 0.1] + [10.0, -2.0]
    y = 50.0 + 20.0 * np.sin(X[:, :1]) + rng.normal(size=(rows, 1))
    return Dataset("small", "regression", X, y, ("a", "b"), ("price",), "hash of small")


def with_copies(data: Dataset, times: Sequence[int]) -> Dataset:
    """Return a dataset with its first rows repeated so many times, all others once, as a table would give it."""
    rows = np.repeat(np.arange(len(data.X)), [*times, *[1] * (len(data.X) - len(times))])
    first = np.searchsorted(rows, rows)
    return replace(data, X=data.X[rows], y=data.y[rows], groups=first.astype(np.int64))


def params(loss: str = "band01", scaling: str = "train", unit: str = "epsilon") -> FitTask:
    """Return what a task's parameters say about the split and the goal."""
    goal = Goal(loss, epsilon=0.5) if unit == "epsilon" else Goal(loss, accuracy=8.0)
    method = FullGPOptions(builder="full_gp", title="full GP", reference="")
    return FitTask(
        method=method, ard=True, delta=0.05, max_evaluations=1, split_seed=3, loss=goal, test_share=0.2, scaling=scaling
    )


def certified(
    kind: str, settings: FitTask, dataset: Dataset, apart: float | None = None
) -> tuple[Posterior, Evaluation, dict[str, Any]]:
    """Return a fit, what it is worth, and the arrays of its record; inducing inputs may nearly coincide in threes."""
    train, test = train_test_indices(len(dataset.X), settings.test_share, settings.split_seed)
    inputs, target = (fit_standardiser(a, train, settings.scaling) for a in (dataset.X, dataset.y))
    X, y = inputs.transform(dataset.X), target.transform(dataset.y)[:, 0]
    h = PAPER_GRID.rounded(Hyperparameters(1.3, (0.8, 2.0), 0.2))
    Z = X[train][:9]
    if apart is not None:
        Z = np.repeat(Z[:3], 3, axis=0) + apart * np.random.default_rng(2).normal(size=(9, 2))
    posterior: Posterior
    if kind == "full":
        posterior = FullGPPosterior.fit(h, X[train], y[train])
    else:
        posterior = SparseGPPosterior.fit(h, X[train], y[train], Z, float(kind != "vfe"))
        if kind == "free_form":
            gaussian = WhitenedGaussian.of(posterior.whitened)
            posterior = FreeFormPosterior.carry(h, X[train], y[train], Z, gaussian)
    loss = loss_of(settings.loss.name, settings.loss.width(float(target.scale[0])))
    copies = Copies.of_split(train, test, dataset.groups)
    found = evaluate(posterior, X[test], y[test], loss, settings.delta, copies=copies)
    prepared = PreparedDataset("small", "regression", len(X), dataset.content_hash, False, {"target": "price"}, {})
    return posterior, found, stored_certificate(prepared, settings, posterior, found)


def written(arrays: dict[str, Any], folder: Path) -> Path:
    """Write the files of a certificate and return the name of the first."""
    import json

    path = folder / "fit.npz"
    write_packed(json.loads(str(arrays[DESCRIPTION])), {k: v for k, v in arrays.items() if k != DESCRIPTION}, path)
    return path
