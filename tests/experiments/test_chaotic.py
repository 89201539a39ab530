"""Which tasks may end otherwise on a processor with other arithmetic."""

from __future__ import annotations

import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.plans import plan_tasks
from gpsuite.experiments.base import EXPERIMENTS


@pytest.mark.parametrize(
    ("experiment", "chaotic"),
    [("perturbation/klasso_band", 2), ("perturbation/krr_region", 0), ("wasserstein/digits", 30)],
)
def test_last_bits_decide_only_where_that_is_known(experiment: str, chaotic: int) -> None:
    """Of kernel LASSO bands without a bound of the norm, of images the networks."""
    request, options = read_request((f"experiment={experiment}", "scale=paper"))
    tasks = plan_tasks(request, options.changed)
    found = [task for task in tasks if EXPERIMENTS.get(experiment).chaotic(task)]
    assert len(found) == chaotic
    assert experiment != "perturbation/klasso_band" or all("values  no norm bound" in t.label for t in found)
