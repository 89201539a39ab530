"""robustness/bounds_1d: bounding functions over an interval and what one split does (Blaas et al. 2020, Fig. 1)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.robustness.bounds_1d.plan import plan
from gpsuite.experiments.robustness.bounds_1d.run import run
from gpsuite.experiments.robustness.bounds_1d.settings import Bounds1DSettings
from gpsuite.experiments.robustness.bounds_1d.summary import summarise

EXPERIMENTS.register("robustness/bounds_1d")(
    Experiment(Bounds1DSettings, plan, run, summarise, builders=("gpc",), parts=("bounds", "levels"))
)
