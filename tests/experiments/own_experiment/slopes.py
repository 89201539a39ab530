"""An experiment that nobody shipped, registered as ours are."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS
from tests.plugin_example.gpsuite_example.slopes import SLOPES

EXPERIMENTS.register("perturbation/slopes")(SLOPES)
