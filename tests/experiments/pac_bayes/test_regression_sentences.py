"""What pac_bayes/regression says of its bounds: whose they are, and of which split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpsuite.config.request import read_request
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.pac_bayes.regression import _sentences

METHOD = "kl_pac_gp"


def record(split: int, bound: float, twice: float, kl_over_n: float = 1.0) -> Record:
    metrics = {"bound_kl": bound, "bound_bayes": twice, "kl_over_n": kl_over_n, "n_train": 353}
    axes: dict[str, str | int | float] = {"method": METHOD, "split": split}
    return Record("key", "pac_bayes/regression", "", axes, "done", "", metrics, {})


def test_a_draw_has_the_bound_and_the_posterior_mean_twice_as_much(tmp_path: Path) -> None:
    request: Any = read_request(["experiment=pac_bayes/regression", f"method={METHOD}", "repetitions=2"])[0]
    records = [record(0, 0.2, 0.4), record(1, 0.3, 0.6, kl_over_n=1e-6)]
    drawn, mean, others, constant = _sentences(Report(request, records, tmp_path))
    assert "at most 20 % of the predictions of a random draw of" in drawn
    assert "at most 40 % of the predictions of the posterior mean of" in mean
    assert all("of split 0 are off by more than" in each for each in (drawn, mean))
    assert "bounds from 20 % to 30 %, each its own" in others
    assert "In 1 of 2 splits the training ended at a constant" in constant
