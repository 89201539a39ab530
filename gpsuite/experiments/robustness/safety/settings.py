"""Settings of robustness/safety."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gpsuite.experiments.base import require
from gpsuite.experiments.robustness.shared.free_inputs import check_images
from gpsuite.experiments.robustness.shared.settings import (
    ChosenPoints,
    ClassifierSettings,
    Radius,
    up_to_ten,
)
from gpsuite.experiments.settings import Count, Positive, Rule, at_least, one_of, unique
from gpsuite.methods.robustness.search.regions import l1_ball, l2_ball, linf_ball
from gpsuite.methods.robustness.verdict import bound_names

DEFAULT_CLASSES = {name: ["3", "8"] for name in ("digits", "mnist")}  # where `classes` names none


NORMS = {"linf": linf_ball, "l2": l2_ball, "l1": l1_ball}


increasing_pair = Rule(
    lambda ends: not ends or (len(ends) == 2 and ends[0] < ends[1]),
    "two increasing numbers, or [] for every input's own range",
)


@dataclass
class SafetySettings(ClassifierSettings, ChosenPoints):
    """Settings of certified safety on any dataset.

    Attributes:
        classes: two to ten labels, of two the negative class first; empty: the dataset's own.
        features: which inputs may move.
        uncertain: names of the inputs that may move; empty: `features` chooses.
        within: how far, one amount per name of `uncertain` in the input's own units; empty: `radius` for all.
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
        margin_radii: radii at which these points are judged among three classes.
        margin_boxes: limit for all searches of one of these verdicts.
        samples: points sampled in each region by the checks.
    """

    classes: Annotated[list[str], up_to_ten]
    features: str
    uncertain: Annotated[list[str], unique]
    within: list[Positive]
    evaluations: Count
    norm: Annotated[str, one_of(NORMS)]
    radius: Radius
    domain: Annotated[list[float], increasing_pair]
    points: Annotated[list[int], unique]
    count: Count
    tolerance: Positive
    boxes: Annotated[int, at_least(0)]
    bound: Annotated[str, one_of(bound_names)]
    starts: Count
    certificates: bool
    certificate_boxes: Count
    check_points: Annotated[int, at_least(0)]
    check_tolerances: list[Positive]
    margin_radii: Annotated[list[Positive], unique]
    margin_boxes: Count
    samples: Count

    def check(self) -> None:
        """Refuse features that the inputs do not have, and test rows that there are not."""
        super().check()
        if not self.uncertain:
            check_images([self.features], self.scaling)
        fits = len(self.within) in (0, len(self.uncertain))
        require(fits, "within", self.within, f"one amount per input of uncertain={self.uncertain} is needed")
        require(
            not self.within or self.norm == "linf", "norm", self.norm, "amounts of `within` are a box's: linf"
        )
        self.refuse_absent_points()
