"""Training a regression of the family on rows in their own units, and its scores in those."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.splits import Standardiser
from gpsuite.experiments.base import BUDGET, DIVERGED, DONE
from gpsuite.experiments.wasserstein.methods import RegressorMethod
from gpsuite.experiments.wasserstein.shared.training_settings import TrainingParams
from gpsuite.methods.wasserstein.rows import split_rows
from gpsuite.methods.wasserstein.scoring import regression as scores
from gpsuite.reporting.metrics import UNTEMPERED
from gpsuite.seeds import stream

if TYPE_CHECKING:
    from gpsuite.experiments.base import MethodOptions
    from gpsuite.methods.wasserstein.regressors import FittedRegressor

LEVEL = 0.95  # of predictive intervals
_STATUS = {"done": DONE, "budget": BUDGET, "diverged": DIVERGED}


@dataclass(frozen=True, eq=False)
class OwnUnits:
    """A trained regression with inputs and targets in their own units.

    Attributes:
        found: trained on standardised rows.
        inputs: the map of its inputs.
        targets: the map of its targets.
    """

    found: FittedRegressor
    inputs: Standardiser
    targets: Standardiser

    @property
    def status(self) -> str:
        """Status of the record."""
        return _STATUS[self.found.status]

    def predict(self, X: FloatArray, tempered: bool = False) -> tuple[FloatArray, FloatArray]:
        """Return mean [N] and variance [N] of the targets, noise included."""
        predict = self.found.predict_tempered if tempered else self.found.predict
        mean, variance = predict(self.inputs.transform(X))
        return self.targets.inverse(mean[:, None])[:, 0], variance * self.targets.scale[0] ** 2


def fit_regression(
    options: MethodOptions,
    t: TrainingParams,
    X: FloatArray,
    y: FloatArray,
    seed: int,
    budget: Budget,
    states: Path | None = None,
    groups: IntArray | None = None,
) -> OwnUnits:
    """Train on rows [N, D], [N]: both standardised by the training rows, validation rows among them split off.

    Rows of equal `groups` [N] are copies of each other; none is on both sides.
    In the folder `states` a training leaves what an interruption must not lose.
    """
    from gpsuite.models.tensorflow_setup import configure

    configure()  # before anything else imports TensorFlow
    from gpsuite.methods.wasserstein.classifiers import NoKeeper
    from gpsuite.methods.wasserstein.options import GWIOptions
    from gpsuite.methods.wasserstein.regressors import REGRESSORS, RegressionFit
    from gpsuite.methods.wasserstein.states import StateFolder
    from gpsuite.models.networks.spec import NetworkSpec

    assert isinstance(options, RegressorMethod)
    inputs, targets = Standardiser.fit(X), Standardiser.fit(y[:, None])
    scaled = inputs.transform(X), targets.transform(y[:, None])[:, 0]
    rows = split_rows(*scaled, t.validation_share, stream(seed, "validation"), groups)
    settings = GWIOptions(
        prior=t.prior,
        prior_mean=t.prior_mean,
        prior_evaluations=t.prior_evaluations,
        inducing=t.inducing,
        network=NetworkSpec(t.widths, t.activation),
        chosen=t.chosen,
    )
    keeper = NoKeeper() if states is None else StateFolder(states)
    found = REGRESSORS.get(options.regressor)(RegressionFit(rows, settings, t.training, seed, budget, keeper))
    return OwnUnits(found, inputs, targets)


def regression_scores(model: OwnUnits, X: FloatArray, y: FloatArray) -> dict[str, float]:
    """Return the scores on test rows, tempered and not (`UNTEMPERED`)."""
    found: dict[str, float] = {"tempering": model.found.tempering}
    for tempered, suffix in ((True, ""), (False, UNTEMPERED)):
        mean, variance = model.predict(X, tempered)
        found |= {
            f"nll_own{suffix}": scores.negative_log_density(y, mean, variance),
            f"crps{suffix}": scores.crps(y, mean, variance),
            f"interval_coverage{suffix}": scores.interval_coverage(y, mean, variance, LEVEL),
            f"interval_width{suffix}": float(2.0 * np.mean(scores.interval_half_widths(variance, LEVEL))),
        }
        found["rmse_test_own_units"] = scores.rmse(y, mean)
    return found
