from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpsuite.config.request import read_request
from gpsuite.data.loading import load, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.errors import UserError
from gpsuite.experiments.base import DIVERGED, EXPERIMENTS, Outcome, SharedWork, Task
from gpsuite.experiments.pac_bayes import fits
from gpsuite.experiments.pac_bayes import fits as fitting
from gpsuite.experiments.pac_bayes.certificates import DESCRIPTION
from gpsuite.experiments.pac_bayes.fits import _held_out, read_split, run_fit
from gpsuite.methods.pac_bayes.bounds import binomial_upper_bound


def task(*words: str, **params: Any) -> Task[Any]:
    request, _ = read_request(
        ["experiment=pac_bayes/regression", "repetitions=1", "max_evaluations=12", *words]
    )
    made = EXPERIMENTS.get(request.experiment).plan(request)[0]
    return replace(made, params=replace(made.params, **params))


def run(made: Task[Any]) -> Outcome:
    return run_fit(made, SharedWork())


def test_a_goal_in_own_units_is_the_same_goal_in_standard_deviations() -> None:
    made = task("method=kl_pac_gp", "accuracy=40")
    scale = read_split(made.require_dataset(), made.params).scale
    own = run(made).metrics
    standard = run(task("method=kl_pac_gp", f"epsilon={40 / scale!r}")).metrics
    assert own["epsilon_standardised"] == pytest.approx(40 / scale, rel=1e-14)
    assert own == standard


@pytest.mark.parametrize("scaling", ["all", "train"])
def test_the_split_is_standardised_as_asked(scaling: str) -> None:
    import numpy as np

    made = task("method=kl_pac_gp", f"scaling={scaling}")
    split = read_split(made.require_dataset(), made.params)
    rows = len(load(made.require_dataset()).X)
    assert (len(split.y), len(split.y_test)) == (rows - round(rows * 0.2 + 0.5), round(rows * 0.2 + 0.5))
    every = np.concatenate([split.y, split.y_test])
    standardised = every if scaling == "all" else split.y
    inputs = np.vstack([split.X, split.X_test]) if scaling == "all" else split.X
    np.testing.assert_allclose(inputs.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(inputs.std(axis=0), 1.0, rtol=1e-12)
    assert standardised.mean() == pytest.approx(0.0, abs=1e-12)
    assert standardised.std() == pytest.approx(1.0, rel=1e-12)
    assert split.y.std() == pytest.approx(1.0, rel=1e-12) or scaling == "all"


def test_a_row_that_is_drawn_often_is_on_both_sides_of_every_split(tmp_path: Path) -> None:
    """Were its copies kept together, the training rows would be no draws where equal rows are."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = np.where(np.arange(100)[:, None] < 40, [[2.0, 3.0]], rng.normal(size=(100, 2)))
    path = tmp_path / "table.csv"
    np.savetxt(path, rng.permutation(rows), delimiter=",", header="a,y", comments="")
    dataset = prepare(CsvSpec(path=str(path), target="y"), cache_dir=tmp_path)
    made = task("method=kl_pac_gp", "scaling=all")
    for seed in range(20):
        split = read_split(dataset, replace(made.params, split_seed=seed))
        often = int(np.unique(split.y, return_counts=True)[1].max())
        assert 25 <= often <= 39
        assert split.copies.train is not None
        assert len(split.copies.train.places) <= 61


def test_the_bound_covers_the_training_risk_and_its_parts_add_up() -> None:
    made = task("method=kl_pac_gp")
    outcome = run(made)
    numbers = {
        name: float(value) for name, value in outcome.metrics.items() if isinstance(value, int | float)
    }
    # the certificate states the risk and the KL with what rounding can have hidden of them
    claim = json.loads(str(outcome.arrays[DESCRIPTION]))["claim"]
    assert numbers["gibbs_risk_train"] <= claim["gibbs_risk"] <= numbers["gibbs_risk_train"] + 1e-9
    assert numbers["kl"] < claim["kl"] <= numbers["kl"] * (1 + 1e-9)
    assert numbers["gibbs_risk_train"] < numbers["bound_kl"] < numbers["bound_sqrt"]
    c = (claim["kl"] + numbers["log_theta"] + numbers["confidence"]) / numbers["n_train"]
    assert numbers["bound_sqrt"] == pytest.approx(claim["gibbs_risk"] + (c / 2) ** 0.5, rel=1e-15)
    scale = read_split(made.require_dataset(), made.params).scale
    assert numbers["rmse_test_own_units"] == pytest.approx(scale * numbers["mse_test"] ** 0.5, rel=1e-12)
    assert numbers["rmse_test_own_units"] > 10  # diabetes scores vary by tens


@pytest.mark.parametrize("rows", [7, 89, 101])
def test_no_error_on_the_test_rows_is_lost_in_rounding(rows: int) -> None:
    for errors in range(rows + 1):
        found: Any = SimpleNamespace(bayes_risk_test=errors / rows, n_test=rows, gibbs_risk_test=0.1)
        bound = _held_out(found, "band01", 0.05)["test_bound_bayes"]
        assert bound == binomial_upper_bound(errors, rows, 0.05)


def test_training_that_runs_out_of_evaluations_says_so() -> None:
    outcome = run(task("method=kl_pac_gp", max_evaluations=3))
    assert outcome.status == "budget"
    assert "3 evaluations" in outcome.reason
    assert outcome.metrics["evaluations"] == 3


def test_training_that_diverged_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    train = fitting.train
    monkeypatch.setattr(
        fitting, "train", lambda *given: replace(train(*given), status=DIVERGED, reason="not a number")
    )
    outcome = run(task("method=kl_pac_gp"))
    assert (outcome.status, outcome.reason) == (DIVERGED, "not a number")
    assert not outcome.metrics and not outcome.arrays


def test_training_that_runs_out_of_time_keeps_the_best_valid_answer() -> None:
    outcome = run(replace(task("method=kl_pac_gp"), budget_seconds=1e-6))
    assert outcome.status == "budget"
    assert 0 < float(outcome.metrics["bound_kl"] or 0) <= 1


def test_the_full_gp_trains_once_for_all_goals() -> None:
    shared = SharedWork()
    first = run_fit(task("method=full_gp", "epsilon=0.4"), shared)
    second = run_fit(task("method=full_gp", "epsilon=0.8"), shared)
    alone = run(task("method=full_gp", "epsilon=0.8"))
    assert second.metrics == alone.metrics
    assert first.metrics["noise_variance"] == second.metrics["noise_variance"]
    assert float(first.metrics["bound_kl"] or 0) > float(second.metrics["bound_kl"] or 0)


def test_a_sparse_fit_is_certified_like_a_full_one() -> None:
    metrics = run(task("method=kl_pac_sgp", "method.inducing=15")).metrics
    again = run(task("method=kl_pac_sgp", "method.inducing=15")).metrics
    assert metrics == again  # the k-means start belongs to the split
    assert float(metrics["gibbs_risk_train"] or 0) < float(metrics["bound_kl"] or 0) < 1
    other = run(task("method=kl_pac_sgp", "method.inducing=5"))
    assert other.arrays["inducing_inputs"].shape == (5, 10)
    assert other.metrics["bound_kl"] != metrics["bound_kl"]


@pytest.mark.parametrize("method", ["kl_pac_sgp", "vfe", "kl_pac_free_form"])
def test_the_staged_search_is_certified_like_the_published_one(method: str) -> None:
    words = (f"method={method}", "method.inducing=5")
    published, staged = run(task(*words)), run(task(*words, "method.search=staged"))
    assert staged.metrics["objective"] != published.metrics["objective"]
    assert staged.metrics.keys() == published.metrics.keys()
    assert float(staged.metrics["gibbs_risk_train"] or 0) < float(staged.metrics["bound_kl"] or 0) < 1


def test_more_inducing_inputs_than_training_rows_are_refused(tmp_path: Path) -> None:
    words = csv_words(tmp_path, [(float(i), (i * 7) % 11) for i in range(25)])
    with pytest.raises(UserError, match=r"method.inducing=21: must be at most the 20 training rows"):
        task("method=kl_pac_sgp", "method.inducing=21", *words)


def test_with_duplicate_rows_inducing_inputs_are_cut_to_the_different_ones(tmp_path: Path) -> None:
    words = csv_words(tmp_path, [(float(i % 4), (i * 7) % 11) for i in range(25)])
    outcome = run(task("method=kl_pac_sgp", "method.inducing=20", *words))
    assert outcome.arrays["inducing_inputs"].shape == (4, 1)


def csv_words(folder: Path, rows: list[tuple[float, int]]) -> list[str]:
    text = "x,y\n" + "\n".join(f"{x},{y}" for x, y in rows) + "\n"
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return ["dataset=csv", f"dataset.path={folder / 't.csv'}", "dataset.target=y"]


@pytest.mark.parametrize("method", ["kl_pac_gp_restarts", "kl_pac_sgp_restarts"])
def test_restarts_keep_the_best_bound_and_report_the_spread(method: str) -> None:
    inducing = ["method.inducing=5"] if "sgp" in method else []
    single = run(task(f"method={method}", "method.starts=1", *inducing)).metrics
    several = run(task(f"method={method}", "method.starts=3", *inducing)).metrics
    assert float(several["objective"] or 1) <= float(single["objective"] or 0)
    assert float(several["start_spread"] or 0) > 0
    assert "start_spread" not in single
    assert several["evaluations"] == 3 * 12


def test_vfe_is_certified_with_both_posteriors_from_one_training() -> None:
    shared = SharedWork()
    own = run_fit(task("method=vfe", "method.inducing=10"), shared)
    borrowed = run_fit(task("method=vfe_fitc_posterior", "method.inducing=10"), shared)
    fresh = run(task("method=vfe_fitc_posterior", "method.inducing=10"))
    assert borrowed.metrics == fresh.metrics
    assert own.metrics["noise_variance"] == borrowed.metrics["noise_variance"]
    assert own.metrics["bound_kl"] != borrowed.metrics["bound_kl"]
    assert task("method=vfe").group == task("method=vfe_fitc_posterior").group


def test_a_useless_bound_is_reported_as_vacuous(tmp_path: Path) -> None:
    words = csv_words(tmp_path, [(float(i), (i * 7919) % 1000) for i in range(25)])
    outcome = run(task("method=kl_pac_gp", "epsilon=0.001", *words))
    assert (outcome.status, outcome.reason[:20]) == ("done", "the bound is vacuous")
    assert "(vacuous)" in outcome.headline


def test_too_many_rows_for_a_full_gp_name_the_sparse_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fits, "FULL_GP_ROWS", 100)
    with pytest.raises(UserError, match="method=kl_pac_sgp"):
        task("method=kl_pac_gp")
    assert task("method=kl_pac_sgp")


def test_a_free_posterior_ends_at_or_below_the_bound_of_the_fitc_form() -> None:
    bound = float(run(task("method=kl_pac_sgp", "method.inducing=10")).metrics["objective"] or 0)
    freed = run(task("method=kl_pac_free_form", "method.inducing=10"))
    assert float(freed.metrics["objective"] or 1) < bound
    assert freed.arrays["inducing_inputs"].shape == (10, 10)
    assert 12 < int(freed.metrics["evaluations"] or 0) <= 24


def test_all_starts_share_the_seconds_of_a_task() -> None:
    made = replace(task("method=kl_pac_gp_restarts", "method.starts=50"), budget_seconds=1e-6)
    outcome = run(made)
    assert outcome.status == "budget"
    assert float(outcome.metrics["evaluations"] or 0) < 12  # the first start alone
