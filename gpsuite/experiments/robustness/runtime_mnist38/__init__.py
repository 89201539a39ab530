"""robustness/runtime_mnist38: seconds for the largest class probability, by dimension and tolerance (Fig. 7).

Blaas et al. 2020, App. E. Our bound at every point, the paper's at some.
"""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.runtime_mnist38 import plan, run, settings, summary
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENTS.register("robustness/runtime_mnist38")(
    Experiment(
        settings.RuntimeSettings,
        plan.plan,
        run.run_runtime,
        summary.summarise,
        method_traits=(CLASSIFIER,),
        parts=("points", "reference_points", "dimensions", "tolerances", "gammas"),
        agreement=AGREEMENT,
        published=every_array,
    )
)
