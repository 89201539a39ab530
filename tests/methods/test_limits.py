from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.budget import Budget
from gpsuite.methods.active_learning.problem import ExplorationProblem, Pool, safe_set
from gpsuite.methods.conformal import jackknife_plus, split_radius
from gpsuite.methods.pac_bayes.bounds import (
    PAPER_GRID,
    HyperparameterGrid,
    Terms,
    bayes_risk_bound,
    binomial_upper_bound,
    catoni_bound,
    check_catoni_constant,
    lambda_bound_at,
    mean_loss_upper_bound,
)
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse, kl_inverse_lower
from gpsuite.methods.pac_bayes.losses import LOSSES
from gpsuite.methods.perturbation import objectives
from gpsuite.methods.perturbation.nonsmooth import EpsilonSVR
from gpsuite.methods.perturbation.ranks import SignChanges
from gpsuite.methods.robustness.explain.lines import line_slices
from gpsuite.methods.robustness.multiclass.paper_softmax_bound import (
    LatentBoxes,
    cell_probability_bounds,
    class_probability_cells,
)
from gpsuite.methods.robustness.regression import prediction_range
from gpsuite.methods.robustness.search.regions import box, l2_ball, linf_ball
from gpsuite.methods.wasserstein.baselines import build_network
from gpsuite.methods.wasserstein.fitting import GWIOptions, TrainingOptions, split_rows
from gpsuite.methods.wasserstein.scoring import (
    checked_gaussians,
    checked_predictions,
    interval_half_widths,
    reliability,
    variance_factor,
)
from gpsuite.models.classification.links import PROBIT
from gpsuite.models.latent import LatentPosterior
from gpsuite.models.multi_output.observations import Observations
from gpsuite.models.network_spec import NetworkSpec
from tests.limits import TINY, Limit, check, sides
from tests.methods.robustness.level_bound.test_level_search import problem as level_problem
from tests.methods.robustness.level_bound.test_level_search import run as search_levels
from tests.methods.robustness.search.test_branch_and_bound import run as search_boxes
from tests.methods.robustness.search.test_branch_and_bound import wave_bound

ONE = np.ones(1)
X = np.array([[0.0, 0.0], [1.0, 1.0]])
LATENT = LatentPosterior(X, "squared_exponential", 1.0, np.ones(2), np.ones(2), 0.1 * np.eye(2), -np.ones(2), 1.0)
BELOW_ONE = 1 - 2**-53
SEARCHES = (("tolerance", (0.0, 1.0), (-TINY, nan)), ("sign", (1, -1), (0, 2)), ("batch", (2,), (1,)))


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def jackknife(predictions: FloatArray) -> object:
    return jackknife_plus(np.ones(3), predictions, 0.5)


def quantiles(level: float = 0.5, noise: float = 0.1, ball: bool = False) -> object:
    region = l2_ball(np.zeros(2), 0.1) if ball else box(np.zeros(2), 0.1)
    return prediction_range(LATENT, noise, region, [0.5, level], 0.5, Budget(boxes=4))


def latent_cells(count: int) -> object:
    zero, one = np.zeros((1, 3)), np.eye(3)[None]
    return class_probability_cells(LatentBoxes((zero, zero), (one, one)), 0, count)


def problem(delta: float = 0.05, output: int = 0) -> ExplorationProblem:
    measured = Observations(np.array([[0.0], [1.0]]), np.array([0, output]), np.ones(2))
    return ExplorationProblem(Pool(np.zeros((3, 1)), np.ones((3, 2), dtype=bool)), measured, delta=delta)


def predictions(p: float) -> object:
    return checked_predictions(np.array([[0.5, 0.5], [p, 1.0 - p]]), np.array([0, 1]))


def boxes(**chosen: Any) -> object:
    return search_boxes(wave_bound(1), box(np.zeros(1), 1.0), **{"budget": Budget(boxes=6), **chosen})


def levels(**chosen: Any) -> object:
    posterior, point = level_problem("matern52")
    return search_levels(posterior, box(point, 0.1), boxes=4, **chosen)


LIMITS = [
    *(
        Limit(f"boxes' {name}", lambda v, name=name: boxes(**{name: v}), taken, refused)
        for name, taken, refused in SEARCHES
    ),
    *(
        Limit(
            f"levels' {name}",
            lambda v, name=name: levels(**{"eps" if name == "tolerance" else name: v}),
            taken,
            refused,
        )
        for name, taken, refused in SEARCHES
    ),
    Limit("safe set", lambda d: safe_set(np.ones(2), d), (TINY, 1.0), (0.0, 1 + 2**-52, nan)),
    Limit("errors", lambda e: split_radius(np.array([e]), 0.5), (0.0, inf), (-TINY, nan)),
    Limit("number of errors", lambda n: split_radius(np.ones(n), 0.5), (1,), (0,)),
    Limit("coverage", lambda c: split_radius(ONE, c), (TINY, BELOW_ONE), (0.0, 1.0, nan)),
    Limit("rows of predictions", lambda n: jackknife(np.ones((n, 2))), (3,), (2, 4)),
    Limit("axes of predictions", lambda n: jackknife(np.ones((3,) + (1,) * (n - 1))), (2,), (1, 3)),
    Limit("a prediction", lambda p: jackknife(np.full((3, 1), p)), (0.0,), (inf, nan)),
    Limit("rows of a bound", lambda n: Terms(n, 1, 0.1), (1,), (0,)),
    Limit("hyperparameters", lambda T: Terms(1, T, 0.1), (0,), (-1,)),
    Limit("settings", lambda k: Terms(1, 1, 0.1, n_settings=k), (1,), (0,)),
    Limit("delta", lambda d: Terms(1, 1, d), (TINY, BELOW_ONE), (0.0, 1.0, nan)),
    Limit("held-out rows", lambda n: binomial_upper_bound(0, n, 0.1), (1,), (0,)),
    Limit("held-out errors", lambda k: binomial_upper_bound(k, 3, 0.1), (0, 3), (-1, 4)),
    Limit("held-out delta", lambda d: binomial_upper_bound(0, 3, d), (1e-300, BELOW_ONE), (0.0, 1.0)),
    Limit("mean loss rows", lambda n: mean_loss_upper_bound(0.5, n, 0.1), (1,), (0,)),
    Limit("mean loss", lambda q: mean_loss_upper_bound(q, 3, 0.1), (0.0, 1.0), (-TINY, 1 + 2**-52, nan)),
    Limit("grid decimals", lambda k: HyperparameterGrid(decimals=k), (0,), (-1,)),
    Limit("grid width", lambda k: HyperparameterGrid(half_width=k), (1,), (0,)),
    Limit("grid value", PAPER_GRID.round, (TINY,), (0.0, -1.0, nan)),
    Limit("risk", lambda q: kl_inverse(q, 0.1), (0.0, 1.0), (-TINY, 1 + 2**-52, nan)),
    Limit("penalty", lambda c: kl_inverse(0.5, c), (0.0, inf), (-TINY, nan)),
    Limit("lower penalty", lambda c: kl_inverse_lower(0.5, c), (0.0, inf), (-TINY, nan)),
    Limit("lambda", lambda w: lambda_bound_at(0.5, 0.1, w), (1e-300, 2 - 2**-51), (0.0, 2.0, nan)),
    Limit("lambda's risk", lambda q: lambda_bound_at(q, 0.1, 1.0), (0.0, 1.0), (-TINY, 1 + 2**-52, nan)),
    Limit("lambda's penalty", lambda c: lambda_bound_at(0.5, c, 1.0), (0.0, inf), (-TINY, nan)),
    Limit("Catoni's constant", check_catoni_constant, (TINY,), (0.0, inf, nan)),
    Limit("Catoni's risk", lambda q: catoni_bound(q, 0.1, 1.0), (0.0, 1.0), (-TINY, 1 + 2**-52)),
    Limit("Gibbs bound", bayes_risk_bound, (0.0, inf), (-TINY, nan)),
    *(Limit(f"width of {name}", LOSSES.get(name), (TINY,), (0.0, inf, nan)) for name in sorted(LOSSES)),
    Limit("positive", lambda v: objectives.positive("C", v), (TINY,), (0.0, inf, nan)),
    Limit("observations", objectives.enough_rows, (2,), (1,)),
    Limit("q of m", lambda q: objectives.valid_level(q, 3), (1, 2), (0, 3)),
    Limit("diagonal", lambda v: objectives.gram_matrix("K", np.diag([1.0, v])), (TINY,), (0.0, -1.0)),
    Limit("rows of a Gram matrix", lambda n: objectives.gram_matrix("K", np.eye(n)), (2,), (1,)),
    Limit(
        "dependent columns",
        lambda v: objectives.full_column_rank("X", np.array([[1.0, 1.0], [1.0, v]])),
        (2.0,),
        (1.0,),
    ),
    Limit("tube", lambda e: EpsilonSVR(np.eye(2), 1.0, e), (0.0,), (-TINY, inf, nan)),
    Limit("perturbations", lambda m: SignChanges().draw(2, m, rng()), (2,), (1,)),
    Limit("residuals", lambda n: SignChanges().draw(n, 2, rng()), (2,), (1,)),
    Limit("input of a line", lambda i: line_slices(LATENT, X, np.array([i])), (0, 1), (-1, 2)),
    Limit("inputs of lines", lambda i: line_slices(LATENT, X, np.array(i, dtype=int)), ([0, 1], [1]), ([], [1, 1])),
    Limit("points of lines", lambda v: line_slices(LATENT, np.array([[0.0, v]]), np.array([0])), (0.0,), (inf, nan)),
    Limit("cells", lambda n: cell_probability_bounds(PROBIT, (ONE, ONE), (ONE, ONE), n), (2,), (1,)),
    Limit("latent cells", latent_cells, (3,), (2,)),
    Limit("quantile", lambda q: quantiles(level=q), (1e-300, 0.5, BELOW_ONE), (0.0, 1.0, nan)),
    Limit("noise of quantiles", lambda v: quantiles(noise=v), (1e-12,), (0.0, -1.0, nan)),
    Limit("ball of quantiles", lambda ball: quantiles(ball=ball), (False,), (True,)),
    Limit("radius of a box", lambda r: box(np.zeros(2), r), (0.0, 1.0), (-TINY, inf, nan)),
    Limit("radius of a ball", lambda r: linf_ball(np.zeros(2), r), (0.0, 1.0), (-TINY, inf, nan)),
    Limit("free input", lambda i: linf_ball(np.zeros(2), 0.1, free=[i]), (0, 1), (-1, 2)),
    Limit("free inputs", lambda f: linf_ball(np.zeros(2), 0.1, free=f), ([0], [0, 1]), ([], [0, 0])),
    Limit(
        "dropout", lambda d: build_network(NetworkSpec(widths=(2,)), 1, 2, 3, rng(), d), (0.0, 0.99), (-TINY, 1.0, nan)
    ),
    Limit("rows to split", lambda n: split_rows(np.zeros((n, 1)), np.zeros(n), 0.5, rng()), (2,), (1,)),
    Limit(
        "share to split",
        lambda s: split_rows(np.zeros((3, 1)), np.zeros(3), s, rng()),
        (TINY, BELOW_ONE),
        (0.0, 1.0, nan),
    ),
    Limit("bins", lambda n: reliability(np.eye(2), np.arange(2), n), (1,), (0,)),
    Limit("probability", predictions, (0.0, 1.0), (-1e-9, 1 + 1e-9, nan)),
    Limit(
        "sum of probabilities",
        lambda s: checked_predictions(np.array([[s, 0.0]]), np.zeros(1, dtype=int)),
        (1 + 9e-7, 1 - 9e-7),
        (1 + 1.1e-6, 1 - 1.1e-6),
    ),
    Limit("level", lambda p: interval_half_widths(ONE, p), (1e-300, BELOW_ONE), (0.0, 1.0, nan)),
    Limit("predictive variance", lambda v: checked_gaussians(ONE, ONE, np.array([v])), (TINY,), (0.0, -1.0, nan)),
    Limit("error to temper", lambda e: variance_factor(ONE, ONE + e, ONE), (1e-8,), (0.0,)),
    Limit("GWI inducing", lambda m: GWIOptions(inducing=m), (TINY,), (0.0, nan)),
    Limit("GWI evaluations", lambda n: GWIOptions(prior_evaluations=n), (1,), (0,)),
    Limit("GWI chosen", lambda n: GWIOptions(chosen=n), (1,), (0,)),
    *(
        Limit(f"training {name}", lambda n, name=name: TrainingOptions(**{name: n}), (1,), (0,))
        for name in ("epochs", "patience", "trial_epochs")
    ),
    Limit("batches", lambda n: TrainingOptions(batches=n), ((1,), (1, 2)), ((), (0,), (5, 0))),
    Limit(
        "learning rates", lambda r: TrainingOptions(learning_rates=r), ((TINY,), (1.0, 0.1)), ((), (0.0,), (1.0, 0.0))
    ),
    Limit("delta of a problem", lambda d: problem(delta=d), (TINY, 1.0), (0.0, 1 + 2**-52, nan)),
    Limit("output", lambda p: problem(output=p), (0, 1), (-1, 2)),
]


@sides(LIMITS)
def test_a_limit_is_where_it_is_said_to_be(limit: Limit, value: object, refused: bool) -> None:
    check(limit, value, refused)
