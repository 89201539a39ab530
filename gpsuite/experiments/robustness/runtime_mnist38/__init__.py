"""robustness/runtime_mnist38: seconds for the largest class probability, by dimension and tolerance (Fig. 7).

Blaas et al. 2020, App. E. Our bound at every point, the paper's at some.
"""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.robustness.runtime_mnist38.plan import plan
from gpsuite.experiments.robustness.runtime_mnist38.run import run_runtime
from gpsuite.experiments.robustness.runtime_mnist38.settings import RuntimeSettings
from gpsuite.experiments.robustness.runtime_mnist38.summary import summarise
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENTS.register("robustness/runtime_mnist38")(
    Experiment(
        RuntimeSettings,
        plan,
        run_runtime,
        summarise,
        builders=("gpc",),
        parts=("points", "reference_points", "dimensions", "tolerances", "gammas"),
        agreement=AGREEMENT,
    )
)
