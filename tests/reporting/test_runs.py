from __future__ import annotations

from pathlib import Path

from gpsuite.reporting.collect import find_runs


def test_finds_run_folders_in_the_order_shown(tmp_path: Path) -> None:
    for name in (
        *(
            "robustness/a/quick",
            "pac_bayes/b/smoke",
            "pac_bayes/b/paper",
            "pac_bayes/b/paper~t",
            "tour/quick",
        ),
        *(
            "published/pac_bayes/b/paper",
            "published/pac_bayes/b/paper~u",
            "published/tour/quick",
            ".records/pac_bayes/quick",
            "pac_bayes/b/other",
        ),
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "run.json").write_text("{}")
    (tmp_path / "pac_bayes/b/quick").mkdir()  # empty: not a run
    runs = find_runs(tmp_path)
    assert [run.name for run in runs] == [
        *("pac_bayes/b/paper", "pac_bayes/b/smoke", "pac_bayes/b/paper~t", "pac_bayes/b/paper~u"),
        *("robustness/a/quick", "tour/quick"),
    ]
    assert [run.name for run in runs if run.published] == ["pac_bayes/b/paper~u"]  # the others have own runs
    assert [(run.family, run.experiment, run.scale, run.tag) for run in runs[2:3]] == [
        ("pac_bayes", "pac_bayes/b", "paper", "t")
    ]
