"""Rows and trained regressions of robustness/regression."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import Standardiser, without_copies
from gpsuite.errors import UserError
from gpsuite.experiments.base import SharedWork
from gpsuite.experiments.params import plain
from gpsuite.experiments.robustness.shared.classifiers import median_distance
from gpsuite.experiments.settings import require_one_output
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.inducing import kmeans_inducing
from gpsuite.seeds import stream

if TYPE_CHECKING:
    from gpflow.models import GPR, SGPR

START_NOISE = 0.1  # of a standardised target's variance


@dataclass(frozen=True)
class RegressionParams:
    """All that decides a trained regression except the dataset.

    Attributes:
        inducing: inducing inputs of the sparse model; 0 for the exact one.
        version: of the method.
        kernel: its name.
        ard: one lengthscale per input.
        noise_floor: exclusive lower bound of the noise variance.
        draw_seed: of the random choice of training and test rows; the same for every method.
        evaluations: as the following, of `RegressionSettings`.
    """

    inducing: int
    version: int
    kernel: str
    ard: bool
    noise_floor: float
    draw_seed: int
    evaluations: int
    train_rows: int
    test_rows: int

    @property
    def spec(self) -> ModelSpec:
        """The model's structure."""
        return ModelSpec(kernel=self.kernel, ard=self.ard, noise_floor=self.noise_floor)

    @property
    def name(self) -> str:
        """A name that no other regression on the same dataset has."""
        return json.dumps(plain(self), sort_keys=True)


UNITS = 1e-14  # relative: what the change to the target's own units rounds


@dataclass(frozen=True, eq=False)
class RegressionProblem:
    """Random rows of a dataset; inputs and target standardised over the training rows.

    Attributes:
        X: training inputs, [N, D].
        y: training target, [N].
        X_test: test inputs, [T, D].
        y_test: test target, in its own units, [T].
        train_rows: row numbers in the dataset, [N].
        test_rows: likewise, [T].
        inputs: names, D.
        input_offset: what zero of each input is in its own units, [D].
        input_scale: what one unit of each input is in its own, [D].
        target: its name.
        target_offset: what zero of the target is in its own units.
        target_scale: what one unit is.
        level_inputs: `Dataset.level_inputs`.
    """

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray
    train_rows: IntArray
    test_rows: IntArray
    inputs: tuple[str, ...]
    input_offset: FloatArray
    input_scale: FloatArray
    target: str
    target_offset: float
    target_scale: float
    level_inputs: frozenset[str] = frozenset()

    def own_units(self, values: FloatArray, outward: FloatArray | float = 0.0) -> FloatArray:
        """Return values of the standardised target in its own units.

        Those with `outward` -1 are not above, those with 1 not below the exact ones, whatever is rounded.
        """
        own = self.target_offset + self.target_scale * values
        slack = UNITS * (abs(self.target_offset) + np.abs(np.where(np.isfinite(own), own, 0.0)))
        return np.asarray(own + outward * slack)


def read_regression(dataset: PreparedDataset, params: RegressionParams) -> RegressionProblem:
    """Return the rows that a model's parameters choose: the first of a random permutation are the test rows.

    Raises:
        UserError: if there are several targets or too few rows, or the target is constant.
    """
    data = load(dataset)
    require_one_output(data)
    n_test, least = params.test_rows, max(2, params.inducing)
    if 2 * params.inducing > len(data.X) and len(data.X) < n_test + least:
        left = max(len(data.X) - n_test, 0)
        fault = f"more inducing inputs than the {left} rows that test_rows={n_test} of {len(data.X)} leave to training"
        raise UserError(
            f"method.inducing={params.inducing}: {fault}\ntake fewer of one or both", key="method.inducing"
        )
    if len(data.X) < n_test + least:
        fault = f"{data.name} has {len(data.X)} rows; {least} or more must be left for training"
        raise UserError(f"test_rows={n_test}: {fault}", key="test_rows")
    order = stream(params.draw_seed, "rows").permutation(len(data.X))
    test = order[:n_test]
    train = without_copies(order[n_test:], test, data.groups)[: params.train_rows]
    if len(train) < least:
        fault = f"{len(train)} rows are no copies of test rows; {least} or more must be left for training"
        raise UserError(f"test_rows={n_test}: {fault}", key="test_rows")
    if len(np.unique(data.y[train])) < 2:
        told = f"the {len(train)} rows to train on\ntake more (train_rows=), or others (seed=)"
        raise UserError(f"dataset.target: {data.target_names[0]} is constant in {told}", key="dataset.target")
    inputs, target = Standardiser.fit(data.X[train]), Standardiser.fit(data.y[train])
    return RegressionProblem(
        X=inputs.transform(data.X[train]),
        y=target.transform(data.y[train])[:, 0],
        X_test=inputs.transform(data.X[test]),
        y_test=data.y[test, 0],
        train_rows=train,
        test_rows=test,
        inputs=data.input_names,
        input_offset=inputs.mean,
        input_scale=inputs.scale,
        target=data.target_names[0],
        target_offset=float(target.mean[0]),
        target_scale=float(target.scale[0]),
        level_inputs=data.level_inputs,
    )


def trained_regression(
    dataset: PreparedDataset, params: RegressionParams, shared: SharedWork, seconds: float | None
) -> tuple[RegressionProblem, Hyperparameters, FloatArray]:
    """Return problem, hyperparameters and inducing inputs [M, D] (none for the exact model), trained once per group."""

    def attempt() -> tuple[RegressionProblem, Hyperparameters, FloatArray]:
        from gpsuite.models.tensorflow_setup import configure

        configure()  # before anything else imports TensorFlow
        from gpsuite.models.regression.parameters import hyperparameters_of
        from gpsuite.models.regression.training import maximise_likelihood

        problem = read_regression(dataset, params)
        lengthscale, D = median_distance(problem.X), problem.X.shape[1]
        start = Hyperparameters(1.0, (lengthscale,) * (D if params.ard else 1), START_NOISE)
        Z = np.zeros((0, D))
        if params.inducing:
            different = len(np.unique(problem.X, axis=0))
            Z = kmeans_inducing(
                problem.X, min(params.inducing, different), stream(params.draw_seed, "inducing")
            )
        model = build(problem, params.spec, start, Z)
        maximise_likelihood(
            model, Budget(seconds=seconds, evaluations=params.evaluations, observer=shared.observer)
        )
        if hasattr(model, "inducing_variable"):
            Z = np.asarray(model.inducing_variable.Z.numpy(), dtype=np.float64)
        return problem, _above_floor(hyperparameters_of(model), params.spec.noise_floor), Z

    return shared.once(f"regression {params.name}", attempt)


def _above_floor(found: Hyperparameters, floor: float) -> Hyperparameters:
    """Return the hyperparameters with a noise variance that a model takes: training may end on the floor itself."""
    return replace(found, noise_variance=max(found.noise_variance, float(np.nextafter(floor, np.inf))))


def build(
    problem: RegressionProblem, spec: ModelSpec, hyperparameters: Hyperparameters, Z: FloatArray
) -> GPR | SGPR:
    """Return GPflow's model: sparse with inducing inputs, else exact."""
    from gpsuite.models.regression.exact import build_gpr
    from gpsuite.models.regression.sparse import build_sgpr

    if len(Z):
        return build_sgpr(problem.X, problem.y, Z, spec, hyperparameters)
    return build_gpr(problem.X, problem.y, spec, hyperparameters)
