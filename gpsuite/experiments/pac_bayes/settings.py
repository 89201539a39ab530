"""What every experiment that fits and certifies GPs on splits of a dataset has in common."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.errors import UserError
from gpsuite.experiments.base import METHODS, MethodOptions, Request, Task, require
from gpsuite.experiments.pac_bayes.methods import PacSGPOptions
from gpsuite.seeds import derived_seed

SCALINGS = ("all", "train")
LEAST_TRAINING_ROWS = 5
FULL_GP_ROWS = 20_000  # an N x N matrix of this size is 3.2 GB


@dataclass
class SplitSettings:
    """Settings of experiments on repeated random splits.

    Attributes:
        repetitions: number of random train-test splits.
        delta: allowed probability that the bound fails.
        test_share: share of rows kept for testing.
        scaling: mean and standard deviation taken over all rows (the published protocol) or the training rows.
        max_evaluations: limit on objective evaluations per training.
    """

    repetitions: int = 10
    delta: float = 0.01
    test_share: float = 0.2
    scaling: str = "all"
    max_evaluations: int = 1000

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        require(self.repetitions >= 1, "repetitions", self.repetitions, "must be 1 or more")
        require(0 < self.delta < 1, "delta", self.delta, "must lie between 0 and 1")
        require(0 < self.test_share < 1, "test_share", self.test_share, "must lie between 0 and 1")
        require(self.scaling in SCALINGS, "scaling", self.scaling, f"valid: {', '.join(SCALINGS)}")
        require(self.max_evaluations >= 1, "max_evaluations", self.max_evaluations, "must be 1 or more")


def check_epsilon(key: str, value: float) -> None:
    """Refuse an accuracy goal that is not a positive number."""
    require(0 < value < float("inf"), key, value, "must be a number above 0")


def split_seed(seed: int, split: int) -> int:
    """Return the random state of a split, the same for every method.

    Experiment seed 0 is the published protocol: split k uses scikit-learn's random state k. Other seeds give
    derived states, so that no two experiments share a split.
    """
    return split if seed == 0 else derived_seed(seed, "split", split)


def fit_tasks(
    request: Request, settings: SplitSettings, goals: list[dict[str, float]], axis: str
) -> list[Task]:
    """Return one task per method, split and accuracy goal.

    Args:
        request: the validated request.
        settings: its split settings.
        goals: accuracy goals as `{"epsilon": value}` (standardised units) or `{"accuracy": value}` (target's own).
        axis: name of the goal's axis.
    """
    _require_squared_exponential(request)
    _check_sizes(request, settings)
    return list(_tasks(request, settings, goals, axis))


def _tasks(
    request: Request, settings: SplitSettings, goals: list[dict[str, float]], axis: str
) -> Iterator[Task]:
    for split in range(settings.repetitions):
        for name, options in request.methods.items():
            for goal in goals:
                value = next(iter(goal.values()))
                yield Task(
                    experiment=request.experiment,
                    label=f"{options.title}  {axis} {value:g}  split {split}",
                    axes={"method": name, axis: value, "split": split},
                    params=_params(request, settings, options, goal, split),
                    dataset=request.dataset,
                    version=METHODS.get(options.builder).version,
                    # a marginal likelihood does not know the accuracy goal: one training serves all goals
                    group=f"{name}/{split}" if options.builder == "full_gp" else "",
                    cost=_cost(request, options),
                    budget_seconds=request.budget_seconds,
                )


def _params(
    request: Request, settings: SplitSettings, options: MethodOptions, goal: dict[str, float], split: int
) -> dict[str, Any]:
    method = {key: value for key, value in asdict(options).items() if key not in ("title", "reference")}
    return {
        "kind": "certified_fit",
        "method": method,
        "ard": request.model.ard,
        "loss": {"name": "band01", **goal},
        "delta": settings.delta,
        "split_seed": split_seed(request.seed, split),
        "test_share": settings.test_share,
        "scaling": settings.scaling,
        "max_evaluations": settings.max_evaluations,
    }


def _cost(request: Request, options: MethodOptions) -> float:
    """Return a rough guess of CPU seconds: evaluations times their arithmetic, and compilation for GPflow."""
    rows = _dataset(request).rows
    if isinstance(options, PacSGPOptions):
        return 500 * 20 * rows * float(options.inducing) ** 2 / 4e10 + 0.1
    work = 25 * 1.5 * (rows / 1000) ** 3 / 20
    return work + (0.5 if options.builder == "full_gp" else 0.05)


def _dataset(request: Request) -> PreparedDataset:
    if request.dataset is None:
        raise UserError(f"dataset: {request.experiment} needs one", key="dataset")
    return request.dataset


def _check_sizes(request: Request, settings: SplitSettings) -> None:
    """Refuse a split without enough rows on both sides, and more rows than a full GP can take."""
    rows = _dataset(request).rows
    training = rows - math.ceil(rows * settings.test_share)
    enough = training >= LEAST_TRAINING_ROWS
    require(enough, "test_share", settings.test_share, f"leaves {training} training rows of {rows}")
    full = [name for name, options in request.methods.items() if not isinstance(options, PacSGPOptions)]
    if full and rows > FULL_GP_ROWS:
        raise UserError(
            f"method={full[0]}: the dataset has {rows} rows, a full GP takes at most {FULL_GP_ROWS}\n"
            "use a sparse one: method=kl_pac_sgp",
            key="method",
        )


def _require_squared_exponential(request: Request) -> None:
    if request.model.kernel != "squared_exponential":
        raise UserError(
            f"model.kernel={request.model.kernel}: PAC-Bayes training has the squared exponential only\n"
            "valid: model=se, model=se_ard",
            key="model",
        )
