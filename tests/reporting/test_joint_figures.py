from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from gpsuite.errors import ResultsError
from gpsuite.reporting.joint_figures import JOINT, PANELS, draw_joint_figures

CONF = Path(__file__).parents[2] / "conf"


def make(
    results: Path, run: str, numbers: pd.DataFrame, dataset: str | None, notes: list[str] | None = None, study: str = ""
) -> None:
    """Write what a run leaves of its figure."""
    folder = results / run
    (folder / "figures").mkdir(parents=True)
    numbers.to_csv(folder / "figures" / f"{folder.parent.name}.csv", index=False)
    about = {"dataset": {"name": dataset} if dataset else None, "notes": notes or [], "not_comparable": study}
    (folder / "run.json").write_text(json.dumps(about))


def inducing(scale: float, numbers: tuple[int, ...] = (100, 300)) -> pd.DataFrame:
    rows = [
        {"method": method, "inducing": m, "metric": metric, "mean": scale * m, "standard_error": 0.1, "n": 3}
        for method in ("kl_pac_sgp", "vfe", "fitc")
        for m in numbers
        for metric in PANELS
    ]
    return pd.DataFrame(rows)


def test_runs_of_one_paper_figure_become_one_and_studies_on_other_data_stay_out(tmp_path: Path) -> None:
    make(tmp_path, "pac_bayes/inducing_pol/paper~part", inducing(1.0), "pol", ["3 of 10 repetitions"])
    make(tmp_path, "pac_bayes/inducing_pol/paper~less", inducing(9.0, (100,)), "pol")
    make(tmp_path, "pac_bayes/inducing_pol/paper~boston", inducing(7.0, (10, 20, 50)), "boston")
    make(tmp_path, "pac_bayes/inducing_pol/paper~fast", inducing(8.0, (100, 200, 300)), "pol", study="search")
    make(tmp_path, "pac_bayes/inducing_kin40k/quick", inducing(5.0), "kin40k")
    assert draw_joint_figures(tmp_path, CONF) == []  # a single run has its own figure
    make(tmp_path, "pac_bayes/inducing_kin40k/paper", inducing(2.0), "kin40k")
    (image,) = draw_joint_figures(tmp_path, CONF)
    assert image == tmp_path / "figures" / "reeb2018_fig3.png"
    shown = pd.read_csv(image.with_suffix(".csv"))
    assert set(shown["run"]) == {"pol: 3 of 10 repetitions", "kin40k"}
    means = shown[(shown["inducing"] == 300) & (shown["metric"] == "mse_test")].groupby("run")["mean"].first()
    assert means.to_dict() == {"pol: 3 of 10 repetitions": 300.0, "kin40k": 600.0}


def test_the_changes_of_all_runs_are_next_to_the_printed_ones(tmp_path: Path) -> None:
    for tag, dataset, mean, n in (("a", "pol", 24.0, 3), ("b", "kin40k", 7.0, 4), ("c", "pol", 19.0, 10)):
        row = {"dataset": dataset, "inducing": 100, "metric": "mse_change_percent", "mean": mean, "n": n}
        numbers = pd.DataFrame([{**row, "interval_low": mean - 2, "interval_high": mean + 2}])
        make(tmp_path, f"pac_bayes/loss_exp/paper~{tag}", numbers, None)
    (image,) = draw_joint_figures(tmp_path, CONF)
    shown = pd.read_csv(image.with_suffix(".csv")).set_index("dataset")
    assert shown["printed"].to_dict() == {"pol": -25.0, "kin40k": 12.0}
    assert shown["mean"].to_dict() == {"pol": 19.0, "kin40k": 7.0}  # the run of most splits


def test_deltas_of_the_datasets_share_a_scale_and_a_radius(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[list[float]] = []
    boxplot = Axes.boxplot

    def watched(ax: Axes, values: Any, **options: Any) -> Any:
        drawn.extend(each.tolist() for each in values)
        return boxplot(ax, values, **options)

    monkeypatch.setattr(Axes, "boxplot", watched)
    rows = [{"method": m, "evaluations": e, "radius": r, "delta": 0.1 * e * r} for m in ("laplace", "ep")
            for e in (10, 40) for r in (0.1, 0.05)]  # fmt: skip
    for name in ("synthetic2d", "spam"):
        data = "spambase11" if name == "spam" else name
        make(tmp_path, f"robustness/distribution_{name}/paper", pd.DataFrame(rows), data)
    (image,) = draw_joint_figures(tmp_path, CONF)
    shown = pd.read_csv(image.with_suffix(".csv"))
    assert set(shown["run"]) == {"synthetic2d", "spambase11"}
    assert shown["delta"].max() == pytest.approx(0.4)
    np.testing.assert_allclose(drawn, [[0.1], [0.4]] * 4)  # two methods on two datasets, at the first radius


def test_a_damaged_figure_is_named(tmp_path: Path) -> None:
    for name in ("pol", "kin40k"):
        make(tmp_path, f"pac_bayes/inducing_{name}/paper", inducing(1.0), name)
    (tmp_path / "pac_bayes/inducing_pol/paper/figures/inducing_pol.csv").write_text("")
    with pytest.raises(ResultsError, match=r"cannot read .*inducing_pol\.csv"):
        draw_joint_figures(tmp_path, CONF)


def test_every_joint_figure_names_a_paper_figure_and_experiments() -> None:
    experiments = {
        str(p.relative_to(CONF / "experiment").with_suffix("")) for p in (CONF / "experiment").rglob("*.yaml")
    }
    for joint in JOINT.values():
        assert set(joint.experiments) <= experiments
        assert joint.title.startswith(("Fig.", "Table"))
