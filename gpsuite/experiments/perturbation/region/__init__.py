"""perturbation/region: confidence regions and bands on any regression dataset, a user's CSV included."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.perturbation.region.plan import plan
from gpsuite.experiments.perturbation.region.run import run
from gpsuite.experiments.perturbation.region.settings import RegionSettings
from gpsuite.experiments.perturbation.region.summary import summarise

EXPERIMENTS.register("perturbation/region")(
    Experiment(RegionSettings, plan, run, summarise, dataset_tasks=("regression",))
)
