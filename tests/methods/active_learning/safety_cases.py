"""Made-up experiments on which a planner's word is tried: functions, where they were measured, what may be asked for.

A case is a safety function on [-2, 2]^D, safe below its limit, measured with noise at points that are all truly safe:
in the flattest of 60 small cubes, in any small cube, in a corner, along a line, or over everything that is safe. The
limit is a quantile of the function, or fixed where it is flat first and rises later. Except where measured over
everything, the nearest unsafe point is 0.3 to 6 half-widths of the cube away: mistakes are possible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.seeds import stream

EDGE = 2.0
Function = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Case:
    """A safety function h, safe where h <= 0, its measurements, another output's, and candidates.

    Attributes:
        h: true safety function of inputs [n, D].
        f: true function of the output.
        X: measured inputs [N, D].
        y: measured outputs [N].
        z: measured safety values [N].
        candidates: inputs [n, D].
        noise: standard deviation of a safety value's noise.
        region: which part was measured.
    """

    h: Function
    f: Function
    X: FloatArray
    y: FloatArray
    z: FloatArray
    candidates: FloatArray
    noise: float
    region: str


def draw_case(family: str, number: int, purpose: str = "first proposals") -> Case:
    """Return a case of a family; the same for the same number and purpose."""
    rng = stream(1407, "planner safety", purpose, family, number)
    while True:
        case = _attempt(family, rng)
        if case is not None:
            return case


def _attempt(family: str, rng: np.random.Generator) -> Case | None:
    D = int(rng.choice([1, 2, 3, 4], p=[0.25, 0.4, 0.2, 0.15]))
    N = int(rng.choice([5, 10, 20, 40, 60], p=[0.15, 0.3, 0.3, 0.2, 0.05]))
    share = float(rng.choice([0.02, 0.1, 0.4]))
    everywhere = rng.uniform(-EDGE, EDGE, (4000, D))
    if family in ONSETS:
        half = float(rng.choice([0.2, 0.4, 0.7]))
        centre = rng.uniform(-EDGE + half, EDGE - half, D)
        h, X, region = ONSETS[family](rng, centre, half), centre + rng.uniform(-half, half, (N, D)), "flat"
    else:
        raw = FUNCTIONS[family](rng, D)
        limit = float(np.quantile(raw(everywhere), rng.choice([0.2, 0.35, 0.6])))

        def h(x: FloatArray) -> FloatArray:
            return raw(x) - limit

        region = str(rng.choice(["flat", "small", "corner", "line", "all"], p=[0.4, 0.15, 0.15, 0.15, 0.15]))
        found = _measured(h, rng, region, N, D, everywhere)
        if found is None:
            return None
        X, half = found
    true = h(X)
    if (true >= 0.0).any():
        return None
    unsafe = everywhere[h(everywhere) > 0.0]
    if region != "all":
        if not len(unsafe):
            return None
        nearest = np.sqrt(((unsafe[:, None] - X[None]) ** 2).sum(axis=2)).min()
        if family not in ONSETS and not 0.3 * half <= nearest <= 6.0 * half:
            return None
    noise = share * float(np.abs(true).mean())
    z = true + noise * rng.standard_normal(N)
    if (z > 0.0).all():
        return None
    f = _fourier(rng, D, 1.0, np.inf)
    around = X[rng.integers(0, N, 100)] + half * rng.standard_normal((100, D))
    candidates = np.clip(np.concatenate([everywhere[:150], around]), -EDGE, EDGE)
    return Case(h, f, X, f(X) + 0.1 * rng.standard_normal(N), z, candidates, noise, region)


def _measured(
    h: Function, rng: np.random.Generator, region: str, N: int, D: int, everywhere: FloatArray
) -> tuple[FloatArray, float] | None:
    """Return N inputs and the half-width of what they were drawn from; None if no such part is safe."""
    if region == "all":
        safe = everywhere[h(everywhere) < 0.0]
        return (safe[rng.choice(len(safe), N, replace=False)], EDGE) if len(safe) >= N else None
    half = float(rng.choice([0.2, 0.4, 0.7]))
    inside = rng.uniform(-half, half, (N, D))
    centres = rng.uniform(-EDGE + half, EDGE - half, (60, D))
    values = np.array([h(centre + inside) for centre in centres])
    safe = np.flatnonzero((values < 0.0).all(axis=1))  # type: ignore[assignment]
    if not len(safe):
        return None
    if region == "corner":
        centre = centres[safe[np.argmax(np.abs(centres[safe]).sum(axis=1))]]
    elif region == "flat":
        centre = centres[safe[np.argmin(np.ptp(values[safe], axis=1))]]
    else:
        centre = centres[safe[0]]
    if region == "line":
        direction = rng.standard_normal(D)
        off = 0.0 if rng.random() < 0.5 else 0.05 * half
        along = rng.uniform(-half, half, (N, 1)) * direction / np.abs(direction).max()
        return centre + along + off * rng.standard_normal((N, D)), half
    return centre + inside, half


def _fourier(rng: np.random.Generator, D: int, lengthscale: float, smoothness: float) -> Function:
    """Return a draw of a Gaussian process by 300 random frequencies: Matérn, or squared exponential if infinite."""
    frequencies = rng.standard_normal((D, 300)) / lengthscale
    if np.isfinite(smoothness):
        frequencies /= np.sqrt(rng.chisquare(2.0 * smoothness, 300) / (2.0 * smoothness))
    phase, weight = rng.uniform(0.0, 2.0 * np.pi, 300), rng.standard_normal(300) * np.sqrt(2.0 / 300)
    return lambda x: np.cos(x @ frequencies + phase) @ weight


def _centre(rng: np.random.Generator, D: int) -> FloatArray:
    return np.asarray(rng.uniform(-1.0, 1.0, D))


def _direction(rng: np.random.Generator, D: int) -> FloatArray:
    v = rng.standard_normal(D)
    return np.asarray(v / np.linalg.norm(v))


def _radius(x: FloatArray, c: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(((x - c) ** 2).sum(axis=1)))


def _radial(profile: Callable[[FloatArray], FloatArray]) -> Callable[[np.random.Generator, int], Function]:
    def build(rng: np.random.Generator, D: int) -> Function:
        c = _centre(rng, D)
        return lambda x: profile(_radius(x, c))

    return build


def _along(
    profile: Callable[[FloatArray, np.random.Generator], FloatArray],
) -> Callable[[np.random.Generator, int], Function]:
    def build(rng: np.random.Generator, D: int) -> Function:
        v, seed = _direction(rng, D), int(rng.integers(2**31))
        return lambda x: profile(x @ v, np.random.default_rng(seed))

    return build


def _saddle(rng: np.random.Generator, D: int) -> Function:
    c, signs = _centre(rng, D), np.where(np.arange(D) % 2, -1.0, 1.0)
    return lambda x: ((x - c) ** 2) @ signs


def _cosines(rng: np.random.Generator, D: int) -> Function:
    period, phase = rng.uniform(2.0, 4.0, D), rng.uniform(0.0, 2.0 * np.pi, D)
    return lambda x: np.cos(2.0 * np.pi * x / period + phase).sum(axis=1)


def _bumps(rng: np.random.Generator, D: int) -> Function:
    centres, widths = rng.uniform(-EDGE, EDGE, (4, D)), rng.uniform(0.5, 1.0, 4)
    return lambda x: sum(np.exp(-0.5 * (_radius(x, c) / w) ** 2) for c, w in zip(centres, widths, strict=True))


def _draw(lengthscale: float, smoothness: float) -> Callable[[np.random.Generator, int], Function]:
    return lambda rng, D: _fourier(rng, D, lengthscale, smoothness)


FUNCTIONS: dict[str, Callable[[np.random.Generator, int], Function]] = {
    # on which constants were chosen
    "bowl": _radial(lambda r: r**2),
    "ramp": _along(lambda t, rng: t),
    "growing sine": _along(lambda t, rng: np.exp(0.7 * t) * np.sin(3.0 * t + rng.uniform(0.0, 6.0))),
    "squared exponential 1": _draw(1.0, np.inf),
    # set aside
    "cone": _radial(lambda r: r),
    "saddle": _saddle,
    "exponential": _along(lambda t, rng: np.exp(1.5 * t)),
    "ripple on a ramp": _along(lambda t, rng: t + 0.4 * np.sin(rng.uniform(3.0, 6.0) * t)),
    "quartic bowl": _radial(lambda r: r**4),
    "cosines": _cosines,
    "bumps": _bumps,
    "matern 3/2 1.2": _draw(1.2, 1.5),
    "squared exponential 2.5": _draw(2.5, np.inf),
}


def _onset(
    growth: Callable[[FloatArray], FloatArray], sided: bool
) -> Callable[[np.random.Generator, FloatArray, float], Function]:
    """Return a family: -1 in a flat cube, growing with the distance from it, in ranges, from somewhere on.

    It begins less than one range outside, in all directions or beyond one face.
    """

    def build(rng: np.random.Generator, centre: FloatArray, half: float) -> Function:
        begins, axis = rng.uniform(0.0, 1.0), int(rng.integers(len(centre)))
        sign = 1.0 if rng.random() < 0.5 else -1.0

        def h(x: FloatArray) -> FloatArray:
            if sided:
                away = sign * (x[:, axis] - centre[axis]) - half
            else:
                away = np.sqrt((np.maximum(np.abs(x - centre) - half, 0.0) ** 2).sum(axis=1))
            return np.asarray(growth(np.maximum(away / (2.0 * half) - begins, 0.0)) - 1.0)

        return h

    return build


ONSETS: dict[str, Callable[[np.random.Generator, FloatArray, float], Function]] = {
    # on which the step was chosen
    "wall around": _onset(lambda t: 3.0 * (t > 0.0), sided=False),
    "wall beyond a face": _onset(lambda t: 3.0 * (t > 0.0), sided=True),
    "cubic around": _onset(lambda t: (3.0 * t) ** 3, sided=False),
    "cubic beyond a face": _onset(lambda t: (3.0 * t) ** 3, sided=True),
    # set aside
    "exponential around": _onset(lambda t: np.expm1(np.minimum(3.0 * t, 20.0)), sided=False),
    "quadratic beyond a face": _onset(lambda t: (4.0 * t) ** 2, sided=True),
    "cliff beyond a face": _onset(lambda t: 2.0 * np.tanh(8.0 * t), sided=True),
}
TUNING = ("bowl", "ramp", "growing sine", "squared exponential 1", *tuple(ONSETS)[:4])
SET_ASIDE = (*tuple(FUNCTIONS)[4:], *tuple(ONSETS)[4:])
