"""league: which guarantee for which table, every one on the same public tables, judged on rows that none has seen."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.league.intervals import INTERVALS
from gpsuite.experiments.league.plan import ClassesTask, IntervalsTask, LeagueSettings, NumbersTask, TemperedTask, plan
from gpsuite.experiments.league.run import run_certified, run_classes, run_intervals, run_numbers, run_tempered
from gpsuite.experiments.league.summary import summarise
from gpsuite.experiments.pac_bayes.fits import AGREEMENT
from gpsuite.experiments.pac_bayes.methods import RISK_BOUND
from gpsuite.experiments.pac_bayes.tasks import FitTask
from gpsuite.experiments.robustness.tasks import GAUSSIAN_LATENT
from gpsuite.experiments.wasserstein.methods import NUMBERS

EXPERIMENTS.register("league")(
    Experiment(
        LeagueSettings,
        plan,
        {
            NumbersTask: run_numbers,
            ClassesTask: run_classes,
            FitTask: run_certified,
            IntervalsTask: run_intervals,
            TemperedTask: run_tempered,
        },
        summarise,
        method_traits=(RISK_BOUND, GAUSSIAN_LATENT, NUMBERS, INTERVALS),
        any_trait=True,
        methodless=("regression", "classification"),
        dataset_tasks=("regression", "classification"),
        several_datasets=True,
        model_keys=(),
        parts=("datasets", "sizes", "seeds"),
        agreement=AGREEMENT,
    )
)
