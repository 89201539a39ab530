"""Runs of wasserstein/toy_bands: bands, distances on random kernels, covariances of random networks."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh
from scipy.special import erf

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.experiments.base import DONE, Outcome, SharedWork, Task
from gpsuite.experiments.wasserstein.shared.fitting import fit_regression, regression_scores
from gpsuite.experiments.wasserstein.toy_bands.plan import BandTask, DistanceTask, WidthTask
from gpsuite.methods.wasserstein.distance import wasserstein_by_eigenvalues, wasserstein_on_points
from gpsuite.seeds import stream

GRID = np.linspace(-4.0, 4.0, 161)[:, None]
GAP = (-0.7, 0.7)  # without data
REACH = 2.5  # data lie within
TEST_ROWS = 500
WEIGHT, BIAS = 1.6, 0.2  # variances of random networks


def truth(x: FloatArray) -> FloatArray:
    """Return the function behind the data."""
    return np.asarray(np.sin(2.0 * x) + 0.3 * x)


def toy_data(rng: np.random.Generator, rows: int, noise_scale: float) -> tuple[FloatArray, FloatArray]:
    """Return inputs [rows, 1] on both sides of the gap and noisy targets [rows]."""
    x = rng.uniform(GAP[1], REACH, rows) * rng.choice([-1.0, 1.0], rows)
    return x[:, None], truth(x) + noise_scale * rng.standard_normal(rows)


def run_band(task: Task[BandTask], shared: SharedWork) -> Outcome:
    """Train one regression and return its band; test rows lie where data are, and in the gap."""
    params = task.params
    X, y = toy_data(stream(params.seed, "data"), params.rows, params.noise_scale)
    budget = Budget(task.budget_seconds, observer=shared.observer)
    model = fit_regression(params.method, params.training, X, y, params.seed, budget)
    X_test, y_test = toy_data(stream(params.seed, "test"), TEST_ROWS, params.noise_scale)
    mean, variance = model.predict(GRID, tempered=True)
    metrics = regression_scores(model, X_test, y_test)
    inside = (GRID[:, 0] > GAP[0]) & (GRID[:, 0] < GAP[1])
    near = (np.abs(GRID[:, 0]) > GAP[1]) & (np.abs(GRID[:, 0]) < REACH)
    metrics["gap_over_data_deviation"] = float(
        np.sqrt(variance[inside]).mean() / np.sqrt(variance[near]).mean()
    )
    arrays = {"mean": mean, "deviation": np.sqrt(variance), "x": X[:, 0], "y": y}
    reason = "" if model.status == DONE else model.found.reason
    return Outcome(metrics, model.status, reason, arrays, f"NLL {metrics['nll_own']:.3f}")


def run_distance(task: Task[DistanceTask], shared: SharedWork) -> Outcome:
    """Return how the paper's estimate errs at X_S = X and for fewer points, and whether the two spectra agree."""
    params, rng = task.params, stream(task.params.seed, "kernels")
    at_data, spectrum = [], []
    estimates: dict[str, list[float]] = {}
    for _ in range(params.draws):
        K, R, mean = random_kernels(rng, params.rows)
        zero = np.zeros(params.rows)
        exact = wasserstein_on_points(zero, mean, K, R).squared_distance
        k, r = np.diagonal(K), np.diagonal(R)
        paper = wasserstein_by_eigenvalues(zero, mean, k, r, R, K).squared_distance
        at_data.append(abs(paper / exact - 1.0))
        spectrum.append(spectrum_error(K, R))
        for size in params.chosen_sizes:
            few = rng.choice(params.rows, min(size, params.rows), replace=False)
            part = np.ix_(few, few)
            found = {
                "eigenvalues": wasserstein_by_eigenvalues(zero, mean, k, r, R[few], K[:, few]),
                "own points": wasserstein_on_points(zero[few], mean[few], K[part], R[part]),
            }
            for name, terms in found.items():
                estimates.setdefault(f"{name} {size}", []).append(terms.squared_distance / exact - 1.0)
    metrics = {"largest_error_at_data": max(at_data), "largest_spectrum_error": max(spectrum)}
    arrays = {name: np.array(values) for name, values in estimates.items()}
    return Outcome(metrics, arrays=arrays, headline=f"largest error {max(at_data):.1e}")


def random_kernels(rng: np.random.Generator, rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a prior's and a posterior's kernel matrix with noise-sized diagonals, and the difference of means."""
    x = rng.uniform(-2.0, 2.0, rows)
    lengths = rng.uniform(0.3, 1.0, 2)
    K, other = (np.exp(-0.5 * ((x[:, None] - x) / length) ** 2) + 0.05 * np.eye(rows) for length in lengths)
    shrink = rng.uniform(0.2, 1.0, rows)
    R = shrink[:, None] * other * shrink + 0.05 * np.eye(rows)
    return K, R, rng.standard_normal(rows)


def spectrum_error(K: FloatArray, R: FloatArray) -> float:
    """Return the largest relative difference of the eigenvalues of R K and of K^1/2 R K^1/2."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(values) @ vectors.T
    symmetric = np.sort(eigh(root @ R @ root, eigvals_only=True))
    product = np.sort(np.linalg.eigvals(R @ K).real)
    return float(np.max(np.abs(product / symmetric - 1.0)))


def run_width(task: Task[WidthTask], shared: SharedWork) -> Outcome:
    """Return the error of random networks' covariance against the closed form, network by network."""
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.models.nngp import NNGP

    params = task.params
    X = stream(params.seed, "inputs").standard_normal((8, 3))
    limit = NNGP(1, params.activation, WEIGHT, BIAS)(X).numpy()
    scale = float(np.linalg.norm(limit))
    errors = np.array(
        [
            [
                np.linalg.norm(network_covariance(X, params, width, number) - limit) / scale
                for number in range(params.networks)
            ]
            for width in params.widths
        ]
    )
    return Outcome(
        {"activation": params.activation},
        arrays={"errors": errors, "widths": np.array(params.widths, dtype=np.float64)},
        headline=f"error {errors[-1].mean():.1e} at width {params.widths[-1]}",
    )


def network_covariance(X: FloatArray, params: WidthTask, width: int, number: int) -> FloatArray:
    """Return the outputs' covariance of one network of a hidden layer, given that layer [N, N]."""
    rng = stream(params.seed, "network", width, number)
    weights = rng.standard_normal((X.shape[1], width)) * np.sqrt(WEIGHT / X.shape[1])
    u = X @ weights + np.sqrt(BIAS) * rng.standard_normal(width)
    hidden = np.maximum(u, 0.0) if params.activation == "relu" else erf(u)
    return np.asarray(BIAS + WEIGHT * hidden @ hidden.T / width)
