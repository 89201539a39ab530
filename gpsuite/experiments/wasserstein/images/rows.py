"""Rows of a repetition of the image experiments, and what must be refused before any work."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.loading import PreparedDataset, load
from gpsuite.data.splits import train_test_indices, without_copies
from gpsuite.errors import DataError
from gpsuite.experiments.wasserstein.images.tasks import ImageTask
from gpsuite.methods.wasserstein.rows import FewDifferentRowsError, TrainingRows, split_rows
from gpsuite.seeds import stream

ROWS_PER_CLASS = 50  # with more of them than that, a class of a shipped dataset is never missing


@dataclass(frozen=True, eq=False)
class Images:
    """Rows of one repetition, grey levels from 0 to 1.

    Attributes:
        X: training inputs, validation rows among them [N, D].
        y: their labels as the learner sees them [N].
        X_test: test inputs [N', D].
        y_test: their labels [N'].
        n_classes: C.
        side: height and width.
        largest: grey level that became 1.
        groups: equal for training rows that are copies of each other [N], or None.
    """

    X: FloatArray
    y: IntArray
    X_test: FloatArray
    y_test: IntArray
    n_classes: int
    side: int
    largest: float
    groups: IntArray | None


def read_images(data: Dataset, params: ImageTask) -> Images:
    """Choose, scale and, where asked, spoil the rows of a repetition."""
    rng = stream(params.seed, "rows")
    if data.fixed_split is not None:
        train, test = data.fixed_split
        train, test = rng.permutation(train), rng.permutation(test)
    else:
        train, test = train_test_indices(len(data.X), params.test_share, params.seed)
        train = without_copies(train, test, data.groups)
    train, test = train[: params.train_rows or None], test[: params.test_rows]
    side = int(np.sqrt(data.X.shape[1]))
    if side * side != data.X.shape[1]:
        raise ValueError(f"{data.X.shape[1]} inputs are no square image")
    y = data.y[:, 0].astype(np.int64)
    # values below 0 are no grey levels, but keep their order
    largest = float(np.abs(data.X[train]).max()) or 1.0
    noisy = with_noise(y[train], data.n_classes, params.label_noise, stream(params.seed, "labels"))
    groups = None if data.groups is None else data.groups[train]
    return Images(
        data.X[train] / largest, noisy, data.X[test] / largest, y[test], data.n_classes, side, largest, groups
    )


def with_noise(y: IntArray, n_classes: int, share: float, rng: np.random.Generator) -> IntArray:
    """Return labels of which a share, rounded, are replaced by another class, uniformly."""
    changed = rng.permutation(len(y))[: round(share * len(y))]
    noisy = y.copy()
    noisy[changed] = (y[changed] + rng.integers(1, n_classes, len(changed))) % n_classes
    return noisy


def learned_rows(images: Images, params: ImageTask) -> TrainingRows:
    """Return the repetition's training rows, validation rows split off."""
    share = params.training.validation_share
    return split_rows(images.X, images.y, share, stream(params.seed, "validation"), images.groups)


def keeps_images(data: PreparedDataset) -> bool:
    """Return whether records may hold some of a dataset's images: only where the data are embedded."""
    return bool(data.spec.get("embedded"))


def check_images(
    data: PreparedDataset, others: Iterable[PreparedDataset], tasks: Sequence[ImageTask]
) -> None:
    """Refuse images that are not square or of different sizes, and repetitions that never see a class.

    Only data whose description leaves it open, or few rows, are loaded.

    Args:
        data: what is learned.
        others: what is shown beside it.
        tasks: one for each repetition and share of noisy labels.

    Raises:
        DataError: naming the key.
    """
    pixels = _pixels(data)
    if math.isqrt(pixels) ** 2 != pixels:
        columns = "choose images of k x k pixels, one column a pixel, by dataset.inputs"
        advice = columns if data.name == "csv" else "choose a dataset of images: gpsuite list datasets"
        raise DataError(f"{data.name}: {pixels} inputs are no square image\n{advice}", key="dataset")
    for other in others:
        if _pixels(other) != pixels:
            raise DataError(
                f"datasets: {other.name} has {_pixels(other)} pixels, {data.name}, which is learned, {pixels}\n"
                "name datasets with images of one size",
                key="datasets",
            )
    n_classes = data.spec.get("n_classes")
    if n_classes is None or min(t.train_rows or data.rows for t in tasks) < ROWS_PER_CLASS * int(n_classes):
        loaded = load(data)
        for params in tasks:
            _check_classes(loaded, params)


def _check_classes(data: Dataset, params: ImageTask) -> None:
    try:
        learned = learned_rows(read_images(data, params), params)
    except FewDifferentRowsError as error:
        raise DataError(f"dataset={data.name}: {error}\nadd different rows", key="dataset") from error
    missing = np.setdiff1d(np.arange(data.n_classes), learned.y)
    if missing.size:
        more = "more rows (0 takes all), " if 0 < params.train_rows < len(data.X) else ""
        names = data.label_names or tuple(map(str, range(data.n_classes)))
        raise DataError(
            f"train_rows={params.train_rows}: none of the {len(learned.y)} training rows of a repetition is of class "
            f"{', '.join(names[label] for label in missing[:5])}\n"
            f"take {more}a smaller test_share, or leave rare classes out of the file",
            key="train_rows",
        )


def _pixels(data: PreparedDataset) -> int:
    return int(data.spec.get("n_inputs") or load(data).X.shape[1])
