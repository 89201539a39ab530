"""Result of `gpsuite.certify`: a range that holds in a whole region, a verdict, and the points that show it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gpsuite.certificates.certificate import Certificate, write_certificate
from gpsuite.errors import UserError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SAFE, UNSAFE, OPEN, RANGE = "safe", "unsafe", "not decided", "range"
COLOURS = {SAFE: "tab:green", UNSAFE: "tab:red", OPEN: "tab:orange", RANGE: "tab:blue"}


@dataclass(frozen=True, eq=False)
class SavedCertificate:
    """The claims of a result with their proof, for `gpsuite verify`.

    Attributes:
        content: of the files.
    """

    content: Certificate

    def save(self, path: str | Path) -> Path:
        """Write NAME.npz and NAME.json. Return the path to verify.

        Raises:
            OSError: if a file cannot be written.
        """
        return write_certificate(self.content, Path(path))[0]

    def __repr__(self) -> str:
        claims = self.content.claims
        return f"<certificate of {len(claims)} claims, {sum(len(each.leaf) for each in claims)} boxes>"


@dataclass(frozen=True, eq=False, repr=False)
class Certified:
    """The range of a model's prediction in a region around a point, proved.

    Attributes:
        verdict: of a classifier "safe" (the whole region has the point's class, proved), "unsafe" (a counterexample is
            in it) or "not decided". Of a regression "range".
        prediction: the class at the point, or the predictive mean there.
        value: probability of that class at the point. Of a regression the mean.
        range: no point of the region has a value below or above it.
        attained: the smallest and the largest value that were found. NaN if none was.
        gap: the larger distance between the ends of both.
        counterexample: a point of the region in another class, in the units and columns of x. None without one.
        counterexample_prediction: the model's own prediction there.
        reason: why the verdict is what it is.
        about: what is certified, in a sentence.
        proved: whether all of it is proved. False would mean that an error was estimated and not bounded.
        agreement: largest difference between the latent moments that were certified and the model's own, at the points
            above, in prior standard deviations (of the mean) and prior variances.
        seconds: wall-clock time.
        boxes: bounded.
    """

    verdict: str
    prediction: Any
    value: float
    range: tuple[float, float]
    attained: tuple[float, float]
    counterexample: Any
    counterexample_prediction: Any
    reason: str
    about: str
    proved: bool
    agreement: float
    seconds: float
    boxes: int
    prove: Callable[[], Certificate] | str = field(compare=False)

    @property
    def gap(self) -> float:
        return max(self.attained[0] - self.range[0], self.range[1] - self.attained[1], 0.0)

    @cached_property
    def certificate(self) -> SavedCertificate:
        """The certificate, computed when it is first requested. May take as long as the search.

        Raises:
            UserError: in a sentence, if there is no certificate format for such a model, or nothing can be claimed.
        """
        if isinstance(self.prove, str):
            raise UserError(f"no certificate: {self.prove}")
        try:
            return SavedCertificate(self.prove())
        except ValueError as error:
            raise UserError(f"no certificate: {error}. Give a smaller region, or more seconds") from error

    def __repr__(self) -> str:
        low, high = self.range
        what = f"mean {self.value:.6g}" if self.verdict == RANGE else f"class {self.prediction}, p {self.value:.4f}"
        verdict = "" if self.verdict == RANGE else f"{self.verdict}: "
        return f"<{verdict}{what}, in the region {low:.6g} to {high:.6g}; {self.seconds:.1f} s>"

    def to_frame(self) -> pd.DataFrame:
        """Return the result as a table of one row."""
        import pandas as pd

        return pd.DataFrame([self._columns()])

    def _columns(self) -> dict[str, Any]:
        names = ("verdict", "prediction", "value", "gap", "counterexample", "counterexample_prediction", "seconds")
        found = {name: getattr(self, name) for name in names}
        return {**found, "low": self.range[0], "high": self.range[1], "reason": self.reason}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the range, what is attained in it, and the value at the point."""
        return _drawn([self], ax)


class CertifiedRows(Sequence[Certified]):
    """The results of many rows, in their order."""

    def __init__(self, rows: Sequence[Certified]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Certified: ...
    @overload
    def __getitem__(self, index: slice) -> CertifiedRows: ...
    def __getitem__(self, index: int | slice) -> Certified | CertifiedRows:
        return CertifiedRows(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        verdicts = [row.verdict for row in self._rows]
        counts = [f"{verdicts.count(each)} {each}" for each in COLOURS if each in verdicts]
        return f"<{len(self)} rows: {', '.join(counts)}>"

    def to_frame(self) -> pd.DataFrame:
        """Return one line per row."""
        import pandas as pd

        return pd.DataFrame([row._columns() for row in self._rows])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ranges of all rows, one line each."""
        return _drawn(self._rows, ax)


def _drawn(rows: Sequence[Certified], ax: Axes | None) -> Axes:
    import matplotlib.pyplot as plt

    if ax is None:
        ax = plt.subplots(figsize=(6.0, 1.2 + 0.3 * len(rows)))[1]
    told = ("no value outside, proved", "values that were found", "value at the point")
    for place, row in enumerate(rows):
        colour, names = COLOURS[row.verdict], told if not place else (None, None, None)
        ax.plot(row.range, (place, place), color=colour, lw=2, label=names[0])
        ax.plot(row.attained, (place, place), color=colour, lw=6, alpha=0.5, solid_capstyle="butt", label=names[1])
        ax.plot(row.value, place, "ko", ms=4, label=names[2])
    regression = rows[0].verdict == RANGE
    if not regression:
        ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_yticks(
        np.arange(len(rows)), [f"{row.prediction:.4g}" if regression else str(row.prediction) for row in rows]
    )
    ax.set_ylabel("mean at the point" if regression else "class at the point")
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
    ax.set_xlabel("predictive mean" if regression else "probability of the class, in the region")
    return ax
