"""Which tasks may end otherwise on a processor with other arithmetic."""

from __future__ import annotations

import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.plans import plan_tasks
from gpsuite.experiments.base import EXPERIMENTS


@pytest.mark.parametrize(
    ("experiment", "chaotic"),
    [("perturbation/klasso_band", 6), ("perturbation/krr_region", 0), ("wasserstein/digits", None)],
)
def test_last_bits_decide_only_where_that_is_known(experiment: str, chaotic: int | None) -> None:
    """Of kernel LASSO the bands without a bound of the norm, of images all that is trained."""
    request, options = read_request((f"experiment={experiment}", "scale=paper"))
    tasks = plan_tasks(request, options.changed)
    found = [task for task in tasks if EXPERIMENTS.get(experiment).chaotic(task)]
    assert len(found) == (len(tasks) if chaotic is None else chaotic)
    assert chaotic is None or all("no norm bound" in task.label for task in found)
