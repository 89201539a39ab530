"""A method that nobody shipped: its options, a `Method` and one YAML file are all that it takes."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from gpsuite import cli
from gpsuite.config import files
from gpsuite.experiments.base import METHODS, MethodOptions
from gpsuite.experiments.pac_bayes.methods import (
    FULL,
    REGRESSION,
    RISK_BOUND,
    RiskMethod,
    exact_posterior,
    full_cost,
)
from gpsuite.experiments.pac_bayes.training import Trained, Training
from gpsuite.methods.pac_bayes.losses import Loss
from gpsuite.models.config import Hyperparameters

YAML = "builder: spread_gp\ntitle: spread GP\nreference: nobody\nnoise: 0.4\n"


@dataclass(frozen=True, kw_only=True)
class SpreadOptions(MethodOptions):
    noise: float = 0.1


def by_spread(work: Training[SpreadOptions], loss: Loss) -> Trained:
    width = 2.0 * float(np.sqrt(work.X.var(axis=0).sum()))  # nothing is searched
    return Trained(
        Hyperparameters(1.0, (width,) * work.n_lengthscales, work.options.noise), "done", "", 1, 0.0
    )


METHODS.register("spread_gp")(
    RiskMethod(options=SpreadOptions, dataset_tasks=REGRESSION, traits=frozenset({RISK_BOUND, FULL}),
               train=by_spread, certify=exact_posterior, cost=full_cost)
)  # fmt: skip


def test_it_gets_workers_resume_tables_figures_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(files.conf_dir(), tmp_path / "conf")
    (tmp_path / "conf/method/pac_bayes/spread_gp.yaml").write_text(YAML, encoding="utf-8")
    monkeypatch.setattr(files, "shipped_conf_dir", lambda: tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    words = ["gpsuite", "run", "experiment=pac_bayes/regression", "method=spread_gp", "scale=smoke"]
    for mode, said in (("processes", "[2/2] done  spread GP"), ("serial", "2 of 2 tasks are stored")):
        monkeypatch.setattr("sys.argv", [*words, f"parallel={mode}"])
        assert cli.main() == 0
        out, err = capsys.readouterr()
        assert said in err
    folder = next(Path(line) for line in out.splitlines() if line.startswith("results/"))
    assert "spread GP" in (folder / "tables/regression.md").read_text(encoding="utf-8")
    assert set(pd.read_csv(folder / "figures/regression.csv")["method"]) == {"spread_gp"}
    assert (folder / "comparison.csv").exists()
