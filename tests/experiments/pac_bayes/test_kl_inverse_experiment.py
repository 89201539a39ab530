from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpsuite.config.request import read_request
from gpsuite.experiments.base import EXPERIMENTS, SharedWork
from gpsuite.experiments.pac_bayes import kl_inverse as experiment
from gpsuite.methods.pac_bayes.kl_inverse import KLInverse, kl_inverse


def outcomes(*words: str) -> dict[float, dict[str, Any]]:
    request, _ = read_request(["experiment=pac_bayes/kl_inverse", "scale=smoke", *words])
    tasks = EXPERIMENTS.get(request.experiment).plan(request)
    return {float(task.axes["c"]): dict(experiment.run(task, SharedWork()).metrics) for task in tasks}


def test_the_inverse_keeps_its_bounds_and_edges() -> None:
    found = outcomes()
    assert set(found) == {0.0, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0}
    for c, metrics in found.items():
        assert (metrics["above_pinsker"], metrics["above_one"], metrics["off_edges"]) == (0, 0, 0)
        assert metrics["start"] == pytest.approx(1 - np.exp(-c), abs=1e-14)
    assert max(m["derivative_error"] or 0.0 for m in found.values()) < 1e-8


def test_where_the_risk_rounds_to_one_no_derivative_is_checked() -> None:
    (metrics,) = outcomes("c_values=[1e300]").values()
    assert metrics["derivative_error"] is None
    assert (metrics["above_pinsker"], metrics["above_one"], metrics["off_edges"]) == (0, 0, 0)


@pytest.mark.parametrize(("part", "caught"), [("p", "above_pinsker"), ("dp_dq", "derivative_error")])
def test_a_wrong_inverse_is_caught(part: str, caught: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(q: Any, c: Any) -> KLInverse:
        found = kl_inverse(q, c)
        values = {name: getattr(found, name) for name in ("p", "one_minus_p", "dp_dq", "dp_dc")}
        shift = 0.3 if part == "p" else 0.0
        values[part] = values[part] * (1.0 if shift else 1.001) + shift
        return KLInverse(**values)

    monkeypatch.setattr(experiment, "kl_inverse", wrong)
    metrics = outcomes("c_values=[0.1]")[0.1]
    assert float(metrics[caught]) > 5e-4
