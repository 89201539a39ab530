"""perturbation/coverage: exactness for all models, groups and noises, and what breaks it (Csáji and Kis 2019)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.perturbation.coverage.plan import plan
from gpsuite.experiments.perturbation.coverage.run import run
from gpsuite.experiments.perturbation.coverage.settings import CoverageSettings
from gpsuite.experiments.perturbation.coverage.summary import summarise

EXPERIMENTS.register("perturbation/coverage")(
    Experiment(
        CoverageSettings, plan, run, summarise, parts=("repetitions", "models", "noises", "groups", "breaks")
    )
)
