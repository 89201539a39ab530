"""robustness/explain_mnist358: what each pixel does to the class of an image (Blaas et al. 2020, Fig. 5)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, only_arrays
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.pixel_maps import integrals, plan, run, settings, summary

# LIME's slopes are 1e-4 of a probability a pixel: the sixth digit of the probabilities is their second
AGREEMENT = 0.02

EXPERIMENTS.register("robustness/explain_mnist358")(
    Experiment(
        settings.PixelMapSettings,
        plan.plan,
        {plan.PixelMapTask: run.run, plan.IntegralTask: integrals.run_integrals},
        summary.summarise,
        method_traits=(CLASSIFIER,),
        published=only_arrays("delta", "delta_low", "delta_high", "lime", "patch"),
        agreement=AGREEMENT,
    )
)
