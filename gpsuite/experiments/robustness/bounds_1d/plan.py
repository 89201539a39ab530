"""Tasks of robustness/bounds_1d: one per method and bound."""

from __future__ import annotations

from dataclasses import asdict

from gpsuite.errors import UserError
from gpsuite.experiments.base import Request, Task
from gpsuite.experiments.robustness.bounds_1d.run import SEARCH
from gpsuite.experiments.robustness.bounds_1d.settings import BOUNDS, Bounds1DSettings
from gpsuite.seeds import derived_seed


def plan(request: Request) -> list[Task]:
    """Return one task per method and bound.

    Raises:
        UserError: if the paper's bound is asked for with another kernel than its own.
    """
    settings: Bounds1DSettings = request.settings
    kernel = request.model.kernel
    if "paper" in settings.bounds and kernel != "squared_exponential":
        raise UserError(
            f"model.kernel={kernel}: the paper's bound has the squared exponential only\n"
            "use model=se, or bounds=[rkhs_taylor]",
            key="model",
        )
    return [
        Task(
            experiment=request.experiment,
            label=f"{options.title}  {BOUNDS[bound]}",
            axes={"method": name, "bound": bound},
            params={
                "kind": "bounds_1d",
                "method": options.params,
                "kernel": kernel,
                "seed": derived_seed(request.seed, "bounds_1d"),
                **{key: value for key, value in asdict(settings).items() if key != "bounds"},
                "bound": bound,
            },
            version=options.method.version + SEARCH,
            cost=0.2,
            budget_seconds=request.budget_seconds,
        )
        for name, options in request.methods.items()
        for bound in settings.bounds
    ]
