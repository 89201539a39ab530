"""Search and certification around a point, the same for classifiers of two and of several classes.

All calls of the experiments into the searches and certificates of class probabilities are here. A point follows the
probability of one class: of two the second one's, of several the predicted one's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from gpsuite.arrays import FloatArray, IntArray
from gpsuite.budget import Budget
from gpsuite.certificates.certificate import POSITIVE, Certificate, Claim, ClassQuantity, MarginQuantity, Origin, pack
from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.robustness.classifiers import Classifier
from gpsuite.methods.robustness.certification import certify
from gpsuite.methods.robustness.explain.lines import Lines, binary_lines, softmax_lines
from gpsuite.methods.robustness.point_search import PointSearch, margin_attack
from gpsuite.methods.robustness.search.attacks import strong_attack
from gpsuite.methods.robustness.search.branch_and_bound import Extremum
from gpsuite.methods.robustness.search.regions import Region
from gpsuite.methods.robustness.verdict import ClassRange, Verdict, binary_comparison, complement, judge
from gpsuite.models.classification.approximation import GPCPosterior
from gpsuite.models.classification.multiclass_posterior import MultiClassPosterior
from gpsuite.seeds import stream

BOUND = "rkhs_taylor"
LATENT_ONLY = 3  # rivals from which on a quick verdict asks only the latent functions
# a class' number in the reasons of `PointSearch`
_NUMBER = re.compile(r"(?<=class )\d+(?= is ahead)|(?<=between classes )\d+(?= and \d)|(?<= and )\d+(?= at the point)")


@dataclass(frozen=True)
class Limits:
    """Limits of the searches of one point.

    Attributes:
        tolerance: largest gap between attained and proved probability.
        starts: of the attack.
        point: number of the test row, which seeds the attack.
    """

    tolerance: float
    starts: int
    point: int


@dataclass(frozen=True, eq=False)
class Judged:
    """Findings around a point.

    Attributes:
        verdict: on the point's class.
        minimum: of the followed class' probability.
        maximum: of the same.
        searches: all of them, those of margins included.
        attack: what the attack reached, and whether it succeeds.
        known: further metrics.
        margins: what was found of the margin over each rival that was searched. Of two classes none.
        margin_proof: the proof of the class of many by only the latent functions, if there is one.
        detail: what `certify` needs of the search itself.
    """

    verdict: Verdict
    minimum: Extremum
    maximum: Extremum
    searches: Sequence[Extremum]
    attack: Mapping[str, Any]
    known: Mapping[str, Any] = field(default_factory=dict)
    margins: Mapping[int, Extremum] = field(default_factory=dict)
    margin_proof: Extremum | None = None
    detail: Any = None

    @property
    def limits(self) -> list[str]:
        """Reasons why searches ended before their goal."""
        return list(dict.fromkeys(each.reason for each in self.searches if each.status == "budget"))


@dataclass(frozen=True, eq=False)
class Proof:
    """A certificate.

    Attributes:
        description: of the certificate.
        arrays: of the same.
        lowest: claimed of the followed class' probability.
        highest: claimed of the same.
        decides: whether it proves the verdict.
        out_of_time: whether seconds ended it.
    """

    description: Mapping[str, Any]
    arrays: Mapping[str, npt.NDArray[Any]]
    lowest: float
    highest: float
    decides: bool
    out_of_time: bool


class Point(Protocol):
    """The searches around one scaled point, some of whose inputs may move."""

    own: int
    probability: float
    only_stated: bool  # whether the cubature of the probabilities states its error and proves none

    def stays(self, region: Region, budget: Budget) -> tuple[str, bool, list[str]]:
        """Return what is known of the class over a region by proofs, whether it is proved, and why searches ended."""

    def bounds(self, own: int, region: Region, tolerance: float, budget: Budget) -> tuple[float, float, list[str]]:
        """Return the proved range of a class' probability, NaN if it is only stated, and why searches ended."""

    def judge(self, region: Region, limits: Limits, budget: Budget) -> Judged:
        """Search verdict and range, and compare an attack with them."""

    def certify(
        self, judged: Judged, region: Region, most_boxes: int, budget: Budget, origin: Origin
    ) -> tuple[Judged, Proof]:
        """Return the point with what the certificate proves of it, and the certificate."""


class View(Protocol):
    """A posterior of C classes, C = 2 or more."""

    @property
    def couples(self) -> int:
        """Latent functions that the posterior's root couples."""

    def probabilities(self, X: FloatArray) -> FloatArray:
        """Return class probabilities [B, C] at scaled inputs [B, D]."""

    def probability_ends(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return them less and plus their cubature's error. Of two classes there is none."""

    def followed(self, own: int) -> int:
        """Return the class whose probability is followed at a point of class `own`."""

    def lines(self, points: FloatArray, inputs: IntArray, followed: int) -> Lines:
        """Return the followed class' probability along each input."""

    def proof_metrics(self, lines: Any) -> dict[str, Any]:
        """Return what a record says of how sure the probabilities along searched lines are."""

    def around(self, x: FloatArray, free: IntArray, bound: str = BOUND) -> Point:
        """Return the searches around a scaled point [D] whose inputs [d] may move."""


def view(posterior: Any, classes: int) -> View:
    """Return a posterior of so many classes in the form that the experiments use."""
    return _TwoClasses(posterior) if classes == 2 else _SeveralClasses(posterior)


def classes_of(classifier: Classifier) -> View:
    return view(classifier.posterior, len(classifier.labels))


def certificate_origin(dataset: PreparedDataset, classifier: Classifier, row: int, region: Region) -> Origin:
    """Return where the model and the region around a row come from, as a certificate states it."""
    problem, two = classifier.problem, len(classifier.labels) == 2
    return Origin(
        dataset=dataset.name,
        content=dataset.content_hash,
        row=row,
        outputs=tuple(classifier.labels),
        inputs=tuple(problem.input_names[place] for place in region.free),
        inference=classifier.trained.inference,
        rows=problem.train_rows.astype(np.int64),
        targets=(problem.y + 1.0) / 2.0 if two else problem.y,  # of two classes the labels are -1 and 1
        offset=problem.offset,
        scale=problem.scale,
        X=classifier.stored_inputs,
        sites=classifier.trained.sites if two else np.empty((2, 0)),
    )


def named(reason: str, labels: Sequence[str]) -> str:
    """Return a reason with the dataset's names of the classes."""
    return _NUMBER.sub(lambda number: labels[int(number[0])], reason)


@dataclass(frozen=True, eq=False)
class _TwoClasses:
    posterior: GPCPosterior
    couples: int = 1

    def probabilities(self, X: FloatArray) -> FloatArray:
        second = self.posterior.probability(X)
        return np.column_stack([1.0 - second, second])

    def probability_ends(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        found = self.probabilities(X)
        return found, found

    def followed(self, own: int) -> int:
        return 1

    def lines(self, points: FloatArray, inputs: IntArray, followed: int) -> Lines:
        return binary_lines(self.posterior, points, inputs)

    def proof_metrics(self, lines: Any) -> dict[str, Any]:
        return {}  # closed probabilities

    def around(self, x: FloatArray, free: IntArray, bound: str = BOUND) -> Point:
        return _BinaryPoint(PointSearch(self.posterior, x, free, bound))


class _Searched:
    """Common part of points of two and of several classes."""

    def __init__(self, search: PointSearch) -> None:
        self.search, centre = search, search.centre
        self.own, self.only_stated = centre.own, not centre.proved
        self.probability = centre.probability(search.followed())[0]

    def stays(self, region: Region, budget: Budget) -> tuple[str, bool, list[str]]:
        many = len(self.search.centre.comparisons) >= LATENT_ONLY
        verdict, found = self.search.decide(region, budget, latent_only=many)
        return verdict.status, self.search.proves_class(found.values()), [each.reason for each in found.values()]

    def bounds(self, own: int, region: Region, tolerance: float, budget: Budget) -> tuple[float, float, list[str]]:
        found = self.search.range(region, tolerance, budget, self.search.followed(own))
        sides = found.minimum, found.maximum
        low, high = (each.outer if self.search.proves(sides) else np.nan for each in sides)
        if own != found.own:
            low, high = complement(low, high)
        return low, high, [each.reason for each in sides]


class _BinaryPoint(_Searched):
    def judge(self, region: Region, limits: Limits, budget: Budget) -> Judged:
        found = self.search.range(region, limits.tolerance, budget)
        found = decided(self.search, region, found, budget)
        found, attack = attacked(self.search, region, found, limits.point, limits.starts)
        return _of_range(found, attack)

    def certify(
        self, judged: Judged, region: Region, most_boxes: int, budget: Budget, origin: Origin
    ) -> tuple[Judged, Proof]:
        found: ClassRange = judged.detail
        certificate = certify(
            self.search.posterior,
            region,
            [(POSITIVE, found.minimum), (POSITIVE, found.maximum)],
            bound_name=self.search.bound.name,
            bound_version=self.search.bound.version,
            most_boxes=most_boxes,
            budget=budget,
            origin=origin,
        )
        minimum, maximum = certificate.claims
        found = found.informed(minimum.outer, maximum.outer, region)
        out_of_time = bool(certificate.search["out_of_time"])
        decides = certificate_decides(found, minimum, maximum)
        proof = Proof(*pack(certificate), minimum.outer, maximum.outer, decides, out_of_time)
        return _of_range(found, judged.attack), proof


def _of_range(found: ClassRange, attack: Mapping[str, Any]) -> Judged:
    sides = (found.minimum, found.maximum)
    return Judged(found.verdict, *sides, searches=sides, attack=attack, detail=found)


def decided(search: PointSearch, region: Region, found: ClassRange, budget: Budget) -> ClassRange:
    """Search on for the class only, with what is left, where one half lies between attained and proved value.

    Args:
        search: of the point.
        region: where.
        found: the range. Returned as it is if its verdict is not unknown, or if the point itself is tied.
        budget: that of the range.
    """
    if found.verdict.status != "unknown" or found.centre.undecided or budget.exhausted:
        return found
    verdict, rivals = search.decide(region, budget)
    if verdict.status == "unknown":
        return found
    [extremum] = rivals.values()
    before = found.side(extremum.sign)
    spent = replace(extremum, boxes=extremum.boxes + before.boxes, seconds=extremum.seconds + before.seconds)
    return replace(found.with_side(spent), verdict=verdict)


def attacked(
    search: PointSearch, region: Region, found: ClassRange, number: int, starts: int
) -> tuple[ClassRange, dict[str, Any]]:
    """Compare the range with a multi-start attack. Its success decides if the search left the class open.

    Args:
        search: of the point.
        region: where.
        found: the range.
        number: of the test row, which seeds the attack.
        starts: of the attack.

    Returns:
        the range with its verdict, and what the attack reached.
    """
    [comparison] = found.centre.comparisons
    rng = stream(0, "attack", number)
    point, _ = strong_attack(search.posterior, region, comparison.sign, starts, rng)
    reached = float(search.attained(point[None, region.free], comparison.sign)[0])
    towards = found.side(comparison.sign)
    found = found.with_side(towards.informed(towards.outer, reached))
    succeeds = not found.centre.undecided and bool(comparison.crossed(reached))
    if succeeds and found.verdict.status == "unknown":
        reason = f"class probability {reached:.6g} at the attack's counterexample"
        found = replace(found, verdict=Verdict("unsafe", reason, point))
    return found, {"attacked": reached, "attack_succeeds": succeeds}


def certificate_decides(found: ClassRange, minimum: Claim, maximum: Claim) -> bool:
    """Return whether the certificate proves the verdict: its bound that it is safe, its witness that it is not."""
    claim = minimum if found.centre.comparisons[0].sign < 0 else maximum
    if found.verdict.status == "unsafe":
        return claim.inner is not None and bool(binary_comparison(claim.sign).crossed(claim.inner))
    return not found.centre.undecided and not binary_comparison(claim.sign).crossed(claim.outer)


@dataclass(frozen=True, eq=False)
class _SeveralClasses:
    posterior: MultiClassPosterior

    @property
    def couples(self) -> int:
        return self.posterior.n_classes

    def probabilities(self, X: FloatArray) -> FloatArray:
        return self.posterior.probabilities(X)

    def probability_ends(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        return self.posterior.probability_ends(X)

    def followed(self, own: int) -> int:
        return own

    def lines(self, points: FloatArray, inputs: IntArray, followed: int) -> Lines:
        return softmax_lines(self.posterior, points, inputs, followed)

    def proof_metrics(self, lines: Any) -> dict[str, Any]:
        return {"probabilities_proved": lines.proof.proved}

    def around(self, x: FloatArray, free: IntArray, bound: str = BOUND) -> Point:
        return _SeveralPoint(PointSearch(self.posterior, x, free, bound), bound)


class _SeveralPoint(_Searched):
    def __init__(self, search: PointSearch, bound: str) -> None:
        super().__init__(search)
        self.bound = bound

    def judge(self, region: Region, limits: Limits, budget: Budget) -> Judged:
        """Judge first the class, then the range of its probability with the boxes that are left."""
        verdict, margins = self.search.decide(region, budget)
        margin_proof = self.search.margin_proof
        verdict, attack, proved = self._attacked(region, verdict, limits)
        spread = self.search.range(region, limits.tolerance, budget)
        searches = (*margins.values(), spread.minimum, spread.maximum)
        known = {
            "probabilities_proved": self.search.proves(searches) and proved,
            "class_proved": verdict.status == "safe" and self.search.proves_class(margins.values()),
        }
        judged = Judged(verdict, spread.minimum, spread.maximum, searches, attack, known, margin_proof=margin_proof)
        return self._with_margins(judged, margins)

    def _with_margins(self, judged: Judged, margins: Mapping[int, Extremum]) -> Judged:
        """Return the point with margins, and the proved lower bound of p_own - max_j p_j if all were searched."""
        whole = len(margins) == len(self.search.centre.comparisons)
        margin = 2.0 * min(each.outer for each in margins.values()) - 1.0 if whole else None
        return replace(judged, margins=margins, known={**judged.known, "margin_proved": margin})

    def _attacked(self, region: Region, verdict: Verdict, limits: Limits) -> tuple[Verdict, dict[str, Any], bool]:
        """Compare the verdict with an attack. `attacked` is the least margin that it surely reached.

        Its success decides if the search left the class open. The last says whether that margin is proved.
        """
        search, rng = self.search, stream(0, "attack", limits.point)
        points, margins, rivals = margin_attack(search, region, limits.starts, rng)
        best = int(np.argmin(margins))
        succeeds = not search.centre.undecided and any(
            comparison.crossed(0.5 + 0.5 * margins[best])
            for comparison in search.centre.comparisons
            if comparison.rival == rivals[best]
        )
        if succeeds and verdict.status == "unknown":
            reason = f"class {rivals[best]} is ahead by {-margins[best]:.6g} at the attack's counterexample"
            verdict = Verdict("unsafe", reason, region.embed(points[best]))
        proved = bool(search.bound.at(points[best][None]).proved)
        return verdict, {"attacked": float(margins[best]), "attack_succeeds": bool(succeeds)}, proved

    def certify(
        self, judged: Judged, region: Region, most_boxes: int, budget: Budget, origin: Origin
    ) -> tuple[Judged, Proof]:
        claims: list[tuple[ClassQuantity | MarginQuantity, Extremum]] = [
            (ClassQuantity(self.own), each) for each in (judged.minimum, judged.maximum)
        ]
        if judged.margin_proof is not None:  # one tree instead of one for every rival
            claims.append((MarginQuantity(self.own), judged.margin_proof))
        else:
            claims += [(ClassQuantity(self.own, rival), each) for rival, each in judged.margins.items()]
        certificate = certify(
            self.search.posterior,
            region,
            claims,
            slack=1e-2,
            bound_name=self.bound,
            most_boxes=most_boxes,
            budget=budget,
            origin=origin,
        )
        proved = [claim.outer for claim in certificate.claims]
        judged = self._informed(judged, region, proved)
        out_of_time = bool(certificate.search["out_of_time"])
        decides = self._decides(judged.verdict, certificate)
        return judged, Proof(*pack(certificate), proved[0], proved[1], decides, out_of_time)

    def _informed(self, judged: Judged, region: Region, proved: Sequence[float]) -> Judged:
        """Return the point with the certificate's bounds: of the lowest and highest probability, then of the margins.

        A search that its budget ended may know less than the certificate's bound of the whole region.
        """
        centre, verdict = self.search.centre, judged.verdict
        _, low, high = centre.probability(self.own)
        minimum, maximum = judged.minimum.informed(proved[0], high), judged.maximum.informed(proved[1], low)
        margins = (
            {
                rival: each.informed(bound)
                for (rival, each), bound in zip(judged.margins.items(), proved[2:], strict=True)
            }
            if judged.margin_proof is None
            else judged.margins
        )
        if verdict.status == "unknown" and len(margins) == len(centre.comparisons):
            verdict = judge(centre, list(margins.values()), region)
        return self._with_margins(replace(judged, minimum=minimum, maximum=maximum, verdict=verdict), margins)

    def _decides(self, verdict: Verdict, certificate: Certificate) -> bool:
        """Return whether the certificate proves the verdict: margins that it is safe, a witness that it is not."""
        claims = {claim.quantity: claim for claim in certificate.claims}
        centre = self.search.centre
        margins = [(each, claims.get(ClassQuantity(centre.own, each.rival))) for each in centre.comparisons]
        if verdict.status == "unsafe":
            return any(
                claim is not None and claim.inner is not None and bool(comparison.crossed(claim.inner))
                for comparison, claim in margins
            )
        if any(claim.proves_margin and claim.quantity == MarginQuantity(centre.own) for claim in certificate.claims):
            return True
        kept = all(claim is not None and not comparison.crossed(claim.outer) for comparison, claim in margins)
        return kept and not centre.undecided
