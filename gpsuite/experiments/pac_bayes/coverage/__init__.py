"""pac_bayes/coverage: how often the bound holds on simulated data (Theorem 1 and Eq. 5 of Reeb et al. 2018)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.pac_bayes.coverage.plan import plan
from gpsuite.experiments.pac_bayes.coverage.run import run
from gpsuite.experiments.pac_bayes.coverage.settings import CoverageSettings
from gpsuite.experiments.pac_bayes.coverage.summary import summarise

EXPERIMENTS.register("pac_bayes/coverage")(
    Experiment(CoverageSettings, plan, run, summarise, builders=("pac_gp",))
)
