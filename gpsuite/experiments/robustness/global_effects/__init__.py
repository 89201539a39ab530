"""robustness/explain_synthetic2d, explain_spam: which way each input moves the class (Blaas et al. 2020, Fig. 6)."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, every_array
from gpsuite.experiments.robustness.global_effects import plan, run, settings, summary
from gpsuite.experiments.robustness.methods import CLASSIFIER
from gpsuite.experiments.robustness.shared.settings import AGREEMENT

for _name in ("explain_synthetic2d", "explain_spam"):
    EXPERIMENTS.register(f"robustness/{_name}")(
        Experiment(
            settings.GlobalEffectsSettings,
            plan.plan,
            run.run,
            summary.summarise,
            method_traits=(CLASSIFIER,),
            parts=("points", "draws"),
            agreement=AGREEMENT,
            published=every_array,
        )
    )
