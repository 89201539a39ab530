"""Settings of local safety: test points, radii, and which inputs may move."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.free_inputs import check_images
from gpsuite.experiments.robustness.shared.settings import (
    ClassifierSettings,
    check_distinct,
    check_positive,
    check_radius,
)
from gpsuite.methods.robustness.verdict import bound_names

Axes = dict[str, str | int | float]


SHOWN = ("attack_fails", "locally_linear")


POINT, MAP, ACCURACY = "safety_point", "safety_map", "accuracy"


@dataclass
class LocalSafetySettings(ClassifierSettings):
    """Settings of Fig. 2 and 3 of Blaas et al. 2020.

    Attributes:
        features: which inputs may move (`free_inputs.VALID`); each is a panel of its own.
        evaluations: of the marginal likelihood in training, one number per entry of `features`, or one for all.
        gammas: radii of the L-infinity balls, in scaled inputs, increasing.
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

    features: list[str] = field(default_factory=lambda: ["all"])
    evaluations: list[int] = field(default_factory=lambda: [20])
    gammas: list[float] = field(default_factory=lambda: [0.0, 0.5, 1.0])
    tolerance: float = 0.02
    points: int = 200
    boxes: int = 20000
    starts: int = 8
    bound: str = "rkhs_taylor"
    shown: str = "attack_fails"
    shown_labels: list[str] = field(default_factory=list)
    map_points: int = 0
    accuracy_splits: int = 0

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        super().check()
        check_distinct("features", self.features)
        check_images(self.features, self.scaling)
        for name, values in (("evaluations", self.evaluations), ("shown_labels", self.shown_labels)):
            fits = len(values) in (
                (1, len(self.features)) if name == "evaluations" else (0, len(self.features))
            )
            require(fits, name, values, f"one per entry of features={self.features} is needed")
        require(min(self.evaluations) >= 1, "evaluations", self.evaluations, "must be 1 or more")
        check_distinct("gammas", self.gammas)
        for gamma in self.gammas:
            check_radius("gammas", gamma)
        require(sorted(self.gammas) == self.gammas, "gammas", self.gammas, "must increase")
        check_search(self.tolerance, self.boxes, self.bound)
        require(1 <= self.points <= self.test_rows, "points", self.points, f"must be 1 to {self.test_rows}")
        require(self.starts >= 1, "starts", self.starts, "must be 1 or more")
        require(self.shown in SHOWN, "shown", self.shown, f"valid: {', '.join(SHOWN)}")
        require(self.map_points >= 0, "map_points", self.map_points, "must be 0 or more")
        require(self.accuracy_splits >= 0, "accuracy_splits", self.accuracy_splits, "must be 0 or more")

    def evaluations_of(self, number: int) -> int:
        """Return the evaluations of panel `number`."""
        return self.evaluations[number if len(self.evaluations) > 1 else 0]

    def label_of(self, number: int) -> str:
        """Return the label of panel `number`'s displayed point, or an empty string."""
        return self.shown_labels[number] if self.shown_labels else ""


def check_search(tolerance: float, boxes: int, bound: str) -> None:
    """Refuse a tolerance or number of boxes out of range, and an unknown bound."""
    check_positive("tolerance", tolerance)
    require(boxes >= 0, "boxes", boxes, "must be 0 or more")
    if bound not in bound_names():
        raise unknown_name("bound", bound, bound_names())
