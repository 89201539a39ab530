"""What the paper's text says of its curves is drawn beside ours, where the run may be held against it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from gpsuite.experiments.pac_bayes.inducing import draw
from gpsuite.experiments.pac_bayes.tables import PANELS
from tests.experiments.drawn import drawn
from tests.experiments.made_up_report import made_up_report

METHODS = {"kl_pac_sgp": "kl-PAC-SGP", "vfe": "VFE", "fitc": "FITC"}


@pytest.mark.parametrize("comparable", [True, False])
def test_printed_factors_are_drawn_where_they_may_be(comparable: bool, tmp_path: Path) -> None:
    data: Any = SimpleNamespace(name="kin40k", shown_name="kin40k", rows=40, stand_in=False)
    sheet = made_up_report(tmp_path, METHODS)
    sheet = replace(sheet, request=replace(sheet.request, dataset=data), comparable=comparable)
    rows = [
        {"inducing": M, "method": method, "metric": metric, "mean": mean, "standard_error": 0.01}
        for metric in PANELS
        for M in (100, 300)
        for method, mean in zip(METHODS, (0.2, 0.3, 0.4), strict=True)
    ]
    draw(sheet, pd.DataFrame(rows), "inducing", "made up")
    numbers = drawn(tmp_path, "inducing")
    assert numbers.loc[numbers["metric"] == "bound_factor", "mean"].tolist() == pytest.approx([1.5, 1.5])
    if comparable:
        assert (numbers["printed_low"] == 1.3).all() and (numbers["printed_high"] == 2.0).all()
    else:
        assert "printed_low" not in numbers
