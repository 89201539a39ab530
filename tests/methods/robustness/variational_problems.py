"""Variational classifiers whose bound is maximal: fixed-point iterations in numpy, put into GPflow's models."""

from __future__ import annotations

from functools import cache
from typing import Any

import gpflow
import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit, ndtr

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import Certificate, Origin
from gpsuite.methods.robustness.point_search import probability_range
from gpsuite.methods.robustness.search.regions import linf_ball
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.links import LINKS, LOGISTIC
from gpsuite.models.classification.variational import VariationalModel, build_vgp, link_of, variational_posterior
from gpsuite.models.config import Hyperparameters, ModelSpec
from tests.arrays import Array
from tests.methods.robustness.certified_point import CENTRE, certify_range, origin_of
from tests.models.gpc_problems import build_svgp, two_classes

KINDS = ("vgp", "svgp")
INDUCING = 8
STEPS = 200


def variational_model(
    kind: str, kernel: str, link: str, variance: float = 2.5, seed: int = 3
) -> tuple[VariationalModel, Array, Array]:
    """Return GPflow's model ("vgp" or "svgp") at the maximum of its bound, with its rows and labels."""
    X, y = two_classes(seed)
    spec, h = ModelSpec(kernel, ard=True), Hyperparameters(variance, (0.8, 1.7))
    if kind == "vgp":
        model: VariationalModel = build_vgp(X, y, spec, h, LINKS.get(link))
    else:
        model = build_svgp(X[:INDUCING] + 0.1, len(X), spec, h, LINKS.get(link))
    Z = X if kind == "vgp" else X[:INDUCING] + 0.1
    lower = np.linalg.cholesky(np.asarray(model.kernel(Z)) + gpflow.config.default_jitter() * np.eye(len(Z)))
    P = lower.T if kind == "vgp" else solve_triangular(lower, np.asarray(model.kernel(Z, X)), lower=True)
    left_open = 0.0 if kind == "vgp" else variance - np.sum(P**2, axis=0)
    mean, covariance = _fixed_point(model.likelihood, y, P, left_open)
    model.q_mu.assign(mean[:, None])
    model.q_sqrt.assign(np.linalg.cholesky(covariance)[None])
    return model, X, y


def variational_fit(
    kind: str, kernel: str, link: str, variance: float = 2.5, seed: int = 3
) -> tuple[GPCPosterior, Array, Array]:
    """Return the posterior of `variational_model` with its rows and labels."""
    model, X, y = variational_model(kind, kernel, link, variance, seed)
    return variational_posterior(model), X, y


def origin(kind: str, X: Array, y: Array) -> Origin:
    return origin_of(y, "variational", X=X if kind == "svgp" else None, jitter=gpflow.config.default_jitter())


@cache
def fitted(kind: str, kernel: str = "squared_exponential", link: str = "probit", variance: float = 2.5) -> Any:
    posterior, X, y = variational_fit(kind, kernel, link, variance, seed=0)
    return posterior, origin(kind, X, y)


@cache
def certificate(kind: str) -> Certificate:
    posterior, where = fitted(kind)
    region = linf_ball(CENTRE, 0.2)
    found = probability_range(posterior, region, 0.02, Budget(boxes=2000))
    return certify_range(posterior, region, (found.minimum, found.maximum), slack=0.01, origin=where)


def _fixed_point(likelihood, y, P, left_open):
    """Damped steps of natural gradients: m = sum_i g_i p_i, S^-1 = I + sum_i h_i p_i p_i'."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(150)
    weights = weights / weights.sum()
    natural, precision = np.zeros(len(P)), np.eye(len(P))
    for _ in range(STEPS):
        covariance = np.linalg.inv(precision)
        mean = covariance @ natural
        f = (P.T @ mean)[:, None] + np.sqrt(left_open + np.sum(P * (covariance @ P), axis=0))[:, None] * nodes
        slope, bend = _derivatives(likelihood, y[:, None], f)
        g, h = slope @ weights, -(bend @ weights)
        natural = 0.5 * natural + 0.5 * (P @ (g + h * (P.T @ mean)))
        precision = 0.5 * precision + 0.5 * (np.eye(len(P)) + (P * h) @ P.T)
    covariance = np.linalg.inv(precision)
    return covariance @ natural, covariance


def _derivatives(likelihood, y, f):
    """First and second derivative of log p(y|f), by the links' densities."""
    link = link_of(likelihood)
    t = y * f
    if link == LOGISTIC:
        return y * expit(-t), -expit(t) * expit(-t)
    squeeze = getattr(link, "squeeze", 0.0)
    density = (1 - 2 * squeeze) * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    ratio = density / (squeeze + (1 - 2 * squeeze) * ndtr(t))
    return y * ratio, -ratio * (ratio + t)
