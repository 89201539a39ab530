"""perturbation/band_comparison: width against coverage of bands for a function and intervals for new responses."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.perturbation.band_comparison.plan import plan
from gpsuite.experiments.perturbation.band_comparison.run import run
from gpsuite.experiments.perturbation.band_comparison.settings import BandSettings
from gpsuite.experiments.perturbation.band_comparison.summary import summarise

EXPERIMENTS.register("perturbation/band_comparison")(
    Experiment(BandSettings, plan, run, summarise, parts=("data_sets", "bands", "noises"))
)
