"""Methods that nobody shipped: a module with options and functions, and one YAML file, are all that each takes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import gpsuite
from gpsuite import cli
from gpsuite.arrays import FloatArray
from gpsuite.config import files
from gpsuite.data.catalogue import read_spec
from gpsuite.data.loading import load, prepare
from gpsuite.experiments.base import METHODS, MethodOptions
from gpsuite.experiments.league.intervals import INTERVALS, IntervalMethod, Intervals, OwnRows
from gpsuite.experiments.perturbation import coverage_models
from gpsuite.experiments.wasserstein.methods import LABELS
from gpsuite.experiments.wasserstein.methods import ClassifierMethod as ImageMethod
from gpsuite.methods.perturbation.quadratic import KernelRidge
from tests.plugin_example.gpsuite_example.methods import LEAST_SQUARES, SPREAD, LeastSquaresOptions, SpreadOptions

if TYPE_CHECKING:
    from gpsuite.methods.wasserstein.classifiers import ClassifierFit, FittedClassifier

EXAMPLE = Path(__file__).parents[1] / "plugin_example/gpsuite_example"
CENTRES_YAML = "builder: class_centres\ntitle: class centres\nreference: nobody\nsharpness: 0.1\n"


# options of this module: a worker that unpickles them imports it, and with it what is registered below
@dataclass(frozen=True, kw_only=True)
class OwnSpreadOptions(SpreadOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class OwnLeastSquaresOptions(LeastSquaresOptions):
    pass


METHODS.register("spread_gp")(replace(SPREAD, options=OwnSpreadOptions))
METHODS.register("least_squares")(replace(LEAST_SQUARES, options=OwnLeastSquaresOptions))


@dataclass(frozen=True, kw_only=True)
class ClassCentreOptions(MethodOptions):
    sharpness: float


def by_class_centres(options: ClassCentreOptions, fit: ClassifierFit) -> FittedClassifier:
    from gpsuite.methods.wasserstein.classifiers import FittedClassifier
    from gpsuite.methods.wasserstein.training import TrainingReport, TrainingState
    from gpsuite.models.random_elements.likelihoods import ClassPrediction

    rows = fit.rows
    centres = np.stack([rows.X[rows.y == label].mean(axis=0) for label in range(fit.n_classes)])

    def predict(X: FloatArray) -> ClassPrediction:
        weights = np.exp(-options.sharpness * ((X[:, None] - centres) ** 2).sum(axis=2))
        p = weights / weights.sum(axis=1, keepdims=True)
        return ClassPrediction(p, -(p * np.log(p)).sum(axis=1))

    state = TrainingState(1, (), (), (), (), learning_rate=0.0, batch=len(rows.X), scores=(0.0,))
    return FittedClassifier(predict, TrainingReport("done", "", state), centres)


CONSTANT_YAML = "builder: constant_interval\ntitle: constant interval\nreference: nobody\nwidth: 2.0\n"


@dataclass(frozen=True, kw_only=True)
class ConstantOptions(MethodOptions):
    width: float


def constant_intervals(options: ConstantOptions, own: OwnRows) -> Intervals:
    half = options.width * float(own.y.std()) / 2.0
    return lambda X: (np.full(len(X), own.y.mean() - half), np.full(len(X), own.y.mean() + half))


Run = Callable[..., tuple[Path, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    shutil.copytree(files.conf_dir(), tmp_path / "conf")
    for name in ("pac_bayes/spread_gp", "robustness/least_squares"):
        shutil.copy(EXAMPLE / f"conf/method/{name}.yaml", tmp_path / f"conf/method/{name}.yaml")
    (tmp_path / "conf/method/wasserstein/class_centres.yaml").write_text(CENTRES_YAML, encoding="utf-8")
    (tmp_path / "conf/method/league/constant_interval.yaml").write_text(CONSTANT_YAML, encoding="utf-8")
    monkeypatch.setattr(files, "shipped_conf_dir", lambda: tmp_path / "conf")
    monkeypatch.chdir(tmp_path)

    def start(experiment: str, *words: str) -> tuple[Path, str, str]:
        monkeypatch.setattr("sys.argv", ["gpsuite", "run", f"experiment={experiment}", "scale=smoke", *words])
        assert cli.main() == 0
        out, err = capsys.readouterr()
        return next(Path(line) for line in out.splitlines() if line.startswith("results/")), out, err

    return start


def test_a_regressor_gets_workers_resume_tables_figures_comparison(run: Run) -> None:
    for mode, said in (("processes", "[2/2] done  spread GP"), ("serial", "2 of 2 tasks are stored")):
        folder, _, err = run("pac_bayes/regression", "method=spread_gp", f"parallel={mode}")
        assert said in err
    assert "spread GP" in (folder / "tables/regression.md").read_text(encoding="utf-8")
    assert set(pd.read_csv(folder / "figures/regression.csv")["method"]) == {"spread_gp"}
    assert (folder / "comparison.csv").exists()


def test_a_regressor_is_judged_among_the_guarantees_of_league(run: Run) -> None:
    folder, out, _ = run("league", "datasets=[diabetes]", "methods=[spread_gp]", "seeds=1", "parallel=serial")
    validity = pd.read_csv(folder / "tables/league_validity.csv")
    assert {"spread GP", "spread GP, random draw"} <= set(validity["statement"])
    assert "tightest on" in out


def test_intervals_are_judged_among_the_guarantees_of_league(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_items", dict(METHODS._items))  # as it was, after the test
    METHODS.register("constant_interval")(
        IntervalMethod(
            options=ConstantOptions,
            dataset_tasks=("regression",),
            traits=frozenset({INTERVALS}),
            intervals=constant_intervals,
        )
    )
    folder, _, _ = run("league", "datasets=[diabetes]", "methods=[constant_interval]", "seeds=2", "parallel=serial")
    cells = pd.read_csv(folder / "tables/league.csv").set_index("statement")
    assert cells["stated"]["constant interval"] == pytest.approx(2.0)
    assert cells["question"]["constant interval"] == "interval"
    assert 0.2 < cells["failed"]["constant interval"] < 0.6  # of a normal target 0.32


def test_a_classifier_is_judged_among_the_guarantees_of_league(run: Run) -> None:
    folder, _, _ = run("league", "datasets=[breast_cancer]", "methods=[least_squares]", "seeds=1", "parallel=serial")
    assert {"certified accuracy, least squares", "conformal sets, least squares"} <= set(
        pd.read_csv(folder / "tables/league_validity.csv")["statement"]
    )


def test_a_classifier_gets_safety_and_certificates(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("dataset=breast_cancer", "features=first3", "method=least_squares", "count=2", "radius=0.1")
    for mode, said in (("processes", "[2/2] done  least squares"), ("serial", "2 of 2 tasks are stored")):
        folder, out, err = run("robustness/safety", *words, f"parallel={mode}")
        assert said in err
    assert "least squares: " in out
    table = pd.read_csv(folder / "tables/safety_points.csv")
    assert set(table["method"]) == {"least squares"} and set(table["verdict"]) <= {"safe", "unsafe"}
    assert ((table["certified_min"] <= table["probability"]) & (table["probability"] <= table["certified_max"])).all()
    assert (folder / "figures/safety.png").exists() and (folder / "comparison.csv").exists()
    certificate = folder / "certificates/least_squares_point_0.npz"
    monkeypatch.setattr("sys.argv", ["gpsuite", "verify", str(certificate)])
    assert cli.main() == 0
    assert "refuted" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("experiment", "words", "table"),
    [
        ("robustness/explain", ("dataset=breast_cancer", "count=1"), "explain_points"),
        ("robustness/explain_synthetic2d", ("points=2",), "explain_synthetic2d"),
        ("robustness/distribution_synthetic2d", ("points=2",), "distribution_synthetic2d"),
        ("robustness/safety_synthetic2d", ("points=2",), "safety_synthetic2d_points"),
    ],
)
def test_a_classifier_gets_explanations_and_curves(
    run: Run, experiment: str, words: tuple[str, ...], table: str
) -> None:
    folder, _, _ = run(experiment, "method=least_squares", *words)
    assert set(pd.read_csv(folder / "tables" / f"{table}.csv")["method"]) == {"least squares"}
    assert list((folder / "figures").glob("*.png")) and (folder / "comparison.csv").exists()


def test_a_classifier_gets_the_guarantees_of_a_table(run: Run) -> None:
    probabilities = {}
    for name in ("least_squares", "ep", "laplace"):
        folder, out, _ = run("guarantee", "dataset=breast_cancer", f"method={name}")
        assert "certified" in out and "Proved: " in out
        table = pd.read_csv(folder / "tables/predictions.csv")
        assert table.filter(regex="^p_").sum(axis=1).to_numpy() == pytest.approx(1.0)
        probabilities[name] = table.filter(regex="^p_").to_numpy()
        data = load(prepare(read_spec(files.conf_dir(), "breast_cancer"), cache_dir=Path("data")))
        assert gpsuite.load(folder).predict(data.X[:3]).probabilities.shape == (3, 2)
    assert len({shares.tobytes() for shares in probabilities.values()}) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("dataset=diabetes", "method=least_squares"), "method=least_squares: a regression is exact"),
        (("dataset=digits", "method=least_squares", "most_rows=1000"), "least squares is for two classes, "),
        (("dataset=breast_cancer", "methods=[laplace,ep]"), "one classifier is kept and judged"),
        (("dataset=breast_cancer", "method=svgp_classifier"), "not a method of guarantee"),
    ],
)
def test_guarantee_refuses_methods_that_do_not_fit(
    run: Run, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(AssertionError):
        run("guarantee", *words)
    assert said in capsys.readouterr().err


def test_a_classifier_of_two_classes_refuses_three(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        run("robustness/safety", "dataset=digits", "classes=[3,5,8]", "method=least_squares")
    assert "least squares is for two classes" in capsys.readouterr().err


def test_a_classifier_of_images_gets_tables_and_figures(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METHODS, "_items", dict(METHODS._items))  # as it was, after the test
    METHODS.register("class_centres")(
        ImageMethod(
            options=ClassCentreOptions,
            dataset_tasks=("classification",),
            traits=frozenset({LABELS}),
            train=by_class_centres,
        )
    )
    folder, _, _ = run("wasserstein/digits", "methods=[class_centres]", "noise_methods=[class_centres]")
    table = pd.read_csv(folder / "tables/scores.csv")
    assert set(table["method"]) == {"class centres"}
    assert (folder / "figures/reliability.png").exists() and (folder / "comparison.csv").exists()


def test_a_kernel_model_gets_its_coverage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    own = coverage_models.CoverageModel("identity", lambda X: KernelRidge(np.eye(len(X)), 0.05))
    monkeypatch.setitem(coverage_models.MODELS, "identity", own)
    folder, _, _ = run("perturbation/coverage", "models=[identity]")
    assert set(pd.read_csv(folder / "tables/coverage.csv")["model"]) == {"identity"}
    broken = pd.read_csv(folder / "tables/coverage_broken.csv")
    assert set(broken["model"]) == {"identity"}
    assert (folder / "figures/coverage.png").exists() and (folder / "comparison.csv").exists()
