"""The datasets that come with scikit-learn; their arrays are checked, because no file of ours fixes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpsuite.arrays import FloatArray
from gpsuite.data.dataset import Dataset
from gpsuite.data.hashing import array_hash
from gpsuite.data.sources import LOADERS, Reader, make_dataset
from gpsuite.data.spec import DatasetSpec
from gpsuite.errors import DataError


@LOADERS.register("diabetes")
def load_diabetes(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 442 x 10 unscaled inputs; target: a score of disease progression after one year, no unit."""
    from sklearn import datasets

    bunch = datasets.load_diabetes(scaled=False)
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "progression")


@LOADERS.register("breast_cancer")
def load_breast_cancer(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 569 x 30 inputs; labels 0 malignant, 1 benign."""
    from sklearn import datasets

    bunch = datasets.load_breast_cancer()
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "diagnosis", bunch.target_names)


@LOADERS.register("digits")
def load_digits(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 1797 x 64 inputs, the pixels of 8 x 8 images row by row, 0 to 16; labels are the digits."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "digit", bunch.target_names)


def _dataset(
    spec: DatasetSpec,
    inputs: FloatArray,
    target: FloatArray,
    input_names: Sequence[str],
    target_name: str,
    labels: Iterable[object] | None = None,
) -> Dataset:
    targets = np.asarray(target, dtype=np.float64).reshape(-1, 1)
    _check_arrays(spec, inputs, targets)
    return make_dataset(
        spec,
        inputs,
        targets,
        [str(name) for name in input_names],
        (target_name,),
        label_names=None if labels is None else [str(label) for label in labels],
    )


def _check_arrays(spec: DatasetSpec, inputs: FloatArray, targets: FloatArray) -> None:
    import sklearn

    found = array_hash(inputs, targets)
    if found != spec.content_sha256:
        raise DataError(
            f"dataset={spec.name}: scikit-learn {sklearn.__version__} holds other numbers than expected\n"
            f"expected sha256 {spec.content_sha256}\n"
            f"found    sha256 {found}\n"
            "install the pinned version of scikit-learn: make setup",
            key="dataset",
        )
