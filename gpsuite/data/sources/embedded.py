"""Data without files: those of scikit-learn, and the papers' generated data, fixed by the hash of their arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.data.dataset import Dataset, SafetyColumn
from gpsuite.data.generators.classes import Classes, lssvm_classes, standardised_classes, synthetic2d
from gpsuite.data.generators.gp_samples import Sizes, gp_samples
from gpsuite.data.generators.matlab_streams import MatlabStream
from gpsuite.data.generators.regression import kernel_regression
from gpsuite.data.generators.sin_sigmoid import Form, SafeSample, exploration_grid, initial_inputs, sin_sigmoid
from gpsuite.data.sources import LOADERS, Reader, make_dataset, train_then_test
from gpsuite.data.spec import DatasetSpec, array_hash
from gpsuite.errors import DataError, unknown_name
from gpsuite.seeds import stream


@LOADERS.register("diabetes")
def load_diabetes(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 442 x 10 unscaled inputs. The target is a score of disease progression after one year, without unit."""
    from sklearn import datasets

    bunch = datasets.load_diabetes(scaled=False)
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "progression")


@LOADERS.register("breast_cancer")
def load_breast_cancer(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 569 x 30 inputs. Labels 0 malignant, 1 benign."""
    from sklearn import datasets

    bunch = datasets.load_breast_cancer()
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "diagnosis", bunch.target_names)


@LOADERS.register("digits")
def load_digits(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 1797 x 64 inputs, the pixels of 8 x 8 images row by row, 0 to 16. Labels are the digits."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "digit", bunch.target_names)


@LOADERS.register("iris")
def load_iris(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 150 x 4 lengths and widths of iris flowers in cm. Labels: 0 setosa, 1 versicolor, 2 virginica."""
    from sklearn import datasets

    bunch = datasets.load_iris()
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "species", bunch.target_names)


@LOADERS.register("wine")
def load_wine(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return 178 x 13 chemical measurements of wines. Labels are the three cultivars."""
    from sklearn import datasets

    bunch = datasets.load_wine()
    return _dataset(spec, bunch.data, bunch.target, bunch.feature_names, "cultivar", bunch.target_names)


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


SEED = 0
DECIMALS = 6
# a Cholesky factor of a nearly singular matrix magnifies the last bits
DECIMALS_GP = 4
DECIMALS_AUTHORS = 9  # decimals of draws that the authors published
SIN_SIGMOID_FORMS: dict[str, Form] = {"paper": "paper", "code": "code"}
GP_KERNELS = {"code": "squared_exponential", "paper": "squared_exponential_paper"}


@LOADERS.register("synthetic2d")
def load_synthetic2d(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the standardised Synthetic2D points. Class 1 of the paper is label 1, class 2 is label -1.

    The variant `authors` are the draws of the paper's code, MATLAB's stream 1, with its training and test rows.
    """
    if spec.variant != "authors":
        return _classes(spec, synthetic2d(_rng(spec), spec.rows))
    draws = MatlabStream(1)
    points = np.vstack([draws.randn(spec.rows // 2, 2), draws.randn(spec.rows // 2, 2)])
    order, test = draws.randperm(spec.rows), spec.test_rows or 0
    return _classes(spec, standardised_classes(points), DECIMALS_AUTHORS, (order[:-test], order[-test:]))


@LOADERS.register("lssvm_classes")
def load_lssvm_classes(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return two Laplace classes in the plane, labels -1 and 1."""
    return _classes(spec, lssvm_classes(_rng(spec), spec.rows))


@LOADERS.register("kernel_regression")
def load_kernel_regression(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return noisy values of sin 2x with Laplace noise of scale 0.3."""
    sample = kernel_regression(_rng(spec), spec.rows)
    return _checked(spec, sample.X, sample.y[:, None], ("y",))


@LOADERS.register("sin_sigmoid")
def load_sin_sigmoid(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the pool of the toy problem: both outputs, and last the safety value z, safe above 0.7.

    Raises:
        UserError: if the spec's variant is not `paper` or `code`.
    """
    if spec.variant not in SIN_SIGMOID_FORMS:
        raise unknown_name("variant", str(spec.variant), SIN_SIGMOID_FORMS)
    sample = sin_sigmoid(_rng(spec), exploration_grid(spec.rows), form=SIN_SIGMOID_FORMS[spec.variant])
    return _safe(spec, sample, DECIMALS)


@LOADERS.register("sin_sigmoid_measured")
def load_sin_sigmoid_measured(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return the start of the toy problem: rows with one output each, alternating, and the exploration grid."""
    rng = _rng(spec)
    sample = sin_sigmoid(rng, np.round(initial_inputs(rng, spec.rows), DECIMALS))
    one_each = np.arange(spec.rows)[:, None] % spec.n_targets == np.arange(spec.n_targets)
    Y = np.round(np.where(one_each, sample.Y, np.nan), DECIMALS)
    z, grid = np.round(sample.z, DECIMALS), np.round(exploration_grid(), DECIMALS)
    _check(spec, sample.X, Y, z, grid)
    safety = SafetyColumn("z", z, sample.threshold, "above")
    return make_dataset(spec, sample.X, Y, ("x",), spec.target_names, grid=grid, safety=safety)


@LOADERS.register("gp_samples")
def load_gp_samples(spec: DatasetSpec, read: Reader) -> Dataset:
    """Return one small draw of a multi-output process, and last the safety value z. Test rows come last.

    Safe is above the 20 % quantile of z over all rows.

    Raises:
        UserError: if the spec's variant is not `paper` or `code`.
    """
    if spec.variant not in GP_KERNELS:
        raise unknown_name("variant", str(spec.variant), GP_KERNELS)
    n_test = spec.test_rows or 0
    samples = gp_samples(
        _rng(spec),
        Sizes(1, spec.rows - n_test, n_test, spec.n_inputs, spec.n_targets - 1),
        kernel=GP_KERNELS[spec.variant],
    )
    data = samples.data
    first = SafeSample(data.X, data.F[0], data.Y[0], data.h[0], data.z[0], data.threshold)
    return _safe(spec, first, DECIMALS_GP)


def _rng(spec: DatasetSpec) -> np.random.Generator:
    # by the loader's name: variants differ only in the formula, not in the random numbers
    return stream(SEED, "generated", spec.loader)


def _classes(
    spec: DatasetSpec, sample: Classes, decimals: int = DECIMALS, split: tuple[IntArray, IntArray] | None = None
) -> Dataset:
    numbered = (sample.y[:, None] + 1.0) / 2.0
    return _checked(spec, sample.X, numbered, ("label",), label_names=("-1", "1"), decimals=decimals, split=split)


def _safe(spec: DatasetSpec, sample: SafeSample, decimals: int) -> Dataset:
    targets = np.column_stack([sample.Y, sample.z])
    return _checked(spec, sample.X, targets, spec.target_names, decimals=decimals)


def _checked(
    spec: DatasetSpec,
    inputs: FloatArray,
    targets: FloatArray,
    target_names: Sequence[str],
    *,
    label_names: Sequence[str] | None = None,
    decimals: int = DECIMALS,
    split: tuple[IntArray, IntArray] | None = None,
) -> Dataset:
    X, y = np.round(inputs, decimals), np.round(targets, decimals)
    _check(spec, X, y)
    names = ("x",) if X.shape[1] == 1 else tuple(f"x{column + 1}" for column in range(X.shape[1]))
    if split is None and spec.test_rows is not None:
        split = train_then_test(len(X) - spec.test_rows, len(X))
    return make_dataset(spec, X, y, names, target_names, fixed_split=split, label_names=label_names)


def _check(spec: DatasetSpec, *arrays: FloatArray) -> None:
    found = array_hash(*arrays)
    if found != spec.content_sha256:
        raise DataError(
            f"dataset={spec.name}: NumPy {np.__version__} generates other numbers than expected\n"
            f"expected sha256 {spec.content_sha256}\n"
            f"found    sha256 {found}\n"
            "install the pinned version of NumPy: make setup",
            key="dataset",
        )
