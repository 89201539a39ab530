"""wasserstein/digits, mnist and fashion_mnist: classification of images and uncertainty about unseen ones."""

from __future__ import annotations

from gpsuite.experiments.base import EXPERIMENTS, Experiment, Task, every_array
from gpsuite.experiments.wasserstein.images import plan, run, settings, summary
from gpsuite.experiments.wasserstein.images.tasks import ImageTask
from gpsuite.experiments.wasserstein.methods import LABELS, NetworkClassifierMethod

# Entropies that tie but for rounding are ranked otherwise by another processor's last bits: AUPR moved by 2e-4.
AGREEMENT = 1e-3


def _trains_a_network(task: Task[ImageTask]) -> bool:
    """Say whether thousands of steps over a network's weights magnify last bits."""
    return isinstance(task.params.method, NetworkClassifierMethod)


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
            chaotic=_trains_a_network,
            model_keys=(),
            published=every_array,
        )
    )
