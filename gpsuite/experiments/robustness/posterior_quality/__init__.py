"""robustness/posterior_quality: Laplace's and EP's distance to HMC, and whether it goes with robustness (Sec. 6.2)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.posterior_quality import plan, run, settings, summary
from gpsuite.experiments.robustness.shared.paper_protocol import STUDIES
from gpsuite.experiments.robustness.shared.probability_change import DeltaTask, run_delta
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

EXPERIMENTS.register("robustness/posterior_quality")(
    Experiment(
        settings.PosteriorQualitySettings,
        plan.plan,
        {DeltaTask: run_delta, plan.HMCTask: run.run_hmc_distance},
        summary.summarise,
        method_traits=(CLASSIFIER,),
        dataset_tasks=("classification",),
        several_datasets=True,
        only_datasets=tuple(STUDIES),
        parts=("points", "draws", "gammas", "hmc_trained_by"),
        agreement=AGREEMENT,
        published=every_array,
    )
)
