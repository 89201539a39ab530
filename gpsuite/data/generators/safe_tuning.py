"""Tasks of safe optimisation: functions with a limit, a pool of settings, and a few safe settings to start from.

The kinds and their constants were fixed before any method was tuned on them. Inputs are in the unit cube. The first
output is minimised. A setting is safe if h <= 0.

Source: Fiedler et al., "On safety in safe Bayesian optimization", 2024 (functions of known norm)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from gpsuite.arrays import BoolArray, FloatArray, IntArray
from gpsuite.data.generators.gp_samples import matern52, squared_exponential

POOL = {1: 150, 2: 400, 3: 600}  # number of settings, by number of inputs
STARTS = 6
START_HALF_WIDTH = {1: 0.06, 2: 0.12, 3: 0.2}  # half width of the cube of the starting settings
NOISE = 0.02  # standard deviation of the noise, relative to that of the function over the pool
STRONG_NOISE = 0.2
SAFE_SHARES = (0.4, 0.55, 0.7)  # safe share of the pool: the limit is this quantile of the safety function
CENTRES = 60  # number of kernels of a function of known norm
RKHS_LENGTHSCALE, RKHS_NORM = 0.2, 5.0
ATTEMPTS = 500

Function = Callable[[FloatArray], FloatArray]
Pair = tuple[Function, Function]


@dataclass(frozen=True, eq=False)
class TuningTask:
    """A pool of n settings, the true values at each, and the start of the search.

    Attributes:
        X: settings, [n, D].
        F: noise-free outputs, [n, P]. The first is minimised.
        h: noise-free safety value, safe where h <= 0, [n].
        noise: standard deviation of each output's noise, [P].
        safety_noise: standard deviation of the safety value's noise.
        starts: rows that are measured first, all of them safe.
        reachable: settings that steps between neighbouring safe settings reach from the start, [n].
    """

    X: FloatArray
    F: FloatArray
    h: FloatArray
    noise: FloatArray
    safety_noise: float
    starts: IntArray
    reachable: BoolArray

    @property
    def best(self) -> float:
        """The least objective among the reachable settings."""
        return float(self.F[self.reachable, 0].min())

    def regret(self, rows: IntArray) -> float:
        """Return the regret of the best truly safe one of these rows: 1 at the best start, 0 at the optimum."""
        safe = rows[self.h[rows] <= 0.0]
        start = float(self.F[self.starts, 0].min())
        reached = min(float(self.F[safe, 0].min(initial=np.inf)), start)
        return max(0.0, (reached - self.best) / (start - self.best))


def draw_task(kind: str, rng: np.random.Generator) -> TuningTask:
    """Return a random task of a kind. The same generator state gives the same task.

    Raises:
        ArithmeticError: if no start far enough from the optimum is found.
    """
    for _ in range(ATTEMPTS):
        D = int(rng.integers(1, 4)) if kind in ("rkhs", "gp_samples") else int(rng.choice([1, 2, 2, 3]))
        X = np.linspace(0.0, 1.0, POOL[D])[:, None] if D == 1 else rng.uniform(0.0, 1.0, (POOL[D], D))
        values = KINDS[kind](rng, X)
        noise = STRONG_NOISE if kind == "noisy" else NOISE
        found = task_of(values[:, 1:], values[:, 0], X, noise, rng)
        if found is not None:
            return found
    raise ArithmeticError(f"{kind}: no start found")


def task_of(F: FloatArray, raw: FloatArray, X: FloatArray, noise: float, rng: np.random.Generator) -> TuningTask | None:
    """Return the task of outputs F [n, P] and safety values raw [n], or None if no start suits.

    Starts are drawn around a setting well inside the safe part. Its objective is above the median there, so an
    improvement is possible.
    """
    limit = float(np.quantile(raw, rng.choice(SAFE_SHARES)))
    h = (raw - limit) / raw.std()
    F = (F - F.mean(axis=0)) / F.std(axis=0)
    safe = h <= 0.0
    inner = np.flatnonzero((h <= np.quantile(h[safe], 0.6)) & (F[:, 0] >= np.median(F[safe, 0])) & safe)
    if not len(inner):
        return None
    centre = X[rng.choice(inner)]
    near = np.flatnonzero((np.abs(X - centre).max(axis=1) <= START_HALF_WIDTH[X.shape[1]]) & safe)
    if len(near) < STARTS:
        return None
    first = rng.choice(near, STARTS, replace=False)
    reachable = _reached(X, safe, first)
    task = TuningTask(X, F, h, np.full(F.shape[1], noise), noise, first, reachable)
    enough = float(F[first, 0].min()) - task.best > 0.5
    return task if enough else None


def _reached(X: FloatArray, safe: BoolArray, starts: IntArray) -> BoolArray:
    """Return which safe settings are joined with a start by steps of at most three typical distances, [n]."""
    tree = KDTree(X)
    step = 3.0 * float(np.median(tree.query(X, k=[2])[0]))
    pairs = tree.query_pairs(step, output_type="ndarray")
    pairs = pairs[safe[pairs].all(axis=1)]
    graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(X), len(X)))
    labels = connected_components(graph, directed=False)[1]
    return np.asarray(np.isin(labels, labels[starts]) & safe)


# Each kind returns the safety value and the outputs at settings X [n, D], as columns of [n, 1 + P].
def _bowl(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return _columns(_quadratic(rng, X), _quadratic(rng, X))


def _edge(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a task with an objective that falls towards the limit: the optimum is on the limit."""
    u = X @ _direction(rng, X)
    return _columns(u + 0.3 * _quadratic(rng, X), -u)


def _plateau_cliff(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a task with a flat, then steeply rising safety value. The objective falls towards the cliff."""
    u = X @ _direction(rng, X)
    edge = np.quantile(u, rng.uniform(0.55, 0.75))
    return _columns(np.tanh((u - edge) / 0.05) + 0.05 * u, -u + 0.3 * _quadratic(rng, X))


def _short_waves(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    u, v = X @ _direction(rng, X), X @ _direction(rng, X)
    f = 1.5 * _quadratic(rng, X) + 0.3 * np.sin(2.0 * np.pi * v / 0.15 + rng.uniform(0.0, 6.0))
    return _columns(2.0 * u + 0.4 * np.sin(2.0 * np.pi * u / 0.2 + rng.uniform(0.0, 6.0)), f)


def _ridge(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a task with a narrow oblique valley of the objective and a limit across it."""
    a, b = _direction(rng, X), _direction(rng, X)
    u, v = (X - 0.5) @ a, (X - 0.5) @ b
    return _columns(np.abs(v) + 0.5 * u, (u / 0.15) ** 2 / (1.0 + (u / 0.3) ** 2) - v)


def _saddle(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    C = X - rng.uniform(0.3, 0.7, X.shape[1])
    sign = np.where(np.arange(X.shape[1]) % 2 == 0, 1.0, -1.0)
    return _columns(4.0 * (C**2) @ sign + C.sum(axis=1), -2.0 * (C**2) @ sign + 0.5 * C @ _direction(rng, X))


def _steps(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    u, v = X @ _direction(rng, X), X @ _direction(rng, X)
    return _columns(np.floor(u / 0.12) + 0.2 * u / 0.12, np.floor(v / 0.15) + 0.5 * v / 0.15)


def _exponential(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    u = (X - 0.5) @ _direction(rng, X)
    return _columns(np.exp(5.0 * u), -u + 0.5 * _quadratic(rng, X))


def _noisy(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return _columns(_quadratic(rng, X), _waves(rng, X, 0.5))


def _two_objectives(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a task with a second output that correlates with the first."""
    f, g = _waves(rng, X, 0.4), _waves(rng, X, 0.4)
    return _columns(_waves(rng, X, 0.6), f, 0.8 * f + 0.6 * g)


def _two_valleys(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a task with a near valley of the objective, and a deeper one farther away."""
    u = X @ _direction(rng, X)
    near, far = rng.uniform(0.15, 0.3), rng.uniform(0.6, 0.8)
    f = -0.6 * np.exp(-(((u - near) / 0.1) ** 2)) - np.exp(-(((u - far) / 0.12) ** 2))
    return _columns(_quadratic(rng, X), f)


def _corridor(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a task with a narrow, winding safe part. The objective falls along it."""
    if X.shape[1] == 1:
        return _columns(np.abs(X[:, 0] - 0.5), -X[:, 0])
    middle = 0.5 + 0.2 * np.sin(2.0 * np.pi * X[:, 0] * rng.uniform(0.5, 1.0))
    return _columns(np.abs(X[:, 1] - middle) + 0.1 * X[:, 2:].sum(axis=1), -X[:, 0] + 0.3 * X[:, 1])


def _cone(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    c, d = (rng.uniform(0.2, 0.8, X.shape[1]) for _ in range(2))
    return _columns(np.linalg.norm(X - c, axis=1), np.linalg.norm(X - d, axis=1))


def _rkhs(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    return _columns(known_norm(rng, X), known_norm(rng, X))


def _gp_samples(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    lengthscale = rng.uniform(0.15, 0.5)
    kernel = matern52 if rng.random() < 0.5 else squared_exponential
    K = kernel(X, X, 1.0, lengthscale) + 1e-8 * np.eye(len(X))
    return np.asarray(np.linalg.cholesky(K) @ rng.standard_normal((len(X), 2)))


Kind = Callable[[np.random.Generator, FloatArray], FloatArray]
PLAIN: dict[str, Kind] = {  # without traps
    "bowl": _bowl,
    "edge": _edge,
    "ridge": _ridge,
    "exponential": _exponential,
    "cone": _cone,
}
TRAPS: dict[str, Kind] = {
    "plateau_cliff": _plateau_cliff,
    "short_waves": _short_waves,
    "saddle": _saddle,
    "steps": _steps,
    "noisy": _noisy,
    "two_objectives": _two_objectives,
    "two_valleys": _two_valleys,
    "corridor": _corridor,
}
DRAWN: dict[str, Kind] = {"rkhs": _rkhs, "gp_samples": _gp_samples}
KINDS: dict[str, Kind] = {**PLAIN, **TRAPS, **DRAWN}


def known_norm(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return at X [n, D] a function of norm `RKHS_NORM` in the RKHS of a squared exponential kernel, [n].

    It is a combination of kernels at random centres. Its squared norm is the quadratic form of the coefficients.
    """
    Z = rng.uniform(0.0, 1.0, (CENTRES, X.shape[1]))
    a = rng.standard_normal(CENTRES)
    norm = np.sqrt(a @ squared_exponential(Z, Z, 1.0, RKHS_LENGTHSCALE) @ a)
    return np.asarray(squared_exponential(X, Z, 1.0, RKHS_LENGTHSCALE) @ a * (RKHS_NORM / norm))


def _columns(*values: FloatArray) -> FloatArray:
    return np.column_stack(values)


def _direction(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    v = rng.standard_normal(X.shape[1])
    return np.asarray(v / np.linalg.norm(v))


def _quadratic(rng: np.random.Generator, X: FloatArray) -> FloatArray:
    """Return a quadratic with its minimum inside the cube and a different curvature along each input, [n]."""
    D = X.shape[1]
    return np.asarray(((X - rng.uniform(0.2, 0.8, D)) ** 2) @ rng.uniform(1.0, 4.0, D))


def _waves(rng: np.random.Generator, X: FloatArray, lengthscale: float) -> FloatArray:
    """Return a smooth random function, approximately a draw of a squared exponential process, [n]."""
    frequencies = rng.standard_normal((X.shape[1], 100)) / lengthscale
    return np.asarray(np.cos(X @ frequencies + rng.uniform(0.0, 2.0 * np.pi, 100)) @ rng.standard_normal(100) / 7.0)
