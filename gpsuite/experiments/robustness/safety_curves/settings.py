"""Settings of local safety: test points, radii, and which inputs may move."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.free_inputs import check_images
from gpsuite.experiments.robustness.shared.settings import (
    ClassifierSettings,
    Radius,
)
from gpsuite.experiments.settings import Count, Positive, at_least, filled, increasing, one_of, unique
from gpsuite.methods.robustness.verdict import bound_names

SHOWN = ("attack_fails", "locally_linear")


@dataclass
class LocalSafetySettings(ClassifierSettings):
    """Settings of Fig. 2 and 3 of Blaas et al. 2020.

    Attributes:
        features: which inputs may move; each is a panel of its own.
        evaluations: of the marginal likelihood in training, one number per entry of `features`, or one for all.
        gammas: radii of the L-infinity balls, in scaled inputs, increasing.
        attack_gammas: radii beyond `gammas` to which GPFGS alone is followed; empty: none.
        tolerance: largest gap between attained and proved probability.
        points: how many test points.
        boxes: limit per search; 0 gives the trivial bound.
        starts: of the strong attack.
        bound: name of the bound.
        shown: rule for the displayed point. attack_fails: GPFGS fails although an adversarial example exists;
            locally_linear: the latent mean is most nearly linear.
        shown_labels: label of the displayed point, one per entry of `features`; empty: any.
        map_points: points per axis of the contour plot; 0 for images.
        accuracy_splits: splits on which the accuracy is compared with that of all inputs of the file (SPAM only).
    """

    features: Annotated[list[str], filled, unique]
    evaluations: list[Count]
    gammas: Annotated[list[Radius], filled, unique, increasing]
    attack_gammas: Annotated[list[Radius], unique, increasing]
    tolerance: Positive
    points: Count
    boxes: Annotated[int, at_least(0)]
    starts: Count
    bound: Annotated[str, one_of(bound_names)]
    shown: Annotated[str, one_of(SHOWN)]
    shown_labels: list[str]
    map_points: Annotated[int, at_least(0)]
    accuracy_splits: Annotated[int, at_least(0)]

    def check(self) -> None:
        """Refuse unknown features, lists of another length than theirs, and more points than test rows."""
        super().check()
        check_images(self.features, self.scaling)
        for gamma in self.attack_gammas[:1]:
            require(
                gamma > self.gammas[-1],
                "attack_gammas",
                gamma,
                f"must be above {self.gammas[-1]:g}, the last of gammas",
            )
        count = len(self.features)
        for name, values, lengths in (
            ("evaluations", self.evaluations, (1, count)),
            ("shown_labels", self.shown_labels, (0, count)),
        ):
            fits = len(values) in lengths
            require(fits, name, values, f"one per entry of features={self.features} is needed")
        require(self.points <= self.test_rows, "points", self.points, f"must be 1 to {self.test_rows}")

    def evaluations_of(self, number: int) -> int:
        """Return the evaluations of panel `number`."""
        return self.evaluations[number if len(self.evaluations) > 1 else 0]

    def label_of(self, number: int) -> str:
        """Return the label of panel `number`'s displayed point, or an empty string."""
        return self.shown_labels[number] if self.shown_labels else ""
