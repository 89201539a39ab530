"""Attacks: points of a region at which the class probability is small or large. They prove nothing.

GPFGS and GPJM follow Grosse et al. (2018) as used in Sec. 6 of Blaas et al. (2020). `strong_attack` is a multi-start
quasi-Newton search with exact gradients.

Equation: Grosse et al. 2018
Equation: Blaas et al. 2020, Sec. 6
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import Bounds, minimize

from gpsuite.arrays import FloatArray
from gpsuite.methods.robustness.search.branch_and_bound import Attack
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.models.classification.approximation import GPCPosterior

STEPS = 100
PROBIT = ("probit", "squeezed_probit")  # links with a probability that increases with mu / sqrt(1 + Sigma)
TAIL = 1e-300
LONGEST = 1e150  # largest step. It is finite: infinity times a zero gradient would be NaN

Objective = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""Points [B, d] to values [B] and gradients [B, d]. Larger is better."""


def gpfgs(posterior: GPCPosterior, region: Region) -> FloatArray:
    """Return the point [D] one step along the sign of the mean's gradient, against the predicted class.

    The point is x - gamma sign(d mu) if the class probability is above one half, otherwise x + gamma sign(d mu). Each
    free input goes to the end of the region's box. Then the point is projected to the region.
    """
    gradient = posterior.latent_with_gradient(region.centre[None])[2][0, region.free]
    step = -_away(posterior, region) * np.sign(gradient)
    ends = np.where(step > 0, region.upper, np.where(step < 0, region.lower, region.start))
    return region.embed(region.project(ends[None])[0])


def gpjm(posterior: GPCPosterior, region: Region, inputs: int | None = None) -> FloatArray:
    """Return the points [k + 1, D] of a greedy path that starts at the centre and changes one input per step.

    Each step moves the unused free input with the largest |d mu|, at the point reached, to the end of the region's
    box that lowers the predicted class. The path stays in the region: each point is projected.

    Args:
        posterior: latent posterior of the trained classifier.
        region: inputs over which the claim holds, `robustness.linf_ball` and so on.
        inputs: largest number of changed inputs, by default all free inputs. The path ends early if all gradients
            vanish.
    """
    step = -_away(posterior, region)
    point, unused = region.start.copy(), np.ones(len(region.free), dtype=bool)
    path = [point]
    for _ in range(min(len(unused), len(unused) if inputs is None else inputs)):
        gradient = posterior.latent_with_gradient(region.embed(point[None]))[2][0, region.free]
        size = np.where(unused, np.abs(gradient), 0.0)
        chosen = int(np.argmax(size))
        if not size[chosen] > 0:
            break
        point = point.copy()
        point[chosen] = (region.upper if step * gradient[chosen] > 0 else region.lower)[chosen]
        point = region.project(point[None])[0]
        unused[chosen] = False
        path.append(point)
    return region.embed(np.array(path))


def strong_attack(
    posterior: GPCPosterior, region: Region, sign: int, starts: int, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Search the largest (`sign=1`) or smallest (`sign=-1`) class probability by local search from many points.

    The starts are the centre, the corner GPFGS points to, its opposite, and uniform points of the box, projected.

    Returns:
        the best point [D], in the region, and its class probability.
    """
    climb = local_search(posterior, region, sign)
    gradient = posterior.latent_with_gradient(region.centre[None])[2][0, region.free]
    corners = [np.where(s * gradient > 0, region.upper, region.lower) for s in (sign, -sign)]
    random = rng.uniform(region.lower, region.upper, size=(max(0, starts - 3), len(region.free)))
    first = region.project(np.vstack([region.start[None], *[corner[None] for corner in corners], random]))
    points = np.vstack([first, np.array([climb(point) for point in first[:starts]])])
    probability = posterior.probability(region.embed(points))
    best = int(np.argmax(np.where(np.isnan(probability), -np.inf, sign * probability)))
    return region.embed(points[best]), float(probability[best])


def local_search(posterior: GPCPosterior, region: Region, sign: int) -> Attack:
    """Return a local search over the region: L-BFGS-B in a box, spectral projected gradients in a ball."""
    return climb(_score(posterior, region, sign), region)


def climb(objective: Objective, region: Region) -> Attack:
    """Return a local search of an objective over the region, as `local_search`."""
    if region.norm == "box":
        return lambda start: _lbfgs(objective, region, start)
    return lambda start: _projected_gradients(objective, region, start)


def _away(posterior: GPCPosterior, region: Region) -> float:
    """Return 1 if the centre is in the positive class, otherwise -1."""
    return 1.0 if posterior.probability(region.centre[None])[0] > 0.5 else -1.0


def _score(posterior: GPCPosterior, region: Region, sign: int) -> Objective:
    """Return an increasing function of the class probability that does not saturate, times `sign`."""

    def probit(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, variance, d_mean, d_variance = posterior.latent_with_gradient(region.embed(points))
        scale = 1 / np.sqrt(1 + variance)
        gradient = scale[:, None] * d_mean - (0.5 * mean * scale**3)[:, None] * d_variance
        return sign * mean * scale, sign * gradient[:, region.free]

    def log_odds(points: FloatArray) -> tuple[FloatArray, FloatArray]:
        p, gradient = posterior.probability_with_gradient(region.embed(points))
        low, high = np.maximum(p, TAIL), np.maximum(1 - p, np.finfo(float).eps)
        return sign * (np.log(low) - np.log(high)), sign * (gradient / (low * high)[:, None])[:, region.free]

    return probit if posterior.link.name in PROBIT else log_odds


def _lbfgs(objective: Objective, region: Region, start: FloatArray) -> FloatArray:
    """Climb by L-BFGS-B. Inputs are in half-widths of the box, so all have the same scale."""
    width = np.where(region.upper > region.lower, 0.5 * (region.upper - region.lower), 1.0)

    def descend(z: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective((start + width * z)[None])
        return -float(value[0]), -gradient[0] * width

    bounds = Bounds((region.lower - start) / width, (region.upper - start) / width)
    found = minimize(
        descend, np.zeros_like(start), jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": STEPS}
    )
    point = region.project((start + width * found.x)[None])[0]
    return np.where(np.isfinite(point).all(), point, start)


def _projected_gradients(objective: Objective, region: Region, start: FloatArray) -> FloatArray:
    """Climb by projected gradients with Barzilai-Borwein steps and a monotone line search."""
    point: FloatArray = region.project(start[None])[0]
    value, gradient = (each[0] for each in objective(point[None]))
    widest = float(np.max(region.upper - region.lower, initial=0.0))
    step = min(widest / max(float(np.max(np.abs(gradient), initial=0.0)), TAIL), LONGEST)
    for _ in range(STEPS):
        direction = region.project((point + step * gradient)[None])[0] - point
        slope = float(gradient @ direction)
        if not (np.max(np.abs(direction)) > 1e-10 * widest and slope > 0):
            break
        share = 1.0
        while True:
            trial = region.project((point + share * direction)[None])[0]
            reached, slopes = (each[0] for each in objective(trial[None]))
            if reached >= value + 1e-4 * share * slope or share < 1e-6:
                break
            share *= 0.5
        if not reached > value:
            break
        moved, turned = trial - point, gradient - slopes
        curvature = float(moved @ turned)
        step = float(moved @ moved) / curvature if curvature > 0 else 4 * step
        point, value, gradient = trial, reached, slopes
    return point
