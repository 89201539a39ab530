"""robustness/safety: any dataset, certificates, and the checks of the paper's statements."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.budget import Budget
from gpsuite.certificates.certificate import Certificate, read_certificate
from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS, Record
from gpsuite.experiments.robustness import judging
from gpsuite.experiments.robustness import safety_runs as any_checks
from gpsuite.experiments.robustness.classifiers import Classifier, Trained
from gpsuite.experiments.robustness.judging import attacked, certificate_decides, decided
from gpsuite.experiments.robustness.methods import gpc
from gpsuite.experiments.robustness.records import write_certificates
from gpsuite.experiments.robustness.safety import candidates_lower_boxes, check_statistics
from gpsuite.experiments.robustness.safety_runs import (
    candidate_boxes,
    compare_closed_form,
    identity,
    points_outside,
    prop1_gap,
    sampled,
)
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.point_search import PointSearch, probability_range
from gpsuite.methods.robustness.search.regions import l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import PointProbability
from gpsuite.models.classification.links import LINKS
from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.reporting.comparison import read_statistics
from gpsuite.rounding import rounded
from tests.experiments.drawn import drawn
from tests.experiments.robustness.safety_runs import gpsuite, run
from tests.models.gpc_problems import fitted_posterior, two_classes


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def write_table(path: Path, rows: int = 70) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 3))
    label = np.digitize(X[:, 0] + 0.5 * X[:, 1], [0.0])
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=[f"class {k}" for k in label])
    frame.to_csv(path, index=False)


def test_every_point_gets_a_certificate_that_verify_confirms(capsys: pytest.CaptureFixture[str]) -> None:
    folder = run("safety", "count=2", "tolerance=1e-6")  # several boxes a search
    certificates = sorted((folder / "certificates").glob("*.npz"))
    assert [path.name for path in certificates] == [
        *("ep_point_0.npz", "ep_point_1.npz", "laplace_point_0.npz", "laplace_point_1.npz")
    ]
    table = pd.read_csv(folder / "tables" / "safety_points.csv").set_index(["method", "point"])
    rows = table.to_dict("index")
    capsys.readouterr()
    for path, given in ((certificates[0], ()), (certificates[1], ()), (certificates[0], ("dataset=digits",))):
        assert gpsuite("verify", str(path), *given) == 0
        said = capsys.readouterr().out
        levels = [line.split("\t")[1].split(":")[0] for line in said.splitlines()[1:4]]
        assert levels == ["confirmed", "confirmed", "confirmed" if given else "not checked"]
        row = rows["EP", int(path.stem[-1])]
        assert f"row {row['row']} of the dataset" in said
        assert f"below {rounded(row['certified_min'], 10, -1)}" in said
        assert f"above {rounded(row['certified_max'], 10, 1)}" in said
    assert (table["min_proved"] <= table["min_attained"]).all()
    assert (table["certified_max"] >= table["max_attained"] - 1e-9).all()
    [statistic] = [each for each in read_statistics(folder / "tables") if each.name == "candidates_lower_boxes"]
    assert statistic.n == 4
    assert statistic.note.startswith("mean ratio")
    assert len(drawn(folder, "safety")) == len(table)
    traces = drawn(folder, "safety_trace").sort_values("boxes")
    for _, side in traces.groupby("side"):
        assert (side["50 %"] <= side["90 %"]).all() and (side["90 %"] <= side["100 %"]).all()
        assert (side["100 %"].diff().dropna() <= 1e-12).all()  # more boxes never widen a gap
        assert set(side["searches"]) == {len(table)}


def test_certificates_of_an_earlier_run_are_removed_and_files_of_others_are_not() -> None:
    words = ("method=laplace", "check_points=0", "points=[2]")
    certificates = run("safety", *words) / "certificates"
    mine = [certificates / name for name in ("laplace_point_7.npz", "my_point_of_view.txt", "EP_point_1.npz")]
    for path in mine:
        path.write_bytes(b"mine")
    linked = certificates / "laplace_point_8.npz"
    linked.symlink_to(mine[1].name)
    run("safety", *words)
    kept = {path.name for path in (*mine, linked)}
    assert {path.name for path in certificates.iterdir()} == {*kept, "laplace_point_2.json", "laplace_point_2.npz"}
    write_certificates([], certificates)
    assert {path.name for path in certificates.iterdir()} == kept
    assert all(path.read_bytes() == b"mine" for path in (*mine, linked))


@pytest.mark.slow
def test_a_certificate_out_of_time_claims_little_and_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def hurried(*given: Any, budget: Budget, **more: Any) -> Certificate:
        assert budget.seconds is not None and 0 < budget.seconds <= 1000
        return certify(*given, budget=Budget(seconds=0.0), **more)

    monkeypatch.setattr(judging, "certify", hurried)
    folder = run("safety", "method=laplace", "check_points=0", "count=1", "budget.seconds=1000")
    [row] = pd.read_csv(folder / "tables" / "safety_points.csv").to_dict("records")
    assert (row["certified_min"], row["certified_max"]) == (0.0, 1.0)
    assert row["status"] == "budget"
    assert gpsuite("verify", str(folder / "certificates" / "laplace_point_0.npz")) == 0


def test_a_csv_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(Path("my table.csv"))
    words = ("dataset=csv", "dataset.path=my table.csv", "dataset.target=label", "method=laplace", "count=3",
             "features=all", "check_points=0")  # fmt: skip
    capsys.readouterr()
    folder = run("safety", *words)
    said = capsys.readouterr().out
    assert "classified rightly by this model, and provably stay so" in said
    assert "and stay within the inputs' ranges in the data" in said
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert set(table["label"]) <= {"class 0", "class 1"}
    assert set(table["verdict"]) <= {"safe", "unsafe", "unknown"}
    changes = pd.read_csv(folder / "tables" / "safety_changes.csv")
    assert set(changes["point"]) == set(table.loc[table["verdict"] == "unsafe", "point"])
    certificate = str(folder / "certificates" / "laplace_point_0.npz")
    capsys.readouterr()
    assert gpsuite("verify", certificate, "dataset.path=my table.csv", "dataset.target=label") == 0
    said = capsys.readouterr().out
    assert "(c) the stored rows and labels are the dataset's\tconfirmed" in said
    assert "a from " in said and "classes\tclass 0, class 1" in said
    write_table(Path("my table.csv"), rows=71)
    assert gpsuite("verify", certificate, "dataset.path=my table.csv", "dataset.target=label") == 1
    assert "(c) the stored rows and labels are the dataset's\trefuted: the content" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["radius=-1"], "radius=-1.0: a radius must be a number of 0 or more"),
        (["points=[99]"], "points=99: the test rows are numbered 0 to 9"),
        (["bound=papr"], "Did you mean 'paper'?"),
        (["norm=l3"], "norm=l3: unknown norm"),
        (["tolerance=0"], "tolerance=0.0: must be a number above 0"),
        (["domain=[0,3]"], "test point 0 lies outside: its pixel_"),
        (["domain=[3,0]"], "two increasing numbers"),
        (["classes=[3,x]"], "digits has no label x"),
        (["features=sift4"], "needs scaling=pixels"),
        (["features=gradient4", "scaling=pixels", "dataset=breast_cancer"], "30 inputs are no image"),
        (["dataset=diabetes"], "regression dataset cannot be used"),
    ],
)
def test_mistakes_exit_2(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpsuite("run", "experiment=robustness/safety", "scale=smoke", *words) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) <= 4
    assert not Path("results/robustness").exists() or not list(Path("results/robustness").rglob("*.json"))


def test_no_boxes_is_the_trivial_bound_and_no_error() -> None:
    folder = run("safety", "boxes=0", "count=1", "method=laplace", "certificates=false")
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert table["verdict"].tolist() == ["unknown"]
    assert table["status"].tolist() == ["budget"]
    assert table[["min_proved", "max_proved"]].to_numpy().tolist() == [[0.0, 1.0]]
    assert not (folder / "certificates").exists()


def test_a_search_without_boxes_has_its_certificates_bound() -> None:
    folder = run("safety", "boxes=0", "count=2", "method=laplace", "radius=0.05", "check_points=0")
    table = pd.read_csv(folder / "tables" / "safety_points.csv")
    assert table["status"].tolist() == ["budget"] * 2
    assert table["verdict"].tolist() == ["safe"] * 2 and table["certificate_decides"].all()
    proved = table[["min_proved", "max_proved"]].to_numpy()
    assert np.array_equal(proved, table[["certified_min", "certified_max"]].to_numpy())
    assert (proved > 0.0).all() and (proved < 1.0).all()
    for reached in ("min_attained", "max_attained"):  # at the point itself, or where the attack ends
        assert ((proved[:, 0] <= table[reached]) & (table[reached] <= proved[:, 1])).all()
    assert (table["min_attained"] <= table["probability"] + 1e-9).all()


def test_a_region_of_no_width_is_the_point() -> None:
    folder = run("safety", "radius=0", "count=1", "method=laplace", "check_points=1")
    [row] = pd.read_csv(folder / "tables" / "safety_points.csv").to_dict("records")
    assert row["verdict"] == "safe"
    assert row["min_proved"] == pytest.approx(row["probability"], abs=1e-6)
    assert row["max_proved"] == pytest.approx(row["probability"], abs=1e-6)


def test_a_verdict_within_the_tolerance_is_decided() -> None:
    """With a tolerance of .3 the range leaves the class open; the search goes on for the class alone."""
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get("probit"))[0]
    open_before = 0
    for first in np.linspace(-1.5, 1.5, 30):
        region = linf_ball([first, 0.1], 0.5)
        budget = Budget(boxes=8000)
        search = PointSearch(posterior, region.centre, region.free)
        found = search.range(region, 0.3, budget)
        settled = decided(search, region, found, budget)
        if found.verdict.status == "unknown":
            open_before += 1
            assert settled.verdict.status in ("safe", "unsafe")
            assert settled.boxes > found.boxes
        else:
            assert settled is found
        assert decided(search, region, found, Budget(boxes=0)) is found
    assert open_before


def test_an_attack_that_succeeds_makes_an_open_verdict_unsafe() -> None:
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get("probit"))[0]
    for radius, expected in ((3.0, "unsafe"), (0.0, "unknown")):
        region = linf_ball([0.2, 0.1], radius)
        search = PointSearch(posterior, region.centre, region.free)
        found = search.range(region, 0.02, Budget(boxes=0))
        assert found.verdict.status == "unknown"
        settled, attack = attacked(search, region, found, 0, 6)
        assert settled.verdict.status == expected
        assert attack["attack_succeeds"] == (expected == "unsafe")
        assert settled.side(found.centre.comparisons[0].sign).inner == attack["attacked"]  # the search attained nothing
        example = settled.verdict.counterexample
        if example is not None:
            [reached] = posterior.probability(example[None])
            assert (reached > 0.5) != (found.probability > 0.5)


def test_points_outside_are_counted() -> None:
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get("probit"))[0]
    inner, outer = linf_ball([0.2, 0.1], 0.1), linf_ball([0.2, 0.1], 2.0)
    found = probability_range(posterior, inner, 0.01, Budget(boxes=2000))
    rng = np.random.default_rng(0)
    assert points_outside(posterior, inner, found, sampled(inner, 500, rng), 4, rng) == 0
    assert points_outside(posterior, inner, found, sampled(outer, 500, rng), 4, rng) > 100


def test_samples_lie_in_the_region() -> None:
    ball = l2_ball([0.2, 0.1, 3.0], 0.7, [0, 2])
    points = sampled(ball, 300, np.random.default_rng(1))
    assert points.shape == (601, 3)
    assert (points[:, 1] == 0.1).all()
    assert np.linalg.norm(points - [0.2, 0.1, 3.0], axis=1).max() <= 0.7


@pytest.mark.parametrize("link", ["probit", "logistic"])
def test_the_gap_of_prop1_with_equal_steps_of_the_link_is_one_step(link: str) -> None:
    posterior = fitted_posterior("laplace", "squared_exponential", LINKS.get(link))[0]
    region = linf_ball([0.2, 0.1], 0.5)
    for cells in (10, 100):
        assert prop1_gap(posterior, region, cells) == pytest.approx(1 / cells, rel=1e-6)


def test_closed_form_is_tighter_than_cells() -> None:
    rng = np.random.default_rng(2)
    mean = np.sort(rng.normal(0, 2, (2, 50)), axis=0)
    variance = np.sort(rng.exponential(2, (2, 50)), axis=0)
    found = compare_closed_form(LINKS.get("probit"), (mean[0], mean[1]), (variance[0], variance[1]))
    assert found["closed_form_violations"] == 0
    approaches = found["prop1_approaches"]
    assert isinstance(approaches, int)
    assert 40 <= approaches <= 50  # cells are bounded one by one: with a wide rectangle more of them need not help
    point = mean[0], mean[0]
    found = compare_closed_form(LINKS.get("probit"), point, (variance[0], variance[0]))
    assert found["prop1_approaches"] == 50


def test_check_statistics_leave_budgeted_runs_out() -> None:
    def record(gap: float, unbudgeted: bool, prop1_gap: float = 0.01) -> Record:
        metrics = {
            "unbudgeted[eps=0.02]": unbudgeted,
            "gap[eps=0.02]": gap,
            "prop1_gap[eps=0.1]": 0.05,
            "gap[eps=0.1]": None,
            "unbudgeted[eps=0.1]": False,
            "prop1_gap[eps=0.02]": prop1_gap,
            "points_outside_bounds": 1,
            "closed_form_boxes": 4,
            "closed_form_violations": 0,
            "prop1_approaches": 3,
            "points_outside_mixture_bounds": 0,
        }
        return Record("k", "e", "", {"part": "check"}, "done", "", metrics, {})

    found = {s.name: s for s in check_statistics([record(0.3, False), record(0.02, True)], [0.02])}
    assert found["prop1_cells[eps=0.02]"].value == 100
    assert (found["share_runs_with_gap_closed"].value, found["share_runs_with_gap_closed"].n) == (1.0, 1)
    assert found["points_outside_bounds"].value == 2
    assert found["share_prop1_approaches_closed_form"].value == 1.0
    open_gap = {s.name: s for s in check_statistics([record(0.02, True), record(0.021, True)], [0.02])}
    assert open_gap["share_runs_with_gap_closed"].value == 0.5
    slow = check_statistics([record(0.02, True), record(0.02, True, prop1_gap=0.021)], [0.02])
    (half,) = [s for s in slow if s.name == "share_prop1_approaches_closed_form"]
    assert half.value == 0.5  # five times the cells, and the gap fell to .42 only
    assert "in 6 of 8 boxes" in half.note


def made_up_candidate_boxes(kernel: str, radius: float) -> dict[str, int | None]:
    X, y = two_classes(0)
    posterior = fitted_posterior("laplace", kernel)[0]
    problem = SimpleNamespace(X=X, y=y)
    model = SimpleNamespace(method=gpc("laplace", "probit"), spec=ModelSpec(kernel=kernel, ard=True))
    trained = Trained(posterior, Hyperparameters(2.5, (0.8, 1.7)))
    classifier = Classifier(problem, model, trained)  # type: ignore[arg-type]
    return candidate_boxes(classifier, linf_ball([0.2, 0.1], radius))


def test_candidates_lower_the_boxes_of_the_papers_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    found = made_up_candidate_boxes("squared_exponential", 0.6)
    for side in ("minimum", "maximum"):
        with_, without = (found[f"boxes_{each}_candidates[side={side}]"] for each in ("with", "without"))
        assert with_ is not None and without is not None
        assert 1 <= with_ < without
    assert made_up_candidate_boxes("matern32", 0.6) == {}
    monkeypatch.setattr(any_checks, "CANDIDATE_BOXES", 3)
    limited = made_up_candidate_boxes("squared_exponential", 0.6)
    assert limited["boxes_with_candidates[side=minimum]"] == 1
    assert limited["boxes_without_candidates[side=minimum]"] is None


def candidate_record(with_: int | None, without: int | None) -> Record:
    metrics = {
        f"boxes_{name}_candidates[side={side}]": boxes
        for side in ("minimum", "maximum")
        for name, boxes in (("with", with_), ("without", without))
    }
    return Record("k", "e", "", {"part": "check"}, "done", "", metrics, {})


@pytest.mark.parametrize(
    ("boxes", "expected", "n"),
    [
        ([(10, 20), (3, 9), (1, 1), (5, 9), (7, None)], 1.0, 10),
        ([(None, 9)] * 10 + [(8, 10)] * 10, 0.0, 40),  # half end only without them
        ([(10, 20)], 0.0, 2),  # too few to tell
        ([(20, 10), (9, 3), (9, 5), (8, 9)], 0.0, 8),
        ([(100, 101), (100, 103), (100, 107), (30, 10)], 0.0, 8),  # mostly fewer, but more on average
        ([(None, None)], np.nan, 0),
    ],
)
def test_whether_candidates_lower_the_boxes(
    boxes: list[tuple[int | None, int | None]], expected: float, n: int
) -> None:
    found = candidates_lower_boxes([candidate_record(*pair) for pair in boxes])
    assert found.value == pytest.approx(expected, nan_ok=True)
    assert found.n == n
    assert f"Closed at least once: {n} of {2 * len(boxes)} searches" in found.note


@pytest.mark.parametrize(
    ("point", "probability", "predicted", "correct"),
    [(0, 0.2, "no", True), (0, 0.7, "yes", False), (1, 0.7, "yes", True), (1, 0.2, "no", False)],
)
def test_a_point_is_right_where_its_own_label_is_predicted(
    point: int, probability: float, predicted: str, correct: bool
) -> None:
    problem: Any = SimpleNamespace(test_classes=np.array([0, 1]), test_rows=np.array([7, 9]), label_names=("no", "yes"))
    search: Any = SimpleNamespace(centre=PointProbability(probability, probability, probability), followed=lambda: 1)
    found = identity(problem, point, judging._BinaryPoint(search))
    assert (found["row"], found["label"]) == ((7, "no"), (9, "yes"))[point]
    assert (found["predicted"], found["correct"]) == (predicted, correct)


@pytest.mark.parametrize(
    ("status", "inner", "outer", "decides"),
    [
        *(("safe", 0.6, 0.55, True), ("safe", 0.6, 0.45, False)),
        *(("unsafe", 0.45, 0.4, True), ("unsafe", 0.55, 0.4, False), ("unsafe", None, 0.4, False)),
    ],
)
@pytest.mark.parametrize("sign", [-1, 1])
def test_a_certificate_decides_by_its_own_bound_or_witness(
    status: str, inner: float | None, outer: float, decides: bool, sign: int
) -> None:
    ends = [value if value is None or sign < 0 else 1.0 - value for value in (inner, outer)]
    claim, other = (SimpleNamespace(sign=sign * way, inner=ends[0], outer=ends[1]) for way in (1, -1))
    centre = PointProbability(*(3 * [0.8 if sign < 0 else 0.2]))
    found: Any = SimpleNamespace(centre=centre, verdict=SimpleNamespace(status=status))
    both: Any = (claim, other) if sign < 0 else (other, claim)
    assert certificate_decides(found, *both) == decides


@pytest.mark.parametrize("experiment", ["robustness/safety", "robustness/explain"])
def test_a_table_of_ones_own_is_learnt_with_a_prior_and_the_papers_data_without(
    experiment: str, tmp_path: Path
) -> None:
    write_table(tmp_path / "own.csv")
    own = ("dataset=csv", f"dataset.path={tmp_path / 'own.csv'}", "dataset.target=label", "method=laplace")

    def priors(*words: str) -> set[str]:
        request, _ = read_request([f"experiment={experiment}", "scale=smoke", "test_rows=5", *words])
        tasks: Any = EXPERIMENTS.get(request.experiment).plan(request)
        return {task.params.model.prior for task in tasks}

    assert priors(*own) == {"half_normal"} and priors(*own, "prior=none") == {"none"}
    assert priors("method=laplace") == {"none"} and priors("method=laplace", "prior=half_normal") == {"half_normal"}


def test_a_classifier_trained_for_a_radius_has_longer_lengthscales_and_certificates_that_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_table(tmp_path / "own.csv")
    own = ("dataset=csv", f"dataset.path={tmp_path / 'own.csv'}", "dataset.target=label", "methods=[laplace,ep]")
    words = (*own, "test_rows=5", "count=1", "evaluations=10", "radius=0.3")

    def lengthscales(folder: Path) -> dict[str, float]:
        paths = (folder / "certificates").glob("*.npz")
        return {path.name: float(read_certificate(path).model.lengthscales.min()) for path in paths}

    monkeypatch.setattr("gpsuite.methods.robustness.certified_training.STRETCHES", (1.5, 2.0))
    plain = run("safety", *words)
    (tmp_path / "chosen").mkdir()
    monkeypatch.chdir(tmp_path / "chosen")
    chosen = run("safety", *words, "train_for_radius=0.3").resolve()
    monkeypatch.chdir(tmp_path)
    ratios = [length / lengthscales(plain)[name] for name, length in lengthscales(chosen).items()]
    assert len(ratios) == 2 and all(min(abs(ratio - 1.5), abs(ratio - 2.0)) < 1e-6 for ratio in ratios)
    for path in (chosen / "certificates").glob("*.npz"):
        assert gpsuite("verify", str(path), *own[:3]) == 0
    capsys.readouterr()
    assert (
        gpsuite("run", "experiment=robustness/safety", *own[:3], "method=svgp_classifier", "train_for_radius=0.3") == 2
    )
    assert "train_for_radius=0.3: svgp cannot choose lengthscales" in capsys.readouterr().err
