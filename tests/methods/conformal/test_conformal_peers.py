"""The numbers of MAPIE and crepes on the same splits, and MAPIE's own example."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gpsuite.methods.conformal import ClassCalibration, adaptive_scores, split_radius

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "study_conformal.py"
RECORDS = SCRIPT.parent / "records"


@pytest.fixture(scope="module")
def study() -> dict[str, Any]:
    pytest.importorskip("mapie")
    return runpy.run_path(str(SCRIPT))


def test_mapies_example_is_reproduced(study: dict[str, Any], tmp_path: Path) -> None:
    """Plain process 33.3 %, J+GP 95.6 %, J+ 90.0 %, and ours are MAPIE's where both refit the hyperparameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study["gallery"](tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv", index_col="method")
    assert found["coverage"]["GP"] == pytest.approx(0.333, abs=5e-4)
    for word, share in (("J+GP", 0.956), ("J+", 0.9)):
        ours, theirs = found.loc[f"{word}, ours, MAPIE's refits"], found.loc[f"{word}, MAPIE"]
        assert ours["coverage"] == theirs["coverage"] == pytest.approx(share, abs=5e-4)
        assert ours["width"] == pytest.approx(theirs["width"], rel=1e-9)
    stored = pd.read_csv(RECORDS / "conformal_gallery.csv", index_col="method")
    assert found["width"].to_numpy() == pytest.approx(stored["width"].to_numpy(), rel=1e-3)


def test_split_intervals_are_mapies(study: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    centre, y, new = rng.normal(size=40), rng.normal(size=40), rng.normal(size=5)
    low, high = study["mapie_split"](study["Known"](), centre[:, None], y, new[:, None])
    radius = split_radius(np.abs(y - centre), 0.9)
    assert high - new == pytest.approx(np.full(5, radius), rel=1e-12)
    assert new - low == pytest.approx(np.full(5, radius), rel=1e-12)


def test_the_spreads_intervals_are_crepes(study: dict[str, Any]) -> None:
    pytest.importorskip("crepes")
    rng = np.random.default_rng(4)
    off, sd, new, new_sd = rng.normal(size=40), rng.uniform(1.0, 2.0, 40), rng.normal(size=5), rng.uniform(1, 2, 5)
    low, high = study["crepes_split"](off, sd, new, new_sd)
    radius = split_radius(np.abs(off) / sd, 0.9)
    assert (high - low) / (2.0 * new_sd) == pytest.approx(np.full(5, radius), rel=1e-12)


def test_adaptive_sets_without_chance_are_mapies(study: dict[str, Any]) -> None:
    """MAPIE's conformity scores with our numbers u."""
    from mapie.conformity_scores import APSConformityScore

    rng = np.random.default_rng(9)
    p, truth, u = rng.dirichlet(np.ones(4), 60), rng.integers(0, 4, 60), rng.uniform(size=60)
    cumulated = APSConformityScore.get_true_label_cumsum_proba(truth, p, np.arange(4))[0][:, 0]
    rows = np.arange(60)
    ours = adaptive_scores(p, 1.0 - u)[rows, truth]
    assert ours == pytest.approx(cumulated - u * p[rows, truth], rel=1e-12)
    assert ClassCalibration.fit(p, truth, 1.0 - u, 0.9).marginal == np.sort(ours)[54]  # ceil(61 * 0.9) = 55
