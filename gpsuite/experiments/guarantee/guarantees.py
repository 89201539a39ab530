"""One function per guarantee: what it promises, with which probability, what it assumes and what it is for.

A further guarantee is a further function in `OF_NUMBERS` or `OF_CLASSES`, in which the strongest come first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpsuite.data.dataset import Dataset
from gpsuite.experiments.base import Record, Report
from gpsuite.experiments.guarantee.answer import Guarantee
from gpsuite.experiments.guarantee.checks import Check, bands_apart
from gpsuite.experiments.guarantee.predictions import DIGITS
from gpsuite.experiments.guarantee.tasks import CLASS_RISK, CONFORMAL, GuaranteeSettings, tolerances_of
from gpsuite.experiments.perturbation.region import mean_width
from gpsuite.experiments.sentences import percent_down, percent_up
from gpsuite.methods.conformal import jackknife_bounded
from gpsuite.rounding import rounded, sureness
from gpsuite.text import counted

PROVED = "Proved"  # instead of a probability
CERTIFICATE = "PAC-Bayes"  # name of a guarantee
STATED = "ranges of the probabilities of so many classes are not searched"
NO_BAND = "more rows, independent inputs, rows without groups"
SECONDS = "budget.seconds ended the searches"
BETTER = "a larger accuracy=, better inputs or more rows"
SHAPES = {
    "lssvm_linear": "the curve is linear",
    "krr_sparse": "the curve is a kernel sum",
}  # the models of perturbation/region


@dataclass(frozen=True)
class Found:
    """Results of a run.

    Attributes:
        report: its sheet.
        data: the table.
        parts: part of the run -> its record, for parts that ended well.
        bands: of a regression's function.
        held: how many targets the kept model's own intervals held, and of how many rows. None if it did not train.
        checks: of the assumptions.
    """

    report: Report[GuaranteeSettings]
    data: Dataset
    parts: Mapping[str, Record]
    bands: Sequence[Record] = ()
    held: tuple[int, int] | None = None
    checks: Sequence[Check] = field(default_factory=list)

    @property
    def settings(self) -> GuaranteeSettings:
        return self.report.settings

    @property
    def target(self) -> str:
        return self.data.target_names[0]

    @property
    def like(self) -> str:
        """Assumption of guarantees from test rows about the rows that they cover."""
        if self.data.clusters is not None:
            return "new groups are like these"
        return "later rows follow these" if self.data.order == "time" else "new rows are like these"

    @property
    def tolerances(self) -> Sequence[float]:
        return tolerances_of(self.data, self.settings)

    @property
    def shown(self) -> int | None:
        """The place of the tolerance that lines tell of, the middle one. None if no input is a number."""
        return len(self.tolerances) // 2 if self.tolerances else None

    @property
    def threshold(self) -> float:
        """The error that all lines tell of, in original units: the larger of both models' goals."""
        parts = [self.parts[name] for name in ("bounded", "judged") if name in self.parts]
        return max(float(each.arrays["errors"][int(each.number("goal"))]) for each in parts)

    def bound(self, part: str) -> float:
        """Return the bound on the share of errors above the threshold: that at the largest error up to it."""
        arrays = self.parts[part].arrays
        return float(arrays["bounds"][arrays["errors"] <= self.threshold].min(initial=1.0))


def short(value: float) -> str:
    """Return a number with three significant digits and not below it."""
    return rounded(float(f"{value:.12g}"), DIGITS, 1)


def off(tolerance: float, found: Found) -> str:
    """Return the words for inputs that are a little off: categories stay."""
    which = "numbers" if found.data.level_inputs else "inputs"
    return f"{which} off by {rounded(tolerance, 6, -1)} standard deviations"


def rows_word(record: Record) -> str:
    return "rows of the table" if len(record.arrays["examples"]) else "new rows"


def moved(record: Record, place: int) -> tuple[int, float]:
    """Return for how many rows a proved range is known, and by how much the prediction moves there at most."""
    ranges = record.arrays["ranges"][:, place]
    seen = np.isfinite(ranges).all(axis=1)
    centre = record.arrays["prediction"][: len(ranges)]
    return int(seen.sum()), float(np.max(np.abs(ranges[seen] - centre[seen, None]), initial=0.0))


def proved_numbers(found: Found) -> Guarantee | None:
    if "rows" not in found.parts or found.shown is None:
        return None
    record = found.parts["rows"]
    count, by = moved(record, found.shown)
    if not count:
        return Guarantee("proved", needs="more boxes= or budget.seconds=")
    total = len(record.arrays["ranges"])
    many = counted(total, "prediction") if count == total else f"{count} of {total} predictions"
    says = f"{off(found.tolerances[found.shown], found)} move {many} by at most {short(by)}"
    return Guarantee("proved", PROVED, "", says, "noise", own_rows=True)


def tested_numbers(found: Found) -> Guarantee | None:
    if "judged" not in found.parts:
        return None
    bound = found.bound("judged")
    if percent_up(bound) == "100 %":
        return Guarantee("test rows", needs=BETTER)
    says = f"at most {percent_up(bound)} of errors exceed {short(found.threshold)}"
    return Guarantee("test rows", sureness(found.settings.delta), found.like, says, "many rows", picture="bounds")


def pac_bayes(found: Found) -> Guarantee | None:
    if "bounded" not in found.parts:
        return None
    bound = found.bound("bounded")
    if percent_up(bound) == "100 %":
        return Guarantee("PAC-Bayes", needs=BETTER)
    like = "new rows are like all of these" if found.data.order == "time" else found.like
    says = f"at most {percent_up(bound)} of errors exceed {short(found.threshold)}"
    return Guarantee("PAC-Bayes", sureness(found.settings.delta), like, says, "the kept model", picture="bounds")


def spread(found: Found) -> Guarantee | None:
    """Return the conformal interval that follows the model's own spread, if it was chosen."""
    if not takes_spread(found.parts):
        return None
    record, data = found.parts[CONFORMAL], found.data
    narrow, wide = record.metrics["spread_narrow"], record.metrics["spread_wide"]
    if narrow is None or wide is None:
        return Guarantee("spread", needs="more test rows")
    width = f"{short(float(narrow))} to {short(float(wide))} wide"
    says = f"{found.target} is in the row's spread interval, on test rows {width}"
    assumes = f"{data.weight_name} is right" if data.weights is not None else found.like
    level = f"{100 * found.settings.coverage:g} %"
    return Guarantee("spread", level, assumes, says, "one row", picture="predictions")


def takes_spread(parts: Mapping[str, Record]) -> bool:
    """Return whether the interval of the answer follows the spread: `default_interval`."""
    return CONFORMAL in parts and parts[CONFORMAL].metrics.get("interval") == "spread"


def conformal(found: Found) -> Guarantee | None:
    if "judged" not in found.parts or takes_spread(found.parts):
        return None
    radius = found.parts["judged"].metrics["conformal_radius"]
    if radius is None:
        return Guarantee("conformal", needs="more test rows")
    says = f"{found.target} is within {short(float(radius))} of prediction_judged"
    level = f"{100 * found.settings.coverage:g} %"
    return Guarantee("conformal", level, found.like, says, "one row", picture="predictions")


def jackknife(found: Found) -> Guarantee | None:
    if "judged" not in found.parts:
        return None
    record = found.parts["judged"]
    models, lost = (int(record.number(name)) for name in ("jackknife_rows", "jackknife_lost"))
    if not jackknife_bounded(models, found.settings.coverage, lost):
        return Guarantee("jackknife+", needs="more test rows")
    says = f"{found.target} is in the row's jackknife interval"
    level = f"{100 * found.settings.coverage:g} %"
    return Guarantee("jackknife+", level, found.like, says, "one row", picture="predictions")


def band(found: Found) -> Guarantee:
    """Return the narrower band, unless the two exclude each other, so that one of the functions is not true."""
    q = found.settings.excluded
    widths = {str(record.axes["model"]): mean_width(record, q) for record in found.bands}
    bounded = sorted((width, model) for model, width in widths.items() if width is not None)
    if not bounded:
        return Guarantee("band", needs=NO_BAND)
    if bands_apart(found.bands, q)[0]:
        return Guarantee("band", needs="a function of known form, its two bands exclude each other")
    width, model = bounded[0]
    level = f"{100 * (1.0 - q / found.settings.m):g} %"
    assumes, says = f"{SHAPES[model]} and noise symmetric", f"it lies in a band {width:.{DIGITS}g} wide"
    return Guarantee("band", level, assumes, says, "its shape", picture="bands")


def proved_classes(found: Found) -> Guarantee | None:
    if "rows" not in found.parts or found.shown is None:
        return None
    record = found.parts["rows"]
    lows = record.arrays["ranges"][:, found.shown, 0]
    kept = int(np.count_nonzero(lows > 0.5))  # above one half no other class is as probable. False for NaN
    if not kept:
        return Guarantee("proved", needs="surer predictions, more boxes= or budget.seconds=")
    change = off(found.tolerances[found.shown], found)
    says = f"{change} keep the class of {kept} of {len(lows)} {rows_word(record)}"
    return Guarantee("proved", PROVED, "", says, "noise", own_rows=True)


def error_rate(found: Found) -> Guarantee | None:
    """Return the smaller bound on the error rate and what the other one says, each at its share of delta.

    Only the test rows' bound, at all of delta, if nothing else was certified.
    """
    if CLASS_RISK not in found.parts:
        return tested_classes(found)
    record = found.parts[CLASS_RISK]
    certificate, tests = record.number("bound"), record.number("bound_tests")
    if percent_up(min(certificate, tests)) == "100 %":
        return Guarantee("test rows", needs="more test rows or better inputs")
    sure = sureness(found.settings.delta)
    if certificate < tests:
        wrong = f"at most {percent_up(certificate)} of predictions by draws of the certified model are wrong"
        says = f"{wrong}, the test rows bound the test model at {percent_up(tests)}"
        return Guarantee(CERTIFICATE, sure, found.like, says, "many rows")
    says = f"at most {percent_up(tests)} of predictions are wrong, {CERTIFICATE} says {percent_up(certificate)}"
    return Guarantee("test rows", sure, found.like, says, "many rows")


def tested_classes(found: Found) -> Guarantee | None:
    if "judged" not in found.parts:
        return None
    bound = found.parts["judged"].number("bound")
    if percent_up(bound) == "100 %":
        return Guarantee("test rows", needs="more test rows or better inputs")
    says = f"at most {percent_up(bound)} of predictions are wrong"
    return Guarantee("test rows", sureness(found.settings.delta), found.like, says, "many rows")


def class_sets(found: Found) -> Guarantee | None:
    if CONFORMAL not in found.parts:
        return None
    record = found.parts[CONFORMAL]
    if record.metrics["threshold"] is None:
        return Guarantee("sets", needs="more test rows")
    size = f"{record.number('set_size'):.{DIGITS}g}"
    says = f"the true {found.target} is in the row's class_set, of {size} classes on average"
    return Guarantee("sets", f"{100 * found.settings.coverage:g} %", found.like, says, "one row")


def per_class(found: Found) -> Guarantee | None:
    """Return which classes are missed by their own sets as seldom as is requested."""
    if CONFORMAL not in found.parts:
        return None
    record = found.parts[CONFORMAL]
    names = str(record.metrics["labels"]).split("\n")
    held = [name for name, each in zip(names, record.arrays["class_thresholds"], strict=True) if np.isfinite(each)]
    if not held:
        return Guarantee("per class", needs="more test rows of each class")
    which = "whichever it is" if len(held) == len(names) else f"if it is {' or '.join(held)}"
    says = f"class_set_each holds the row's true {found.target}, {which}"
    return Guarantee("per class", f"{100 * found.settings.coverage:g} %", found.like, says, "one row")


def certified(found: Found) -> Guarantee | None:
    if "judged" not in found.parts or not len(found.parts["judged"].arrays["tolerances"]):
        return None
    record = found.parts["judged"]
    place = len(record.arrays["tolerances"]) // 2
    bound = float(record.arrays["certified_bounds"][place])
    if bound < 0.001:  # what is written as 0 %
        needs = "fewer classes" if only_estimated(record) else "smaller tolerances="
        return Guarantee("certified", needs="more budget.seconds=" if record.metrics.get("cut") else needs)
    change = off(float(record.arrays["tolerances"][place]), found)
    says = f"at least {percent_down(bound)} of predictions are right, and stay so with {change}"
    return Guarantee("certified", sureness(found.settings.delta), found.like, says, "noise", picture="certified")


def only_estimated(record: Record) -> bool:
    """Return whether at every row that was searched the error of the probabilities is stated and not proved."""
    searched, stated = (int(record.metrics.get(name) or 0) for name in ("searched", "stated"))
    return bool(searched) and stated == searched


Line = Callable[[Found], Guarantee | None]
OF_NUMBERS: tuple[Line, ...] = (proved_numbers, tested_numbers, pac_bayes, spread, conformal, jackknife, band)
OF_CLASSES: tuple[Line, ...] = (proved_classes, error_rate, certified, class_sets, per_class)


def guarantees(found: Found) -> list[Guarantee]:
    """Return those of a table, the strongest first."""
    lines = OF_CLASSES if found.data.task == "classification" else OF_NUMBERS
    return [each for line in lines if (each := line(found)) is not None]
