"""How far inputs may be off: numbers a little, levels of categories not at all."""

from __future__ import annotations

from collections.abc import Sequence

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.guarantee.settings import GuaranteeSettings
from gpsuite.experiments.robustness.classifiers import numbers_of
from gpsuite.rounding import rounded


def tolerances_of(data: Dataset, settings: GuaranteeSettings) -> Sequence[float]:
    """Return how far numbers may be off, in standard deviations; none where no input is a number."""
    return settings.tolerances if len(numbers_of(data.input_names, data.level_inputs)) else ()


def off_by(data: Dataset, tolerance: float) -> str:
    """Return the words for inputs that are off by so many standard deviations."""
    which = "every input that is a number (categories stay)" if data.level_inputs else "every input"
    return f"{which} is off by up to {rounded(tolerance, 6, -1)} standard deviations"
