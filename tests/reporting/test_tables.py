from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gpsuite.reporting.metrics import AMOUNT, SHARE, metric
from gpsuite.reporting.tables import mean_and_error, summarise_groups, write_table
from gpsuite.statistics.estimates import T_INTERVAL


@pytest.mark.parametrize(
    ("mean", "se", "text"),
    [
        (0.33263, 0.00354, "0.3326 ± 0.0035"),
        (0.79235, 0.01344, "0.792 ± 0.013"),
        (1234.5, 41.2, "1234 ± 41"),
        (12345.6, 1234.0, "12346 ± 1234"),
        (-0.5, 0.25, "-0.50 ± 0.25"),
        (0.5, 0.0, "0.5 ± 0"),
        (0.333333, None, "0.3333"),
        (0.333333, math.nan, "0.3333"),
        (math.nan, 0.1, "–"),
        (math.inf, None, "–"),
        (1.0, 3e-12, "1 ± 3.0e-12"),
    ],
)
def test_mean_and_error_have_matching_digits(mean: float, se: float | None, text: str) -> None:
    assert mean_and_error(mean, se) == text


def runs() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": ["b", "a", "b", "a", "c", "a"],
            "risk": [0.1, 0.2, 0.3, 0.4, 0.5, math.nan],
            "mse": [1.0, 2.0, 3.0, 5.0, 7.0, math.inf],
        }
    )


def test_summary_matches_textbook_formulas() -> None:
    table = summarise_groups(runs(), ["method"], ["risk"]).set_index("method")
    assert list(table.index) == ["a", "b", "c"]
    values = [0.2, 0.4]
    error = statistics.stdev(values) / math.sqrt(2)
    low, high = stats.t.interval(0.95, 1, loc=0.3, scale=error)
    row = table.loc["a"]
    assert row["n"] == 2  # the missing one does not count
    assert row["mean"] == pytest.approx(0.3)
    assert row["standard_error"] == pytest.approx(error)
    assert (row["interval_low"], row["interval_high"]) == pytest.approx((low, high))
    assert row["interval"] == T_INTERVAL


def test_one_repetition_has_no_error_and_no_interval() -> None:
    row = summarise_groups(runs(), ["method"], ["risk"]).set_index("method").loc["c"]
    assert (row["mean"], row["n"], row["interval"]) == (0.5, 1, "")
    assert all(math.isnan(row[name]) for name in ("standard_error", "interval_low", "interval_high"))  # type: ignore[arg-type]


def test_intervals_end_where_their_metric_does() -> None:
    frame = pd.DataFrame(
        {"method": ["a", "a"], "accuracy": [0.9, 1.0], "mse_test": [0.0, 2.0], "log_density": [0.0, 2.0]}
    )
    table = summarise_groups(frame, ["method"], ["accuracy", "mse_test", "log_density"]).set_index("metric")
    reach = stats.t.ppf(0.975, 1)
    ends = table[["interval_low", "interval_high"]].to_numpy()
    assert ends == pytest.approx(np.array([[0.95 - 0.05 * reach, 1.0], [0.0, 1.0 + reach], [1.0 - reach, 1.0 + reach]]))


def test_infinite_values_give_no_mean() -> None:
    row = summarise_groups(runs(), ["method"], ["mse"]).set_index("method").loc["a"]
    assert row["n"] == 3
    assert math.isnan(row["mean"]) and row["interval"] == ""  # type: ignore[arg-type]


def test_several_keys_and_metrics_keep_their_columns_and_order() -> None:
    table = summarise_groups(runs().assign(epsilon=0.2), ["method", "epsilon"], ["risk", "mse"])
    assert list(table.columns) == [
        *("method", "epsilon", "metric", "mean", "standard_error"),
        *("n", "interval_low", "interval_high", "interval"),
    ]
    assert list(zip(table["method"], table["metric"], strict=True))[:3] == [("a", "risk"), ("a", "mse"), ("b", "risk")]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_summary_does_not_depend_on_row_order(values: list[float], random: Any) -> None:
    shuffled = list(values)
    random.shuffle(shuffled)
    first, second = (
        summarise_groups(pd.DataFrame({"g": 1, "v": column}), ["g"], ["v"]) for column in (values, shuffled)
    )
    assert first.to_csv() == second.to_csv()


def test_csv_is_exact_and_reproducible(tmp_path: Path) -> None:
    values = [0.1 + 0.2, 1 / 3, 1e-300, 123456789.123456789, math.nan]
    frame = pd.DataFrame({"x": values, "k": range(5)})
    for folder in (tmp_path / "a", tmp_path / "b"):
        write_table(frame, folder, "t", "Caption.")
    for ending in ("csv", "md", "tex"):
        assert (tmp_path / f"a/t.{ending}").read_bytes() == (tmp_path / f"b/t.{ending}").read_bytes()
    lines = (tmp_path / "a/t.csv").read_bytes().decode().split("\n")
    assert lines[0] == "x,k"
    assert [float(line.split(",")[0]) for line in lines[1:5]] == values[:4]


def test_markdown_and_latex_are_rounded_labelled_and_escaped(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ["a_b%&#|<i>", "c\\d$e{f}~^"], "v": [1 / 3, math.nan]})
    write_table(frame, tmp_path, "t", "50 % of kl_pac", {"v": "risk ± s.e."})
    tex = (tmp_path / "t.tex").read_text()
    assert r"\caption{50 \% of kl\_pac}" in tex and r"\label{tab:t}" in tex and r"\toprule" in tex
    assert r"name & risk $\pm$ s.e. \\" in tex
    assert r"a\_b\%\&\#\textbar{}\textless{}i\textgreater{} & 0.3333 \\" in tex
    assert r"c\textbackslash{}d\$e\{f\}\textasciitilde{}\textasciicircum{} & -- \\" in tex
    markdown = (tmp_path / "t.md").read_text()
    assert r"| a_b%&#\|&lt;i> | 0.3333 |" in markdown
    assert "| name | risk ± s.e. |\n| :--- | ---: |" in markdown


def test_a_latex_line_never_begins_with_what_the_line_before_would_take_as_an_argument(tmp_path: Path) -> None:
    frame = pd.DataFrame({"[a]": ["[1cm]", "*", "b"], "v": ["[x]", "*", "y"]})
    write_table(frame, tmp_path, "t", "caption")
    lines = (tmp_path / "t.tex").read_text().splitlines()
    assert [line[:3] for line in lines if "&" in line] == ["{}[", "{}[", "{}*", "b &"]


def test_control_characters_of_a_cell_are_written_out_but_in_the_csv(tmp_path: Path) -> None:
    frame = pd.DataFrame({"name": ["\x1b[31mred\u202e"]})
    write_table(frame, tmp_path, "t", "caption \x07")
    for ending in ("md", "tex"):
        text = (tmp_path / f"t.{ending}").read_text(encoding="utf-8")
        assert "\x1b" not in text and "\x07" not in text and "u202e" in text
    assert "\x1b[31m" in (tmp_path / "t.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "possible"), [("interval_coverage", SHARE), ("crps", AMOUNT)])
def test_a_score_before_tempering_can_be_what_the_score_can(name: str, possible: tuple[float, float]) -> None:
    """Intervals of a coverage reached from -1.97 to 3.04."""
    tempered, before = (metric(f"{name}{end}", "wasserstein") for end in ("", " untempered"))
    assert before.possible == tempered.possible == possible
    assert before.label == f"{tempered.label}, untempered"


def test_a_name_that_is_not_registered_is_its_own_label() -> None:
    assert metric("never untempered").label == "never, untempered"
    assert metric("never").possible == (-math.inf, math.inf)
