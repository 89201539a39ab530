"""league: which guarantee for which table, every one on the same public tables, judged on rows that none has seen."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.league.plan import ClassesTask, LeagueSettings, NumbersTask, plan
from gpsuite.experiments.league.run import run_certified, run_classes, run_numbers
from gpsuite.experiments.league.summary import summarise
from gpsuite.experiments.pac_bayes.fits import AGREEMENT
from gpsuite.experiments.pac_bayes.methods import RISK_BOUND
from gpsuite.experiments.pac_bayes.tasks import FitTask

EXPERIMENTS.register("league")(
    Experiment(
        LeagueSettings,
        plan,
        {NumbersTask: run_numbers, ClassesTask: run_classes, FitTask: run_certified},
        summarise,
        method_traits=(RISK_BOUND,),
        methodless=("classification",),
        dataset_tasks=("regression", "classification"),
        several_datasets=True,
        model_keys=(),
        parts=("datasets", "sizes", "seeds"),
        agreement=AGREEMENT,
    )
)
