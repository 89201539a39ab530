from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from gpsuite.config.request import read_request
from gpsuite.errors import UserError
from gpsuite.experiments.base import DIVERGED, EXPERIMENTS, Outcome, Record, Report, Request, SharedWork, Task
from gpsuite.experiments.robustness.classifiers import task_classifier
from gpsuite.experiments.robustness.posterior_quality import (
    DISTANCES,
    Gold,
    HMCTask,
    Quality,
    approximations,
    converged,
    distance_table,
    distances,
    gold_standard,
    quality_claims,
    quality_pairs,
    run_hmc_distance,
)
from gpsuite.experiments.robustness.probability_change import by_classifier
from gpsuite.models.classification.approximation import NotConvergedError
from gpsuite.reporting.comparison import Statistic
from tests.experiments.robustness.made_up_deltas import delta_frame

NAME = "experiment=robustness/posterior_quality"
SMALL = ("train_rows=30", "test_rows=8", "points=2", "evaluations=[2]", "gammas=1")
TITLES = ("synthetic2d", "spam", "mnist38")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_OFFLINE", "1")
    monkeypatch.delenv("GPSUITE_DATA_PATH", raising=False)


def request_of(*words: str) -> Request[Any]:
    return read_request([NAME, "scale=smoke", *words])[0]


def tasks_of(*words: str) -> Sequence[Task[Any]]:
    request = request_of(*words)
    return EXPERIMENTS.get(request.experiment).plan(request)


def ratios(laplace: dict[str, float], smallest: str = "mnist38", apart: float = 1e-9) -> dict[str, pd.DataFrame]:
    """Return deltas with the given ratios Laplace / EP; one dataset's are ten times smaller."""
    frames = {}
    for number, (title, ratio) in enumerate(laplace.items()):
        size = 0.1 if title == smallest else 1.0
        scale = {(m, e): size * (ratio if m == "laplace" else 1.0) for m in ("laplace", "ep") for e in (10, 40)}
        frame = delta_frame(scale, seed=number, apart=apart)
        frames[title] = pd.concat([frame, frame.assign(rank=1, delta=0.5 * frame["delta"])])
    return frames


def qualities(laplace: dict[str, float], draws: int = 2) -> list[Quality]:
    rng = np.random.default_rng(0)
    found = []
    for title, ratio in laplace.items():
        for draw in range(draws):
            base = rng.uniform(0.1, 0.2, 12)
            values = {f"{name}_ep": base for name in DISTANCES}
            values |= {f"{name}_laplace": (1.0 + 1e-9 * draw) * ratio * base for name in DISTANCES}
            found.append(Quality(title, draw, values))
    return found


def values(statistics: list[Statistic]) -> dict[str, float]:
    return {each.name: each.value for each in statistics}


def test_the_papers_findings_are_found_where_they_are() -> None:
    found = values(
        quality_claims(
            [qualities({"synthetic2d": 7.0, "spam": 1.1, "mnist38": 1.6})],
            ratios({"synthetic2d": 5.0, "spam": 1.2, "mnist38": 4.0}),
            at=10,
            test_over_training=0.05,
        )
    )
    assert found["share_ep_closer_to_hmc"] == 1.0
    assert found["smallest_difference_confidence[dataset=spam]"] == pytest.approx(1.0)
    assert found["share_delta_smallest_on_mnist38"] == 1.0
    assert found["same_order_of_quality_and_robustness"] == 1.0
    assert found["quality_robustness_spearman"] > 0.7
    ep, laplace = (found[f"hmc_distance[dataset=synthetic2d,method={name}]"] for name in ("ep", "laplace"))
    assert laplace == pytest.approx(7.0 * ep)
    assert "hmc_kl[dataset=spam,method=ep]" in found


def test_and_are_not_found_where_they_are_not() -> None:
    found = values(
        quality_claims(
            [qualities({"synthetic2d": 0.5, "spam": 0.9, "mnist38": 3.0})],
            ratios({"synthetic2d": 5.0, "spam": 6.0, "mnist38": 1.5}, smallest="spam"),
            at=40,
            test_over_training=0.05,
        )
    )
    assert found["share_ep_closer_to_hmc"] == pytest.approx(2 / 6)
    assert found["smallest_difference_confidence[dataset=spam]"] == pytest.approx(0.0, abs=1e-9)
    assert found["share_delta_smallest_on_mnist38"] == 0.0
    assert found["same_order_of_quality_and_robustness"] == 0.0
    assert found["quality_robustness_spearman"] < 0.0


def test_closer_at_one_methods_hyperparameters_is_not_so_at_each() -> None:
    closer, further = (qualities({"spam": ratio, "mnist38": ratio}) for ratio in (3.0, 0.5))
    deltas = ratios({"spam": 1.2, "mnist38": 1.2})
    found = values(quality_claims([closer, further], deltas, 10, 0.05))
    assert found["share_ep_closer_to_hmc"] == 0.5
    one = values(quality_claims([closer], deltas, 10, 0.05))
    assert one["share_ep_closer_to_hmc"] == 1.0
    named = "hmc_distance[dataset=spam,method=laplace]"
    assert found[named] == one[named]  # the first's


def test_one_draw_has_means_but_decides_nothing() -> None:
    only = {title: frame[frame["draw"] == 0] for title, frame in ratios({"synthetic2d": 5.0, "spam": 1.2}).items()}
    statistics = quality_claims([qualities({"synthetic2d": 7.0, "spam": 1.1}, draws=1)], only, 10, 0.05)
    found = {each.name: each for each in statistics}
    distance = found["hmc_distance[dataset=spam,method=ep]"]
    assert (distance.n, distance.interval_low) == (1, None)
    for name in ("share_ep_closer_to_hmc", "smallest_difference_confidence[dataset=spam]"):
        assert math.isnan(found[name].value), name


def test_draws_that_disagree_decide_nothing() -> None:
    # in every draw all points agree, but EP is closer in half of the draws only
    mixed = [
        Quality(title, draw, {f"{name}_{method}": np.full(40, 1.0 + (method == "laplace") * (-1.0) ** draw * 0.5)
                               for name in DISTANCES for method in ("laplace", "ep")})
        for title in ("spam", "synthetic2d")
        for draw in range(4)
    ]  # fmt: skip
    equal = ratios({"spam": 1.2, "synthetic2d": 1.2}, apart=0.0)
    statistics = quality_claims([mixed], equal, 10, 0.05)
    found = values(statistics)
    assert found["share_ep_closer_to_hmc"] == 0.0
    [distance] = [each for each in statistics if each.name == "hmc_distance[dataset=spam,method=laplace]"]
    assert (distance.value, distance.judged("low")) == (1.0, 0.0)  # 1.006 to either side: no distance is less than 0
    assert distance.judged("high") == pytest.approx(2.0062, abs=1e-3)
    # two ratios that are equal: no confidence that one is smaller
    assert found["smallest_difference_confidence[dataset=spam]"] < 0.95


def test_without_converged_chains_nothing_is_claimed_of_quality() -> None:
    found = {
        each.name: each
        for each in quality_claims([[]], ratios({"synthetic2d": 5.0, "spam": 1.2}), at=10, test_over_training=0.05)
    }
    assert math.isnan(found["share_ep_closer_to_hmc"].value)
    assert math.isnan(found["same_order_of_quality_and_robustness"].value)
    assert found["quality_robustness_spearman"].n == 0
    assert found["share_delta_smallest_on_mnist38"].n == 0  # that dataset was not run


def test_a_dataset_without_two_converged_draws_leaves_the_claim_about_all_of_them_open() -> None:
    deltas = ratios({"synthetic2d": 5.0, "spam": 1.2, "mnist38": 4.0})
    two = qualities({"synthetic2d": 7.0, "spam": 1.1})
    for found in (two, two + qualities({"mnist38": 0.1}, draws=1)):
        (claimed,) = [s for s in quality_claims([found], deltas, 10, 0.05) if s.name == "share_ep_closer_to_hmc"]
        assert math.isnan(claimed.value) and claimed.note.startswith("mnist38")


@pytest.mark.parametrize(
    ("spam", "others", "least"),
    [(0.1, (1.2, 1.2), False), (1.2, (1.05, 7.0), False), (1.0, (0.3, 5.0), True), (0.93, (0.85, 7.0), True)],
)
def test_the_difference_is_least_by_size_whichever_is_more_robust(
    spam: float, others: tuple[float, float], least: bool
) -> None:
    deltas = ratios({"synthetic2d": others[0], "spam": spam, "mnist38": others[1]})
    found = values(quality_claims([[]], deltas, 10, 0.05))["smallest_difference_confidence[dataset=spam]"]
    assert (found >= 0.95) is least


def test_draws_without_a_chain_pair_nothing() -> None:
    deltas = {title: by_classifier(frame[frame["rank"] == 0]) for title, frame in ratios({"spam": 2.0}).items()}
    found = [*qualities({"spam": 3.0}, draws=2), *qualities({"mnist38": 3.0}, draws=1)]
    assert quality_pairs(found, deltas, 10) == [("spam", pytest.approx(3.0), pytest.approx(2.0))] * 2
    assert quality_pairs(found[1:], deltas, 10) == [("spam", pytest.approx(3.0), pytest.approx(2.0))]


@dataclass
class Latents:
    """Draws of a normal distribution as HMC would return them."""

    means: npt.NDArray[np.float64]
    conditional_variance: npt.NDArray[np.float64]
    converged: bool = True
    r_hat: float = 1.0
    ess: float = 1e4
    acceptance: float = 0.8

    @property
    def mean(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.means.mean(axis=0))

    @property
    def variance(self) -> npt.NDArray[np.float64]:
        return np.asarray(self.means.var(axis=0) + self.conditional_variance)

    def draws(self, generator: np.random.Generator) -> npt.NDArray[np.float64]:
        noise = generator.standard_normal(self.means.shape)
        return np.asarray(self.means + np.sqrt(self.conditional_variance) * noise)


def latents_of(posterior: Any, X: npt.NDArray[np.float64], converged_: bool = True) -> Latents:
    mean, variance = posterior.latent(X)
    noise = np.random.default_rng(0).standard_normal((20000, len(mean)))
    return Latents(mean + np.sqrt(0.5 * variance) * noise, 0.5 * variance, converged_)


def hmc_task() -> Task[Any]:
    return next(task for task in tasks_of("datasets=[synthetic2d]", *SMALL) if isinstance(task.params, HMCTask))


def test_an_exact_approximation_has_no_distance_and_the_other_has() -> None:
    task = hmc_task()
    classifier = task_classifier(task, SharedWork())
    problem, posteriors = classifier.problem, approximations(classifier, task.params)
    assert set(posteriors) == {"laplace", "ep"}
    assert posteriors["ep"].variance == posteriors["laplace"].variance == classifier.posterior.variance
    latents: Any = latents_of(posteriors["ep"], problem.X_test)
    gold = gold_standard(latents, classifier.posterior.link, np.random.default_rng(1))
    near, far = (distances(posteriors[name], problem.X_test, gold) for name in ("ep", "laplace"))
    for distance in DISTANCES:
        assert near[distance].shape == (8,)
        assert near[distance].mean() < 0.03
        assert far[distance].mean() > 2 * near[distance].mean()


def records_of(request: Request[Any], converged_: bool, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    def sample(classifier: Any, posteriors: Any, params: Any) -> Latents:
        return latents_of(posteriors["ep"], classifier.problem.X_test, converged_)

    monkeypatch.setattr("gpsuite.experiments.robustness.posterior_quality._sample", sample)
    records, shared = [], {}  # type: ignore[var-annotated]
    for task in EXPERIMENTS.get(request.experiment).plan(request):
        outcome: Outcome = EXPERIMENTS.get(request.experiment).run(task, shared.setdefault(task.group, SharedWork()))
        metrics, arrays = outcome.metrics, outcome.arrays
        records.append(Record("", "", "", task.axes, outcome.status, outcome.reason, metrics, {}, arrays=arrays))
    return records


def test_the_figure_shows_the_distances_of_the_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of(*SMALL)
    records = records_of(request, True, monkeypatch)
    entry = EXPERIMENTS.get(request.experiment)
    found = values(entry.summarise(Report(request, records, tmp_path, "note")))
    for title in TITLES:
        assert (
            found[f"hmc_distance[dataset={title},method=ep]"] < found[f"hmc_distance[dataset={title},method=laplace]"]
        )
    assert math.isnan(found["share_ep_closer_to_hmc"])  # one draw decides nothing
    drawn = pd.read_csv(tmp_path / "figures" / "posterior_quality.csv")
    means = drawn[drawn["panel"] == "distance"]
    assert len(means) == 2 * len(TITLES)
    for row in means.to_dict("records"):
        assert row["mean"] == pytest.approx(found[f"hmc_distance[dataset={row['dataset']},method={row['method']}]"])
    assert "1 of 1" in (tmp_path / "tables" / "posterior_quality.md").read_text(encoding="utf-8")


def test_chains_that_did_not_converge_are_shown_and_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = request_of("datasets=[synthetic2d]", *SMALL)
    records = records_of(request, False, monkeypatch)
    assert converged([r for r in records if r.axes["part"] == "hmc"], "laplace") == []
    found = values(EXPERIMENTS.get(request.experiment).summarise(Report(request, records, tmp_path, None)))
    assert not any(name.startswith("hmc_distance") for name in found)
    table = distance_table([r for r in records if r.axes["part"] == "hmc"], {"laplace": "Laplace", "ep": "EP"}, 0.1)
    assert set(table["draws"]) == {"0 of 1"}
    assert "not converged" in next(r.reason for r in records if r.axes["part"] == "hmc")


def test_an_approximation_that_fails_is_a_diverged_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise NotConvergedError("EP cycles")

    monkeypatch.setattr("gpsuite.experiments.robustness.posterior_quality.approximations", fail)
    outcome = run_hmc_distance(hmc_task(), SharedWork())
    assert (outcome.status, outcome.reason) == (DIVERGED, "EP cycles")


@pytest.mark.slow
def test_real_chains_find_ep_closer_than_laplace() -> None:
    task = next(
        task
        for task in tasks_of("datasets=[synthetic2d]", *SMALL, "burn_in=200", "samples=1000")
        if isinstance(task.params, HMCTask)
    )
    metrics = run_hmc_distance(task, SharedWork()).metrics
    assert metrics["hmc_converged"]
    assert float(metrics["wasserstein_ep"] or 0) < 0.5 * float(metrics["wasserstein_laplace"] or 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hmc_evaluations=3"], "hmc_evaluations=3: must be one of evaluations"),
        (["hmc_trained_by=[vi]"], "hmc_trained_by=vi"),
        (["methods=[ep]"], "hmc_trained_by=laplace: a method of this run"),
        (["chains=1"], "chains=1"),
        (["gammas=4"], "gammas=4"),
        (["datasets=[breast_cancer]"], "datasets=.breast_cancer.: not a dataset of this study"),
    ],
)
def test_impossible_settings_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        tasks_of(*words)


def test_the_divergence_is_of_hmc_from_the_approximation() -> None:
    link = SimpleNamespace(probability=lambda mean, variance: np.full(len(mean), 0.5))
    near: Any = SimpleNamespace(latent=lambda X: (np.zeros(1), np.ones(1)), link=link)
    gold = Gold(np.zeros(1), np.full(1, 4.0), np.zeros((3, 1)), np.full(1, 0.75))
    found = distances(near, np.zeros((1, 2)), gold)
    assert found["kl"][0] == pytest.approx((4.0 - 1.0 - math.log(4.0)) / 2.0)  # nats
    assert found["wasserstein"][0] == pytest.approx(1.0)  # of deviations 2 and 1
    assert found["probability_error"][0] == pytest.approx(0.25)
