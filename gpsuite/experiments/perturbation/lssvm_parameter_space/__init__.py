"""perturbation/lssvm_parameter_space: regions and ellipsoids of the linear LS-SVM (Csáji and Kis, Fig. 2)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.perturbation.lssvm_parameter_space.plan import plan
from gpsuite.experiments.perturbation.lssvm_parameter_space.run import run
from gpsuite.experiments.perturbation.lssvm_parameter_space.settings import ParameterSpaceSettings
from gpsuite.experiments.perturbation.lssvm_parameter_space.summary import summarise

EXPERIMENTS.register("perturbation/lssvm_parameter_space")(
    Experiment(ParameterSpaceSettings, plan, run, summarise, parts=("draws", "segments", "q_values"))
)
