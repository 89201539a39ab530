"""perturbation/coverage: exactness for all models, groups and noises, and what breaks it (Csáji and Kis 2019)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.perturbation.coverage import plan, run, settings, summary

EXPERIMENTS.register("perturbation/coverage")(
    Experiment(
        settings.CoverageSettings,
        plan.plan,
        {plan.CoverageTask: run.run_coverage, plan.RefusalsTask: run.run_refusals},
        summary.summarise,
        parts=("repetitions", "models", "noises", "groups", "breaks"),
        model_keys=(),
        published=every_array,
    )
)
