"""How Blaas et al. 2020 look at each dataset: what the experiments over all three must share with the single ones."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Study:
    """One dataset of the paper.

    Attributes:
        title: the paper's name for it, in lower case, as statistics carry it.
        scaling: of the inputs.
        features: which inputs move in Fig. 4.
        radii: half, a quarter and the whole of the largest radius in Fig. 2-3; the first is held against the paper.
        tolerance: of each end of the probability's range.
    """

    title: str
    scaling: str
    features: str
    radii: tuple[float, ...]
    tolerance: float


STUDIES = {
    "synthetic2d": Study("synthetic2d", "none", "all", (0.7, 0.35, 1.4), 0.002),
    "spambase11": Study("spam", "all", "all", (0.07, 0.035, 0.14), 0.001),
    "mnist38": Study("mnist38", "pixels", "sift10", (0.5, 0.25, 1.0), 0.005),
}
