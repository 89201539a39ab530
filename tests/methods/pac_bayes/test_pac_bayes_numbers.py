"""Risks, penalties, bounds, their gradients and slacks give the numbers they gave: see tests/golden.py."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gpsuite.certificates.risk_verification import verify_certificate
from gpsuite.data.splits import DifferentRows
from gpsuite.methods.pac_bayes import bounds
from gpsuite.methods.pac_bayes.bounds import PAPER_GRID, Terms, binomial_upper_bound, certify, mean_loss_upper_bound
from gpsuite.methods.pac_bayes.cost import full_gp_cost, sparse_gp_cost
from gpsuite.methods.pac_bayes.evaluation import Copies, evaluate
from gpsuite.methods.pac_bayes.full_gp import FullGPObjective
from gpsuite.methods.pac_bayes.kl_inverse import binary_kl, kl_inverse, kl_inverse_lower
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.methods.pac_bayes.posteriors import FullGPPosterior, RiskAndKL
from gpsuite.methods.pac_bayes.problem import RiskProblem
from gpsuite.methods.pac_bayes.sparse.free_form import FreeFormObjective, WhitenedGaussian
from gpsuite.methods.pac_bayes.sparse.objective import SparseGPObjective, SparseLikelihoodObjective
from gpsuite.methods.pac_bayes.sparse.posterior import SparseGPPosterior
from gpsuite.models.config import Hyperparameters
from gpsuite.untrusted import read_description
from tests import golden
from tests.arrays import Array
from tests.methods.pac_bayes.certified_fit import KINDS, certified, params, small_dataset, with_copies, written

PACKAGES = ("gpsuite.methods.pac_bayes", "gpsuite.certificates")
START = np.log([1.3, 0.8, 1.7, 0.2])


def data(count: int = 40) -> tuple[Array, Array]:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((count, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(count)


def of_losses() -> list[object]:
    """Targets at, near and far from the prediction, of little and of much variance."""
    y, m = np.array([0.3, -1.0, 2.0, 0.5, 0.1, 30.0]), np.array([0.3, -0.8, -1.0, 1.1, 0.1, 0.0])
    v = np.array([0.2, 1e-4, 1.5, 0.0, 1e-12, 0.3])
    found: list[object] = []
    for name in LOSSES:
        loss = LOSSES.get(name)(0.6)
        found += [loss.expected(y, m, v), loss.expected_with_gradient(y, m, v), loss.pointwise(y, m)]
        found += [loss.slopes] if hasattr(loss, "slopes") else []
    return found


def of_bounds() -> list[object]:
    q, c = np.array([0.0, 1e-9, 0.01, 0.3, 0.5, 0.97, 1.0]), np.array([0.3, 1e-12, 2.0, 0.05, 0.0, 0.4, 0.1])
    found: list[object] = [kl_inverse(q, c), kl_inverse_lower(q, c), binary_kl(q[1:-1], c[1:-1] / 3.0 + 0.01)]
    for risk, cost in ((0.2, 0.1), (0.01, 0.5), (0.6, 0.02)):
        found += [bounds.kl_bound(risk, cost), bounds.sqrt_bound(risk, cost)]
        found += [bounds.quadratic_bound(risk, cost), bounds.optimal_lambda(risk, cost)]
        found += [bounds.lambda_bound_at(risk, cost, 0.7), bounds.lambda_bound(risk, cost)]
        found += [bounds.catoni_bound(risk, cost), bounds.bayes_risk_bound(risk)]
    terms = Terms(120, 3, 0.05, n_settings=4)
    found += [certify(RiskAndKL(0.2, 3.0), terms), certify(RiskAndKL(0.2, 3.0), terms, RiskAndKL(1e-6, 1e-4))]
    found += [binomial_upper_bound(3, 50, 0.05), mean_loss_upper_bound(0.12, 50, 0.05)]
    found += [full_gp_cost(200, 50, 2)]
    found += [sparse_gp_cost(200, 50, 12, 3, kind) for kind in ("fitc", "vfe", "free_form")]
    return [*found, PAPER_GRID.rounded(Hyperparameters(1.234, (0.77, 3.1), 0.2))]


def of_full(loss: str, objective: str) -> list[object]:
    return [FullGPObjective(RiskProblem(*data(), LOSSES.get(loss)(0.6), 0.05, objective)).value_and_gradient(START)]


def of_sparse(loss: str, alpha: float) -> list[object]:
    X, y = data()
    problem = RiskProblem(X, y, LOSSES.get(loss)(0.6), 0.05)
    free, Z = FreeFormObjective(problem, 5), X[:5] + 0.1
    gaussian = WhitenedGaussian.of(
        SparseGPPosterior.fit(Hyperparameters(1.3, (0.8, 1.7), 0.2), X, y, Z, alpha).whitened
    )
    return [
        SparseGPObjective(problem, alpha, 5).value_and_gradient(START, Z),
        *(SparseLikelihoodObjective(X, y, True, form, 5).value_and_gradient(START, Z) for form in ("vfe", "fitc")),
        free.value_and_gradient(START[:-1], Z, gaussian),
    ]


def of_certificate(kind: str, apart: float | None) -> list[object]:
    dataset = small_dataset(40)
    posterior, found, arrays = certified(kind, params(), dataset, apart)
    with tempfile.TemporaryDirectory() as folder:
        path = written(arrays, Path(folder))
        verified = verify_certificate(path, read_description(path.with_suffix(".json")), dataset)
    return [found, posterior.predict(np.array([[0.3, -0.2], [4.0, 1.0]])), verified[0]]


def with_repeated_rows() -> list[object]:
    X, y = data(20)
    h = PAPER_GRID.rounded(Hyperparameters(1.3, (0.8, 1.7), 0.2))
    X, y = np.vstack([X, X[:4], X[:1]]), np.concatenate([y, y[:4], y[:1]])
    train, test = (DifferentRows(places, places == 2) for places in (np.arange(20), np.array([0, 2])))
    copies = Copies(train, test)
    found: list[object] = [certified("fitc", params(), with_copies(small_dataset(30), [3, 1, 2]))[1]]
    for posterior in (FullGPPosterior.fit(h, X, y), SparseGPPosterior.fit(h, X, y, X[:4] + 0.1, 1.0)):
        found += [evaluate(posterior, X[:3], y[:3], LOSSES.get("band01")(0.6), 0.05, copies=copies)]
    return found


SCENARIOS: dict[str, golden.Scenario] = {
    "losses": of_losses,
    "bounds": of_bounds,
    **{f"full GP, {objective}": partial(of_full, "band01", objective) for objective in bounds.OBJECTIVES},
    **{
        f"sparse GP, {loss}, alpha {alpha}": partial(of_sparse, loss, alpha)
        for loss, alpha in (("band01", 1.0), ("exp", 0.0), ("band01", 0.5))
    },
    **{f"certificate, {kind}": partial(of_certificate, kind, None) for kind in KINDS},
    "certificate, inducing inputs that nearly coincide": partial(of_certificate, "fitc", 1e-3),
    "certificate, repeated rows": with_repeated_rows,
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_numbers_are_the_stored_ones(name: str) -> None:
    golden.check(__file__, name, SCENARIOS[name], PACKAGES)
