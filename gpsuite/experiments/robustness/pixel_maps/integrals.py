"""Prop. 4 at the shown images: masses of latent rectangles against its bounds, corrected and as printed.

The bounds hold for a small box of inputs around the image; the true masses are those at its centre and corners, by
Gauss-Legendre quadrature.

Equation: Blaas et al. 2020, Prop. 4
"""

from __future__ import annotations

import numpy as np
from scipy.special import roots_legendre

from gpsuite.arrays import FloatArray
from gpsuite.experiments.base import DIVERGED, Outcome, SharedWork, Task
from gpsuite.experiments.robustness.pixel_maps.plan import IntegralTask
from gpsuite.experiments.robustness.pixel_maps.run import shown_image
from gpsuite.experiments.robustness.shared.several_classes import trained_classes
from gpsuite.methods.robustness.multiclass.latent_cells import CLASSES, LatentBoxes, mass_of_cells
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import PaperSoftmaxBound
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.seeds import stream

RECTANGLES = 200  # for every image
PIXELS, RADIUS = 3, 1e-3  # of the box of inputs: the image's brightest pixels
CORNERS = 4
ROUNDING = 1e-9  # of a mass
_NODES, _WEIGHTS = roots_legendre(16)


def run_integrals(task: Task[IntegralTask], shared: SharedWork) -> Outcome:
    """Hold the masses of rectangles around one image's latent means against both formulas."""
    params = task.params
    try:
        found = trained_classes(task.require_dataset(), params.model, shared, task.budget_seconds)
    except NotConvergedError as error:
        return Outcome({}, DIVERGED, str(error))
    point, _ = shown_image(found, params.digit, params.shown_probability)
    x, posterior = found.problem.X_test[point], found.posterior
    free = np.sort(np.argsort(-x)[:PIXELS])
    rng = stream(params.model.draw_seed, "integrals", params.digit)
    low, high = x[free] - RADIUS, x[free] + RADIUS
    latent, _ = PaperSoftmaxBound(posterior, x, free).latent(low[None], high[None])
    points = np.repeat(x[None], 1 + CORNERS, axis=0)
    points[1:, free] = np.where(rng.random((CORNERS, len(free))) < 0.5, low, high)
    mean, covariance = posterior.latent(points)
    counts = {"violations": 0, "printed_violations": 0}
    widths = []
    for _ in range(RECTANGLES):
        deviation = np.sqrt(np.diag(covariance[0]))
        lower = mean[0] + deviation * rng.uniform(-2.0, 1.5, CLASSES)
        upper = lower + deviation * rng.uniform(0.1, 0.8, CLASSES)
        true = np.array([rectangle_mass(*each, lower, upper) for each in zip(mean, covariance, strict=True)])
        for name, sign in (("violations", 1.0), ("printed_violations", -1.0)):
            least, most = _bounds(latent, lower, upper, sign)
            counts[name] += bool((true < least - ROUNDING).any() or (true > most + ROUNDING).any())
            if sign > 0.0:
                widths.append((most - least) / max(float(true.max()), 1e-300))
    correlation = np.abs(
        covariance[0] / np.sqrt(np.outer(*[np.diag(covariance[0])] * 2)) - np.eye(CLASSES)
    ).max()
    metrics = {"rectangles": RECTANGLES, **counts, "median_relative_width": float(np.median(widths))}
    headline = (
        f"{counts['violations']} outside the corrected, {counts['printed_violations']} the printed bounds"
    )
    return Outcome({**metrics, "largest_correlation": float(correlation)}, headline=headline)


def rectangle_mass(mean: FloatArray, covariance: FloatArray, lower: FloatArray, upper: FloatArray) -> float:
    """Return the mass of N(mean, covariance) in a rectangle of R^3, by the product rule."""
    half = 0.5 * (upper - lower)
    axes = [a + h * (_NODES + 1.0) - m for a, h, m in zip(lower, half, mean, strict=True)]
    z = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, CLASSES)
    weights = np.einsum("i,j,k->ijk", *(h * _WEIGHTS for h in half)).ravel()
    root = np.linalg.cholesky(covariance)
    u = np.linalg.solve(root, z.T)
    density = np.exp(-0.5 * np.einsum("kq,kq->q", u, u)) / ((2.0 * np.pi) ** 1.5 * np.prod(np.diag(root)))
    return float(weights @ density)


def _bounds(latent: LatentBoxes, lower: FloatArray, upper: FloatArray, sign: float) -> tuple[float, float]:
    edges = [np.array([[low, high]]) for low, high in zip(lower, upper, strict=True)]
    least, most = mass_of_cells(latent, edges, sign)
    return float(least.item()), float(most.item())
