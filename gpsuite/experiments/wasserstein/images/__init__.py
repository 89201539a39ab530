"""wasserstein/digits, mnist and fashion_mnist: classification of images and uncertainty about unseen ones."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment
from gpsuite.experiments.wasserstein.images import plan, run, settings, summary
from gpsuite.experiments.wasserstein.methods import LABELS

# Training by minibatches magnifies rounding: another processor's last bits move scores in their third digit, and where
# they decide when to stop (GWI with softmax on MNIST: after 6 epochs with oneDNN, after 18 without), beyond this.
AGREEMENT = 0.05

for name in ("digits", "mnist", "fashion_mnist"):
    EXPERIMENTS.register(f"wasserstein/{name}")(
        Experiment(
            settings.ImageSettings,
            plan.plan,
            run.run,
            summary.summarise,
            method_traits=(LABELS,),
            dataset_tasks=("classification",),
            several_datasets=name != "digits",
            parts=("methods", "repetitions"),
            agreement=AGREEMENT,
        )
    )
