"""Settings of robustness/safety."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpsuite.errors import unknown_name
from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.safety_curves.settings import check_search
from gpsuite.experiments.robustness.shared.free_inputs import check_images
from gpsuite.experiments.robustness.shared.settings import (
    ClassifierSettings,
    check_distinct,
    check_point,
    check_positive,
    check_radius,
)
from gpsuite.methods.robustness.search.regions import l1_ball, l2_ball, linf_ball

POINT, CHECK = "safety_any", "safety_check"


DEFAULT_CLASSES = {name: ["3", "8"] for name in ("digits", "mnist")}  # where `classes` names none


NORMS = {"linf": linf_ball, "l2": l2_ball, "l1": l1_ball}


@dataclass
class SafetySettings(ClassifierSettings):
    """Settings of certified safety on any dataset.

    Attributes:
        features: which inputs may move (`free_inputs.VALID`).
        evaluations: of the marginal likelihood in training.
        norm: of the region: linf, l2 or l1.
        radius: of the region, in scaled inputs.
        domain: lowest and highest value of every input, in the dataset's own units; empty: each input's own range.
        points: test rows to certify; empty: the first `count`.
        count: how many, if `points` is empty.
        tolerance: largest gap between attained and proved probability.
        boxes: limit for both searches of a point; 0 gives the trivial bound.
        bound: name of the bound.
        starts: of the attack that is set against the bounds.
        certificates: whether to write a certificate for every point.
        certificate_boxes: limit per claim when a certificate is made; it then claims as much as it can prove.
        check_points: points at which the paper's statements are checked.
        check_tolerances: tolerances of these checks.
        samples: points sampled in each region by the checks.
    """

    features: str = "shortest5"
    evaluations: int = 20
    norm: str = "linf"
    radius: float = 0.5
    domain: list[float] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    count: int = 20
    tolerance: float = 0.02
    boxes: int = 20000
    bound: str = "rkhs_taylor"
    starts: int = 8
    certificates: bool = True
    certificate_boxes: int = 2000
    check_points: int = 5
    check_tolerances: list[float] = field(default_factory=lambda: [0.1, 0.02, 0.005])
    samples: int = 2000

    def check(self) -> None:
        """Refuse values of the right type that are impossible."""
        super().check()
        require(self.evaluations >= 1, "evaluations", self.evaluations, "must be 1 or more")
        if self.norm not in NORMS:
            raise unknown_name("norm", self.norm, NORMS)
        check_images([self.features], self.scaling)
        check_radius("radius", self.radius)
        ordered = not self.domain or (len(self.domain) == 2 and self.domain[0] < self.domain[1])
        require(ordered, "domain", self.domain, "two increasing numbers, or [] for every input's own range")
        for point in self.points:
            check_point("points", point, self.test_rows)
        if self.points:
            check_distinct("points", self.points)
        require(1 <= self.count <= self.test_rows, "count", self.count, f"must be 1 to {self.test_rows}")
        check_search(self.tolerance, self.boxes, self.bound)
        for name in ("starts", "samples", "certificate_boxes"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "must be 1 or more")
        require(self.check_points >= 0, "check_points", self.check_points, "must be 0 or more")
        for tolerance in self.check_tolerances:
            check_positive("check_tolerances", tolerance)

    @property
    def chosen_points(self) -> list[int]:
        """The test rows to certify."""
        return self.points or list(range(self.count))
