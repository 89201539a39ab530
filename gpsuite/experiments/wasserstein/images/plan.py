"""Tasks of the image experiments: one per method, repetition and share of noisy labels."""

from __future__ import annotations

from collections.abc import Iterator

from gpsuite.data.loading import PreparedDataset, load
from gpsuite.experiments.base import Request, Task, require
from gpsuite.experiments.wasserstein.images.rows import check_images, keeps_images
from gpsuite.experiments.wasserstein.images.settings import ImageSettings
from gpsuite.experiments.wasserstein.images.tasks import ImageTask, Outside
from gpsuite.experiments.wasserstein.methods import ClassifierMethod
from gpsuite.seeds import derived_seed

_SECONDS_PER_ROW = {"map": 0.3, "temperature": 0.3, "mc_dropout": 0.4, "ensemble": 1.5, "laplace": 0.5}
_KEPT_IMAGES = 1  # added to the method's version where images are kept; raised when others are
_WITHOUT_COPIES = 2  # added where rows have copies: none is trained on and validates
_CONVOLUTION = 3.5  # times the seconds of a dense network, forward and back


def plan(request: Request[ImageSettings]) -> list[Task[ImageTask]]:
    """Return one task per repetition, share of noisy labels and method."""
    settings = request.settings
    for name in settings.noise_methods:
        allowed = f"not a method of this run\nvalid: noise_methods=[], or any of {', '.join(request.methods)}"
        require(name in request.methods or len(settings.label_noise) == 1, "noise_methods", name, allowed)
    tasks = list(_tasks(request))
    data, *others = request.prepared
    check_images(
        data, others, list({(t.params.seed, t.params.label_noise): t.params for t in tasks}.values())
    )
    rows = round((1.0 - settings.test_share) * data.rows)
    settings.check_inducing(min(settings.train_rows or rows, rows))
    return tasks


def _tasks(request: Request[ImageSettings]) -> Iterator[Task[ImageTask]]:
    settings = request.settings
    data, *others = request.prepared
    outside = tuple(Outside(name=o.name, content=o.content_hash, prepared=o) for o in others)
    rows = min(settings.train_rows or data.rows, data.rows)
    seconds = _CONVOLUTION if settings.convolution else 1.0
    added = _added_version(data)
    for repetition in range(settings.repetitions):
        for noise in settings.label_noise:
            for name, options in request.methods.items():
                if noise > 0.0 and name not in settings.noise_methods:
                    continue
                assert isinstance(options, ClassifierMethod)
                yield request.task(
                    ImageTask(
                        method=options,
                        training=settings.work,
                        seed=derived_seed(request.seed, "images", repetition),
                        label_noise=noise,
                        test_share=settings.test_share,
                        train_rows=settings.train_rows,
                        test_rows=settings.test_rows,
                        outside_rows=settings.outside_rows,
                        convolution=settings.convolution,
                        epsilon=settings.epsilon,
                        dropout=settings.dropout,
                        members=settings.members,
                        draws=settings.draws,
                        bins=settings.bins,
                        shifts=tuple(settings.shifts),
                        outside=outside,
                    ),
                    label=f"{options.title}  repetition {repetition}"
                    + (f"  {100 * noise:g} % noisy labels" if noise else ""),
                    axes={"method": name, "label_noise": noise, "repetition": repetition},
                    version=options.method.version + added,
                    cost=2.0
                    + 1e-4 * rows * settings.epochs * seconds * _SECONDS_PER_ROW.get(options.classifier, 1.0),
                    dataset=data,
                )


def _added_version(data: PreparedDataset) -> int:
    """Return what is added to a method's version: of datasets of which more is kept, or other rows are trained on."""
    copies = data.spec["loader"] == "csv" and load(data).groups is not None
    return (_KEPT_IMAGES if keeps_images(data) else 0) + (_WITHOUT_COPIES if copies else 0)
