"""Settings of robustness/explain_mnist358."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.settings import ClassifierSettings
from gpsuite.experiments.settings import Count, Positive, Share, at_least, filled, unique


@dataclass
class PixelMapSettings(ClassifierSettings):
    """Settings of Fig. 5 of Blaas et al. 2020.

    Attributes:
        evaluations: of the marginal likelihood in training.
        digits: labels of which one test image each is shown.
        images: test images of each label; the tables count over those that are classified correctly.
        shown_probability: of the test images of a label that are classified correctly, the one is shown whose class
            probability is nearest; the others follow by their distance.
        gamma: length of the one-sided intervals, in pixel values from 0 to 1.
        negative: share of the largest |effect| below which, with a minus sign, a pixel belongs to a negative patch.
        random_patches: of equal size, against which the whitened patch is held.
        lime_samples: of LIME, per pixel.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both ends of all intervals of an image.
    """

    evaluations: Count
    digits: Annotated[list[str], filled, unique]
    images: Count
    shown_probability: Share
    gamma: Positive
    negative: Share
    random_patches: Count
    lime_samples: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse inputs that are no pixels."""
        super().check()
        require(self.scaling == "pixels", "scaling", self.scaling, "pixel maps need scaling=pixels")
