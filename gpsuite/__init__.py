"""gpsuite: Gaussian processes with guarantees, rerun, checked and extended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpsuite.experiments.guarantee.saved import Saved

__version__ = "0.1.0"


def load(run: str | Path) -> Saved:
    """Return the model in the folder of a run of experiment=guarantee.

    Its `predict(X)` gives predictions and intervals at inputs [B, D] in their own units, `gpflow_model()` the GPflow
    model, `guarantee` what the run proved, in sentences.

    Raises:
        UnusableFileError: if the folder holds no model, or a damaged one.
    """
    from gpsuite.experiments.guarantee.saved import load as read

    return read(run)
