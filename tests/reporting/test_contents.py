from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpsuite.reporting.collect import RunComparison, RunFolder
from gpsuite.reporting.comparison import ComparisonRow
from gpsuite.reporting.pages import group_by_verdict

ROW = ComparisonRow(
    *(
        "X1",
        "p1",
        "Table 1",
        "pac_bayes/one",
        "toy",
        "m",
        "result",
        "risk",
        "risk",
        "eps = 0.2",
        "0.5",
        "0.4 to 0.6",
    ),
    *(0.5, None, 3, "", 0.0, "reproduced", None, "", "", ""),
)
RUN = RunFolder(Path("results/pac_bayes/one/quick"), "pac_bayes/one", "quick", "")
OTHER = RunFolder(Path("results/pac_bayes/two/quick"), "pac_bayes/two", "quick", "")
ANCHORS = {RUN.path: "run-one", OTHER.path: "run-two"}


def test_values_are_grouped_by_verdict_then_experiment_and_point_to_their_rows() -> None:
    bad = replace(ROW, id="X2", verdict="not reproduced", condition="a long definition " * 5)
    best = [
        RunComparison("pac_bayes/one", RUN, [bad, ROW]),
        RunComparison("pac_bayes/two", OTHER, [replace(bad, id="X3")]),
        RunComparison("pac_bayes/three", None, [replace(ROW, id="X4", verdict="not run")]),
    ]
    groups = group_by_verdict(best, ANCHORS)
    assert [(group.verdict, group.count) for group in groups] == [
        ("reproduced", 1),
        ("not reproduced", 2),
        ("not run", 1),
    ]
    assert groups[2].experiments[0][1][0].target == f"paper-{ROW.paper}"
    (_, (good,)), *_ = groups[0].experiments
    assert (good.text, good.target) == ("risk, m, eps = 0.2", "run-one-X1")
    assert [name for name, _ in groups[1].experiments] == ["pac_bayes/one", "pac_bayes/two"]
    assert groups[1].experiments[1][1][0].target == "run-two-X3"
    assert groups[1].experiments[1][1][0].text == "risk, m"
