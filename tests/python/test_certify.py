"""What `gpsuite.certify` takes, returns and refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Matern, RationalQuadratic, WhiteKernel
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, RobustScaler, StandardScaler
from sklearn.svm import SVC

import gpsuite
from gpsuite.commands import verify
from gpsuite.errors import UserError
from gpsuite.models.given.from_sklearn import LINK_ERROR, from_sklearn
from gpsuite.models.given.kernels import sklearn_kernel
from gpsuite.python.inputs import inputs_of, unwrapped

mpl.use("Agg")
SECONDS = 5.0


def table(rows: int = 40) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.uniform(20, 70, rows),
            "dose": rng.uniform(0, 1e-3, rows),
            "place": rng.choice(["a", "b", "c"], rows),
        }
    )
    risk = (frame["age"] - 45) / 15 + 2e3 * frame["dose"] + (frame["place"] == "a") - 1.0
    return frame, (risk > 0).map({True: "ill", False: "well"}).to_numpy()


@pytest.fixture(scope="module")
def mixed() -> Pipeline:
    frame, y = table()
    columns = ColumnTransformer([("scaled", StandardScaler(), ["dose", "age"]), ("hot", OneHotEncoder(), ["place"])])
    model = GaussianProcessClassifier(4.0 * RBF(1.5), optimizer=None)
    return make_pipeline(columns, model).fit(frame, y)


@pytest.fixture(scope="module")
def plain() -> GaussianProcessClassifier:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    return GaussianProcessClassifier(4.0 * Matern(1.5, nu=2.5), optimizer=None).fit(X, X[:, 0] > 0)


def test_import_is_quick_and_light() -> None:
    code = (
        "import time; start = time.process_time(); import gpsuite; took = time.process_time() - start; import sys\n"
        "heavy = ('numpy', 'scipy', 'pandas', 'sklearn', 'tensorflow', 'gpflow', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules], {'certify', 'load'} <= set(dir(gpsuite)))\nprint(took)"
    )
    took = []
    for _ in range(3):  # the quickest of a few: other programs may be busy
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        names, seconds = ended.stdout.splitlines()
        assert names == "[] True"
        took.append(float(seconds))
    assert min(took) <= 0.1


def test_what_is_not_offered_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'certfy'\. Did you mean 'certify'"):
        _ = gpsuite.certfy


def test_region_is_in_the_users_units_and_encoded_columns_stay(mixed: Pipeline) -> None:
    frame, _ = table()
    row = frame.iloc[[3]]
    found = gpsuite.certify(mixed, row, within={"age": 30.0, "dose": 5e-4}, seconds=SECONDS)
    assert found.verdict == "unsafe"
    other = found.counterexample
    assert list(other.index) == ["age", "dose", "place"] and other["place"] == row["place"].iloc[0]
    assert abs(other["age"] - row["age"].iloc[0]) < 30.0 + 1e-12 and abs(other["dose"] - row["dose"].iloc[0]) < 5.001e-4
    predicted = mixed.predict(pd.DataFrame([other]))[0]
    assert predicted == found.counterexample_prediction != found.prediction == mixed.predict(row)[0]
    narrow = gpsuite.certify(mixed, row, within={"age": 1e-3}, seconds=SECONDS)
    assert narrow.verdict == "safe" and narrow.range[0] <= narrow.value <= narrow.range[1]
    share = mixed.predict_proba(row)[0, list(mixed.classes_).index(narrow.prediction)]
    assert narrow.range[0] <= share <= narrow.range[1]


def test_series_arrays_and_tables_give_the_same(mixed: Pipeline) -> None:
    frame, _ = table()
    ways = [frame.iloc[5], frame.iloc[[5]], frame.iloc[5][["place", "dose", "age"]], frame.iloc[5].to_list()]
    found = [gpsuite.certify(mixed, way, within={"age": 2.0}, boxes=40) for way in ways]
    assert len({each.range for each in found}) == 1
    box = gpsuite.certify(
        mixed, ways[0], box=({"age": frame["age"].iloc[5] - 2.0}, {"age": frame["age"].iloc[5] + 2.0}), boxes=40
    )
    assert box.range == found[0].range
    many = gpsuite.certify(mixed, frame.iloc[4:7], within={"age": 2.0}, boxes=40)
    assert len(many) == 3 and many[1].range == found[0].range and len(many[:2]) == 2
    shown = many.to_frame()
    assert list(shown["verdict"]) == [row.verdict for row in many]
    assert repr(many).startswith("<3 rows: ")


@pytest.mark.parametrize("scaler", [StandardScaler(), MinMaxScaler((-1, 2)), RobustScaler()])
def test_scalers_are_followed_to_the_users_columns(scaler: Any) -> None:
    X = np.random.default_rng(2).normal(1e3, 50.0, (20, 3))
    fitted = make_pipeline(scaler, MinMaxScaler(), GaussianProcessRegressor(optimizer=None)).fit(X, X[:, 0])
    model, steps = unwrapped(fitted)
    inputs = inputs_of(steps, model, 3)
    assert (X - inputs.offset) / inputs.scale == pytest.approx(fitted[:-1].transform(X))


def test_a_balls_radius_is_measured_in_the_users_units() -> None:
    X = np.random.default_rng(3).normal(1.0, 30.0, (30, 2))
    model = make_pipeline(StandardScaler(), GaussianProcessClassifier(4.0 * RBF(), optimizer=None)).fit(X, X[:, 0] > 0)
    found = {
        norm: gpsuite.certify(model, X[0], radius=9.0, norm=norm, seconds=SECONDS) for norm in ("l1", "l2", "linf")
    }
    least = [found[norm].attained[0] for norm in ("linf", "l2", "l1")]  # the smaller the region, the larger
    assert least[0] <= least[1] + 1e-3 <= least[2] + 2e-3 and least[0] < least[2] - 0.01


def test_result_reads_at_a_glance(plain: GaussianProcessClassifier) -> None:
    found = gpsuite.certify(plain, [1.0, 0.2], radius=0.2)
    assert len(repr(found)) < 100 and "\n" not in repr(found) and str(found.prediction) in repr(found)
    assert found.gap <= 1e-3 + 2 * LINK_ERROR and found.seconds > 0.0 and found.proved
    assert list(found.to_frame()["verdict"]) == [found.verdict]
    axes = found.plot()
    assert axes is found.plot(axes)
    with pytest.raises(FrozenInstanceError):
        found.verdict = "safe"


def test_budget_ends_a_search_with_a_valid_range(plain: GaussianProcessClassifier) -> None:
    few = gpsuite.certify(plain, [0.1, 0.2], radius=2.0, boxes=1)
    many = gpsuite.certify(plain, [0.1, 0.2], radius=2.0)
    assert few.range[0] <= many.range[0] <= many.range[1] <= few.range[1]
    assert few.verdict in ("unsafe", "not decided") and few.boxes <= 8


def test_verify_accepts_the_certificate(mixed: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame, _ = table()
    found = gpsuite.certify(mixed, frame.iloc[5], within={"age": 2.0}, seconds=SECONDS)
    path = found.certificate.save(tmp_path / "point")
    assert verify.main([str(path)]) == 0
    assert "confirmed" in capsys.readouterr().out


def test_verify_accepts_a_regressions_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(4).normal(size=(20, 2))
    kernel = ConstantKernel(2.0) * RBF(1.0) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(X, 100.0 + 5.0 * X[:, 0])
    found = gpsuite.certify(model, X[0], radius=0.1)
    assert found.verdict == "range" and found.range[0] <= model.predict(X[:1])[0] <= found.range[1]
    assert found.value == pytest.approx(model.predict(X[:1])[0])
    assert verify.main([str(found.certificate.save(tmp_path / "mean"))]) == 0
    said = capsys.readouterr().out
    assert "(b) the stored posterior is the exact Gaussian posterior of the stored rows and targets\tconfirmed" in said
    assert "not checked: the certificate states no dataset. The names and units below are as stated" in said
    ends = [re.search(rf"is {side} ([0-9.]+);.*\(the target's units\)", said) for side in ("below", "above")]
    low, high = (float(end[1]) for end in ends if end)
    assert [low, high] == pytest.approx(list(found.range), abs=0.05)


def test_noise_that_differs_by_row_has_no_certificate_format() -> None:
    X = np.random.default_rng(4).normal(size=(20, 2))
    model = GaussianProcessRegressor(2.0 * RBF(1.0), alpha=np.linspace(0.1, 0.5, 20), optimizer=None).fit(X, X[:, 0])
    with pytest.raises(UserError, match="noise that differs from row to row"):
        _ = gpsuite.certify(model, X[0], radius=0.1).certificate


def test_a_nearly_noiseless_regression_states_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(4).uniform(0.0, 3.0, (30, 1))
    model = GaussianProcessRegressor(RBF(1.0), optimizer=None).fit(X, 7.0 + np.sin(X[:, 0]))
    found = gpsuite.certify(model, X[0], radius=0.01)
    assert found.certificate.content.origin is not None
    assert verify.main([str(found.certificate.save(tmp_path / "mean"))]) == 0
    assert "too ill-conditioned to tell" in capsys.readouterr().out


def test_a_model_of_a_table_does_not_warn_of_names(recwarn: pytest.WarningsRecorder) -> None:
    X = pd.DataFrame(np.random.default_rng(4).normal(size=(20, 2)), columns=["a", "b"])
    model = GaussianProcessRegressor(2.0 * RBF(1.0), alpha=0.1, optimizer=None).fit(X, X["a"])
    gpsuite.certify(model, X.iloc[0], within={"a": 0.1})
    assert not [each for each in recwarn if "feature names" in str(each.message)]


def test_several_classes_have_no_certificate_format() -> None:
    X = np.random.default_rng(5).normal(size=(30, 2))
    model = GaussianProcessClassifier(4.0 * RBF(1.0), optimizer=None).fit(X, np.digitize(X[:, 0], (-0.5, 0.5)))
    found = gpsuite.certify(model, X[0], radius=0.01, seconds=SECONDS)
    assert found.verdict == "safe" and found.prediction == model.predict(X[:1])[0]
    with pytest.raises(UserError, match="no certificate format for one-against-rest classifiers"):
        _ = found.certificate


def test_link_error_is_that_of_scikit_learns_five_error_functions() -> None:
    from scipy.special import erf, expit
    from sklearn.gaussian_process._gpc import COEFS, LAMBDAS

    f = np.linspace(-60.0, 60.0, 1_200_001)
    theirs = sum(c * 0.5 * (1.0 + erf(each * f)) for c, each in zip(COEFS.ravel(), LAMBDAS.ravel(), strict=True))
    # between points 1e-4 apart neither moves by more than 1e-4 of its slope; both slopes are below 1/2
    assert 0.99 * LINK_ERROR < np.abs(theirs - expit(f)).max() < LINK_ERROR - 1e-7


def test_kernel_is_written_out() -> None:
    kernel = ConstantKernel(2.0) * (RBF([1.0, 2.0]) * ConstantKernel(3.0) + WhiteKernel(0.5)) + WhiteKernel(0.25)
    found, columns = sklearn_kernel(kernel, 2)
    assert (found.kernel, found.variance, found.white) == ("squared_exponential", 6.0, 1.25)
    assert found.lengthscales.tolist() == [1.0, 2.0] and columns.tolist() == [0, 1]
    silent, _ = sklearn_kernel(RBF() + Matern(2.0, nu=1.5) + WhiteKernel(0.0), 2)
    assert (str(silent.kernel), silent.white) == ("squared_exponential + matern32", 0.0)
    with pytest.raises(UserError, match=r"kernel Product: variance 0\.0: must be positive"):
        sklearn_kernel(ConstantKernel(0.0) * RBF(), 2)


def test_a_scaled_sum_of_kernels_predicts_as_the_pipeline() -> None:
    X = np.random.default_rng(7).normal([5.0, -300.0], [0.1, 40.0], (25, 2))
    kernel = RBF([1.0, 2.0]) * Matern(1.5, nu=1.5) + ConstantKernel(0.5) * Matern([2.0, 0.7], nu=2.5)
    model = GaussianProcessRegressor(kernel, alpha=0.05, optimizer=None)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, np.sin(X[:, 0] * 9.0) + X[:, 1] / 50.0)
    inner, steps = unwrapped(pipeline)
    inputs = inputs_of(steps, inner, 2)
    scaled = from_sklearn(inner).in_units(inputs.scale, inputs.offset).posterior
    near = np.random.default_rng(8).normal([5.0, -300.0], [0.2, 60.0], (50, 2))
    mean, variance = scaled.latent(near)
    theirs = pipeline.predict(near, return_std=True)
    assert mean == pytest.approx(theirs[0], abs=1e-10) and np.sqrt(variance) == pytest.approx(theirs[1], abs=1e-8)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({}, "give one of radius"),
    ({"radius": 0.1, "within": {0: 1.0}}, "give one of radius"),
    ({"radius": -1.0}, "radius: -1.0 is not a number from 0 to 1e+100"),
    ({"radius": float("nan")}, "radius: nan is not a number"),
    ({"radius": 10**400}, "radius: 1000"),
    ({"box": ([90.0, 9.0, None], [1.0, 0.0, None])}, "box: the lower end of column 'age' is above the upper one"),
    ({"radius": 0.1, "norm": "l3"}, "norm='l3': must be one of linf, l1, l2"),
    ({"within": {"ages": 1.0}}, "there is no column 'ages'; columns: age, dose, place"),
    ({"within": {"place": 1.0}}, "column 'place' is not a number to the model and stays as it is"),
    ({"within": {"age": "much"}}, "within: age: 'much' is not a number from 0 to 1e+100"),
    ({"box": ({"age": 1.0}, {"age": 2.0})}, "box: column 'age' of x is"),
    ({"box": ([1.0], [2.0])}, "box: 3 ends are needed on each side, got 1"),
    ({"box": {"age": (30, 40)}}, "box: two ends are needed, such as box=({'age': 30}, {'age': 40})"),
    ({"radius": 0.1, "seconds": 0}, "seconds=0: must be a number above 0"),
]


@pytest.mark.parametrize(("asked", "said"), WRONG, ids=[said[:30] for _, said in WRONG])
def test_a_wrong_region_is_one_sentence(asked: dict[str, Any], said: str, mixed: Pipeline) -> None:
    with pytest.raises(UserError) as caught:
        gpsuite.certify(mixed, table()[0].iloc[0], **asked)
    assert str(caught.value).startswith(said) and "\n" not in str(caught.value)


def test_wrong_inputs_are_one_sentence(mixed: Pipeline, plain: GaussianProcessClassifier) -> None:
    frame = table()[0]
    cases = [
        (mixed, frame.iloc[0].drop("dose"), "x: the table has no column 'dose'. The model takes age, dose, place"),
        (mixed, pd.concat([frame, frame[["age"]]], axis=1), "x: more than one column is called 'age'"),
        (mixed, frame.assign(age=np.nan).iloc[0], "x: column 'age' is nan, a finite number is needed"),
        (plain, [1.0], r"x: 2 columns are needed, got an array of shape \(1,\)"),
        (plain, np.zeros((0, 2)), "x: 2 columns are needed, got an array of shape"),
        (plain, frame, "x: 2 columns are needed, the table has 3"),
        (plain, [np.inf, 0.0], "x: column 0 is"),
    ]
    for model, x, said in cases:
        with pytest.raises(UserError, match=said):
            gpsuite.certify(model, x, radius=0.1)


def test_an_unknown_model_is_one_sentence_that_names_it() -> None:
    X = np.random.default_rng(6).normal(size=(20, 2))
    y = X[:, 0] > 0
    cases = [
        (GaussianProcessClassifier(), "model GaussianProcessClassifier is not fitted"),
        (GaussianProcessRegressor(), "model GaussianProcessRegressor is not fitted"),
        (make_pipeline(StandardScaler(), GaussianProcessClassifier()), "is not fitted"),
        (SVC().fit(X, y), "model SVC: certify takes scikit-learn's GaussianProcessClassifier"),
        (object(), "model object: certify takes models of GPflow"),
        (GaussianProcessClassifier(RationalQuadratic(), optimizer=None).fit(X, y), "kernel RationalQuadratic: certify"),
        (GaussianProcessClassifier(RBF() ** 2, optimizer=None).fit(X, y), "kernel Exponentiation: certify knows"),
        (GaussianProcessClassifier(RBF() + DotProduct(), optimizer=None).fit(X, y), "kernel DotProduct: certify knows"),
        (GaussianProcessClassifier(Matern(nu=0.5), optimizer=None).fit(X, y), r"kernel Matern\(nu=0.5\)"),
        (make_pipeline(PCA(), GaussianProcessClassifier(optimizer=None)).fit(X, y), "step PCA: certify follows"),
        (GaussianProcessRegressor(optimizer=None).fit(X, X), "2 targets: certify takes a regression with one"),
    ]  # fmt: skip
    for model, said in cases:
        with pytest.raises(UserError, match=said) as caught:
            gpsuite.certify(model, X[0], radius=0.1)
        assert "\n" not in str(caught.value)
