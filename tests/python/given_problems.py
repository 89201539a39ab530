"""Models of GPflow and scikit-learn with random data and hyperparameters, and what their own libraries predict.

A problem is a model, a point and a region. Its truth is computed by the library's own `predict_f` or `predict_proba`;
where a library only approximates the expectation of its link, by quadratures written here. Nothing of gpsuite is used.

The rules that decide what counts as outside, written before they were run:

- a value counts as outside the range if it is beyond an end by more than `SLACK` (1e-6), of the target's spread for a
  regression; for softmax by more than 1e-5, the error of the quadrature below (its posteriors are whitened: an
  unwhitened random one has deviations of a hundred and more, where the quadrature would be the one that is wrong);
- a verdict "safe" is wrong if a point has another class by the model's own classes, or, where classes come from
  probabilities, if another class is ahead by more than `SLACK` (1e-5 for softmax);
- a verdict "unsafe" is wrong if its counterexample is not in the region or the model gives it the point's class.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, ndtr
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpsuite.arrays import FloatArray
from gpsuite.models.tensorflow_setup import configure

configure()
import gpflow  # noqa: E402
import tensorflow as tf  # noqa: E402

SLACK = {"softmax": 1e-5}
KERNELS = ("squared_exponential", "matern32", "matern52")
COMPOSITES = ("apart_sum", "rbf_matern", "apart_product", "constant_sum_white")
COMPOSITE_KINDS = ("gpr", "vgp_probit", "sklearn_two", "sklearn_regression", "pipeline_two", "pipeline_regression")
FORMS = ("plain", "ard", "constant", "white", "mean")
RANDOM, STARTS, STEPS = 300, 4, 12
ROWS = 340  # that GPflow predicts at once
WIDTH = 1e-5  # of the finite differences, relative to the region


@dataclass(frozen=True)
class Problem:
    """A model, a point of the user's own units, and how far each input may be off.

    Attributes:
        value: from rows [B, D] to the certified value [B], or to probabilities of all classes [B, C].
        classes: from rows to the model's own classes, where it has them exactly; else None.
        spread: the unit of `SLACK`.
    """

    name: str
    model: Any
    x: FloatArray
    radius: float
    value: Callable[[FloatArray], FloatArray]
    classes: Callable[[FloatArray], FloatArray] | None
    slack: float

    def points(self, rng: np.random.Generator, own: int) -> FloatArray:
        """Return points of the region: random ones, corners, and where gradients of the library's values lead."""
        D = len(self.x)
        low, high = self.x - self.radius, self.x + self.radius
        corners = rng.integers(0, 2, (32, D)) * 2.0 - 1.0
        found = [rng.uniform(low, high, (RANDOM, D)), self.x + self.radius * corners, self.x[None]]
        value = self._of(own)
        for sign in (-1.0, 1.0):
            known = np.vstack(found[:2])
            starts = known[np.argsort(sign * value(known))[-STARTS:]]
            found.append(self._climbed(value, starts, sign, low, high))
        return np.clip(np.vstack(found), low, high)

    def _of(self, own: int) -> Callable[[FloatArray], FloatArray]:
        def value(rows: FloatArray) -> FloatArray:
            found = self.value(rows)
            return found[:, own] if found.ndim == 2 else found

        return value

    def _climbed(
        self,
        value: Callable[[FloatArray], FloatArray],
        starts: FloatArray,
        sign: float,
        low: FloatArray,
        high: FloatArray,
    ) -> FloatArray:
        D, width, size, met = len(self.x), WIDTH * self.radius, 0.5 * self.radius, [starts]
        for _ in range(STEPS):
            stacked = np.vstack([starts, *[starts + width * np.eye(D)[j] for j in range(D)]])
            values = value(stacked).reshape(D + 1, -1)
            gradient = sign * (values[1:] - values[0]).T / width
            longest = np.maximum(np.abs(gradient).max(axis=1, keepdims=True), 1e-12)
            starts = np.clip(starts + size * gradient / longest, low, high)
            met.append(starts)
            size *= 0.7
        return np.vstack(met)


def drawn(kind: str, kernel: str, form: str, seed: int) -> Problem:
    """Return a random problem of a kind of model, a kernel and a form of it."""
    rng = np.random.default_rng([seed, *(ord(letter) for letter in kind + kernel + form)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's hyperparameters at the edge of their bounds
        model, value, classes, D = KINDS[kind](rng, kernel, form)
    x = rng.normal(size=D) * (SPREAD if kind.startswith("pipeline") else 1.0) + (
        SHIFT if kind.startswith("pipeline") else 0.0
    )
    radius = float(rng.choice([0.05, 0.15, 0.4, 1.0])) * (SPREAD if kind.startswith("pipeline") else 1.0)
    return Problem(f"{kind}/{kernel}/{form}", model, x, radius, value, classes, SLACK.get(kind, 1e-6))


SHIFT, SPREAD = 50.0, 7.0  # of the inputs of a pipeline
Made = tuple[Any, Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray] | None, int]


def gpflow_composite(rng: np.random.Generator, kernel: str, D: int) -> Any:
    """Return a sum or a product, over separate inputs where there are several."""
    k, first, rest = gpflow.kernels, [0], list(range(1, D)) or [0]
    s, one, two = rng.uniform(0.5, 2.0, 2), rng.uniform(0.6, 2.5, D), float(rng.uniform(0.6, 2.5))
    if kernel == "apart_sum":
        return k.RBF(s[0], two, active_dims=rest) + k.RBF(s[1], float(one[0]), active_dims=first)
    if kernel == "apart_product":
        return k.Matern32(s[0], two, active_dims=rest) * k.Matern52(s[1], float(one[0]), active_dims=first)
    together = k.RBF(s[0], one) + k.Matern52(s[1], two)
    if kernel == "rbf_matern":
        return together
    return k.Constant(rng.uniform(0.5, 2.0)) * together + k.White(rng.uniform(0.05, 0.5))


def sklearn_composite(rng: np.random.Generator, kernel: str, D: int) -> Any:
    """Return what `gpflow_composite` does; long lengthscales stand for inputs that a kernel does not read."""
    s, one, two = rng.uniform(0.5, 2.0, 2), rng.uniform(0.6, 2.5, D), float(rng.uniform(0.6, 2.5))
    first, rest = np.full(D, 1e4), np.full(D, two)
    first[0], rest[0] = one[0], 1e4 if D > 1 else two
    if kernel == "apart_sum":
        return s[0] * RBF(rest) + s[1] * RBF(first)
    if kernel == "apart_product":
        return s[0] * Matern(rest, nu=1.5) * Matern(first, nu=2.5)
    together = s[0] * RBF(one) + s[1] * Matern(two, nu=2.5)
    return together if kernel == "rbf_matern" else ConstantKernel(rng.uniform(0.5, 2.0)) * together + WhiteKernel(0.2)


def gpflow_kernel(rng: np.random.Generator, kernel: str, form: str, D: int) -> Any:
    if kernel in COMPOSITES:
        return gpflow_composite(rng, kernel, D)
    kind = {
        "squared_exponential": gpflow.kernels.SquaredExponential,
        "matern32": gpflow.kernels.Matern32,
        "matern52": gpflow.kernels.Matern52,
    }[kernel]
    lengthscales = rng.uniform(0.6, 2.5, D if form in ("ard", "white") else 1)
    found = kind(rng.uniform(0.5, 4.0), lengthscales if len(lengthscales) > 1 else float(lengthscales[0]))
    if form == "constant":
        found = gpflow.kernels.Constant(rng.uniform(0.5, 2.0)) * found
    return found + gpflow.kernels.White(rng.uniform(0.05, 0.5)) if form == "white" else found


def gpflow_mean(rng: np.random.Generator, form: str) -> Any:
    return gpflow.functions.Constant(rng.normal(0.0, 1.0)) if form == "mean" else None


def sklearn_kernel(rng: np.random.Generator, kernel: str, form: str, D: int) -> Any:
    if kernel in COMPOSITES:
        return sklearn_composite(rng, kernel, D)
    lengthscales = rng.uniform(0.6, 2.5, D) if form in ("ard", "white") else rng.uniform(0.6, 2.5)
    nu = {"matern32": 1.5, "matern52": 2.5}.get(kernel)
    found = RBF(lengthscales) if nu is None else Matern(lengthscales, nu=nu)
    if form != "plain":
        found = ConstantKernel(rng.uniform(0.5, 4.0)) * found
    return found + WhiteKernel(rng.uniform(0.05, 0.5)) if form == "white" else found


def data(rng: np.random.Generator, D: int, classes: int = 0) -> tuple[FloatArray, FloatArray]:
    X = rng.normal(size=(int(rng.integers(12, 30)), D))
    latent = np.stack([np.sin(X @ rng.normal(size=D) * 1.5) for _ in range(max(classes, 1))], axis=1)
    latent += 0.2 * rng.normal(size=latent.shape)
    if not classes:
        return X, 3.0 + 2.0 * latent[:, 0]
    labels = (latent[:, 0] > 0.0) * 1 if classes == 2 else np.argmax(latent, axis=1)
    labels[:classes] = np.arange(classes)
    return X, labels


def moments(model: Any, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return GPflow's latent moments, [B, L] each, by a function that is traced once for a model."""
    if not hasattr(model, "traced"):
        model.traced = tf.function(model.predict_f, autograph=False)
    parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
    found = [model.traced(np.vstack([part, np.tile(part[:1], (ROWS - len(part), 1))])) for part in parts]
    mean, variance = (
        np.vstack([one[side].numpy()[: len(part)] for one, part in zip(found, parts, strict=True)]) for side in (0, 1)
    )
    return mean, variance


def _regression(build: Callable[..., Any]) -> Callable[..., Made]:
    def made(rng: np.random.Generator, kernel: str, form: str) -> Made:
        D = int(rng.integers(1, 4))
        X, y = data(rng, D)
        model = build(rng, X, y[:, None], gpflow_kernel(rng, kernel, form, D), gpflow_mean(rng, form))
        return model, lambda rows: moments(model, rows)[0][:, 0], None, D

    return made


def _gpr(rng: np.random.Generator, X: FloatArray, Y: FloatArray, kernel: Any, mean: Any) -> Any:
    return gpflow.models.GPR((X, Y), kernel, mean, noise_variance=rng.uniform(0.01, 0.5))


def _sgpr(rng: np.random.Generator, X: FloatArray, Y: FloatArray, kernel: Any, mean: Any) -> Any:
    return gpflow.models.SGPR((X, Y), kernel, X[::3] + 0.0, mean_function=mean, noise_variance=rng.uniform(0.01, 0.5))


def _random_q(rng: np.random.Generator, model: Any, scale: float) -> Any:
    """Give a variational model a random posterior, less certain than certain and more than its prior."""
    M, L = model.q_mu.shape
    model.q_mu.assign(scale * rng.normal(size=(M, L)))
    if len(model.q_sqrt.shape) == 2:
        model.q_sqrt.assign(rng.uniform(0.1, 1.1, (M, L)))
    else:
        roots = np.tril(0.15 * rng.normal(size=(L, M, M)))
        roots[:, np.arange(M), np.arange(M)] = rng.uniform(0.1, 1.0, (L, M))
        model.q_sqrt.assign(roots)
    return model


def _variational(
    rng: np.random.Generator, kernel: str, form: str, likelihood: Any, L: int = 1, full: bool = False
) -> tuple[Any, int]:
    """Return a VGP or an SVGP, whitened or not, with a full or a diagonal covariance."""
    D = int(rng.integers(1, 4))
    own, mean = gpflow_kernel(rng, kernel, form, D), gpflow_mean(rng, form)
    X = rng.normal(size=(int(rng.integers(6, 14)), D))
    if full:
        Y = np.zeros((len(X), 1))
        return _random_q(rng, gpflow.models.VGP((X, Y), own, likelihood, mean, num_latent_gps=L), 1.0), D
    whiten, diagonal = bool(rng.integers(2)), bool(rng.integers(2))
    whiten |= isinstance(likelihood, gpflow.likelihoods.Softmax)
    model = gpflow.models.SVGP(own, likelihood, X, mean_function=mean, num_latent_gps=L, whiten=whiten, q_diag=diagonal)
    return _random_q(rng, model, 1.0), D


def _svgp_gaussian(rng: np.random.Generator, kernel: str, form: str) -> Made:
    model, D = _variational(rng, kernel, form, gpflow.likelihoods.Gaussian(0.2))
    return model, lambda rows: moments(model, rows)[0][:, 0], None, D


def _bernoulli(full: bool, logit: bool) -> Callable[..., Made]:
    def made(rng: np.random.Generator, kernel: str, form: str) -> Made:
        likelihood = gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid) if logit else gpflow.likelihoods.Bernoulli()
        model, D = _variational(rng, kernel, form, likelihood, full=full)

        def value(rows: FloatArray) -> FloatArray:
            if logit:
                p = logistic_expectation(*(part[:, 0] for part in moments(model, rows)))
            else:
                p = inv_probit_expectation(*(part[:, 0] for part in moments(model, rows)))
            return np.stack([1.0 - p, p], axis=1)

        return model, value, None, D

    return made


def inv_probit_expectation(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the probability of GPflow's Bernoulli likelihood: its distribution function lies in [1e-3, 1 - 1e-3]."""
    return 1e-3 + (1.0 - 2e-3) * ndtr(mean / np.sqrt(1.0 + variance))


def logistic_expectation(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return E sigmoid(f) by the trapezoidal rule."""
    z = np.linspace(-10.0, 10.0, 1601)
    weights = np.exp(-0.5 * z * z)
    return expit(mean[:, None] + np.sqrt(variance)[:, None] * z) @ (weights / weights.sum())


def _softmax(rng: np.random.Generator, kernel: str, form: str) -> Made:
    form = "plain" if form == "white" else form  # several classes with white noise are refused
    model, D = _variational(rng, kernel, form, gpflow.likelihoods.Softmax(3), L=3)
    z, w = np.polynomial.hermite_e.hermegauss(48)
    first, second = (each.ravel() for each in np.meshgrid(z, z))
    weights = np.outer(w, w).ravel() / w.sum() ** 2

    def value(rows: FloatArray) -> FloatArray:
        found = []
        for mean, variance in zip(*moments(model, rows), strict=True):
            # f_1 - f_0 and f_2 - f_0 share the variance of f_0
            L = np.linalg.cholesky(variance[0] + np.diag(variance[1:]))
            f = np.array([0.0 * first, L[0, 0] * first, L[1, 0] * first + L[1, 1] * second])
            f += (mean - mean[0])[:, None]
            e = np.exp(f - f.max(axis=0))
            found.append(e / e.sum(axis=0) @ weights)
        return np.array(found)

    return model, value, None, D


def _robust_max(rng: np.random.Generator, kernel: str, form: str) -> Made:
    form = "plain" if form == "white" else form
    model, D = _variational(rng, kernel, form, gpflow.likelihoods.MultiClass(3), L=3)
    u = np.linspace(-9.0, 9.0, 1801)
    density = np.exp(-0.5 * u * u)
    density /= density.sum()

    def value(rows: FloatArray) -> FloatArray:
        mean, variance = moments(model, rows)
        deviation, largest = np.sqrt(variance), np.empty_like(mean)
        for c in range(3):
            f = mean[:, c, None] + deviation[:, c, None] * u
            others = [ndtr((f - mean[:, j, None]) / deviation[:, j, None]) for j in range(3) if j != c]
            largest[:, c] = (others[0] * others[1]) @ density
        return 0.999 * largest + 0.0005 * (1.0 - largest)

    return model, value, None, D


def _sklearn(classes: int, scaled: bool) -> Callable[..., Made]:
    def made(rng: np.random.Generator, kernel: str, form: str) -> Made:
        D = int(rng.integers(1, 4))
        X, y = data(rng, D, classes)
        X = X * SPREAD + SHIFT if scaled else X
        own = sklearn_kernel(rng, kernel, form, D)
        if classes:
            model = GaussianProcessClassifier(own, optimizer=None)
        else:
            model = GaussianProcessRegressor(own, optimizer=None, alpha=0.05, normalize_y=bool(rng.integers(2)))
        model = (make_pipeline(StandardScaler(), model) if scaled else model).fit(X, y)
        if classes:
            return model, model.predict_proba, model.predict, D
        return model, model.predict, None, D

    return made


KINDS: dict[str, Callable[..., Made]] = {
    "gpr": _regression(_gpr),
    "sgpr": _regression(_sgpr),
    "svgp_gaussian": _svgp_gaussian,
    "vgp_probit": _bernoulli(True, False),
    "vgp_logit": _bernoulli(True, True),
    "svgp_probit": _bernoulli(False, False),
    "svgp_logit": _bernoulli(False, True),
    "softmax": _softmax,
    "robust_max": _robust_max,
    "sklearn_regression": _sklearn(0, False),
    "sklearn_two": _sklearn(2, False),
    "sklearn_three": _sklearn(3, False),
    "pipeline_regression": _sklearn(0, True),
    "pipeline_two": _sklearn(2, True),
    "pipeline_three": _sklearn(3, True),
}


def faults(problem: Problem, found: Any, rng: np.random.Generator) -> list[str]:
    """Return how a result is contradicted by the model's own predictions, by the rules above."""
    classes = found.verdict != "range"
    own = int(found.prediction) if classes else 0
    points = problem.points(rng, own)
    values = problem.value(points)
    mine = values[:, own] if classes else values
    unit = problem.slack * (1.0 if classes else max(1.0, float(np.ptp(values)), abs(float(values[-1]))))
    told = []
    beyond = max(found.range[0] - mine.min(), mine.max() - found.range[1])
    if not beyond <= unit:
        told.append(f"{problem.name}: {beyond:.3g} outside the range")
    if found.verdict == "safe":
        ahead = np.delete(values, own, axis=1).max(axis=1) - mine
        other = problem.classes(points) != own if problem.classes is not None else ahead > unit
        if other.any():
            told.append(f"{problem.name}: safe, but another class is ahead by {ahead.max():.3g}")
    if found.verdict == "unsafe":
        inside = np.abs(found.counterexample - problem.x) <= problem.radius * (1.0 + 1e-12) + 1e-12
        there = problem.value(found.counterexample[None])[0]
        lost = np.delete(there, own).max() >= there[own] - problem.slack
        if problem.classes is not None:
            lost = problem.classes(found.counterexample[None])[0] != own
        if not (inside.all() and lost):
            told.append(f"{problem.name}: the counterexample is none")
    return told
