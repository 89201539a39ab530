"""Guarantees in plain words, the same from every experiment. Numbers are rounded to the side that keeps them true."""

from __future__ import annotations

import math

from gpsuite.rounding import rounded, sureness

# the models of perturbation/region, as what a true function is
MODEL_WORDS = {
    "krr_sparse": "the preparation rows' mean target plus a combination of the few kernel functions that the band's "
    "model has",
    "lssvm_linear": "linear in the inputs",
}


def percent_up(share: float) -> str:
    """Return a share as a percentage that is not below it: 0.12345 is 12.4 %."""
    return f"{math.ceil(round(share * 1000.0, 9)) / 10.0:g} %"


def percent_down(share: float) -> str:
    """Return a share as a percentage that is not above it."""
    return f"{math.floor(round(share * 1000.0, 9)) / 10.0:g} %"


def at_most(value: float) -> str:
    """Return a value of 0 or more with four significant digits and not below it: 0.123412 is 0.1235."""
    return rounded(float(f"{value:.12g}"), 4, 1)


def errors_bounded(delta: float, bound: float, error: str, subject: str) -> str:
    """Return what a bound on the share of large errors says.

    Args:
        delta: allowed probability that it fails.
        bound: on the share.
        error: with its unit, `12.5 (units of y)`.
        subject: whose predictions: `the kept model`.
    """
    if percent_up(bound) == "100 %":
        return f"Nothing is proved of how often {subject} is off by more than {error}: the bound is 100 %."
    return (
        f"With probability {sureness(delta)}, at most {percent_up(bound)} of the predictions of {subject} are off by "
        f"more than {error}."
    )


def certified(delta: float, bound: float, subject: str, change: str, rows: str = "new rows") -> str:
    """Return what a lower bound on the certified accuracy says.

    Args:
        delta: allowed probability that it fails.
        bound: on the share that is right and provably stays so.
        subject: whose predictions: `the kept model`.
        change: follows "if", as `every input is off by 2`.
        rows: the rows whose share it is.
    """
    if bound < 0.001:  # what is written as 0 %
        return (
            f"Nothing is proved of how many {rows} {subject} classifies rightly and provably still does if {change}: "
            "the bound is 0 %."
        )
    return (
        f"With probability {sureness(delta)}, at least {percent_down(bound)} of the {rows} are classified rightly by "
        f"{subject}, and provably stay so if {change}."
    )


NOISE_WORDS = {
    "signs": "symmetric and independent, of the inputs too (none is an earlier target)",
    "permutations": "independent and of one distribution at all inputs (none is an earlier target)",
    "signed_permutations": "symmetric, independent and of one distribution at all inputs (none is an earlier target)",
}
"""group of perturbations -> noise that it leaves unchanged in distribution, given the inputs."""


def band_holds(confidence: float, model: str, width: float | None, target: str, group: str) -> str:
    """Return what a band of the function says.

    Args:
        confidence: of the band.
        model: key of `MODEL_WORDS`.
        width: mean one. None if it is unbounded.
        target: its unit.
        group: key of `NOISE_WORDS`.
    """
    if width is None:
        open_level = "Permutations leave a constant open: take group=signs. " if group == "permutations" else ""
        return (
            f"Band: unbounded for a function that is {MODEL_WORDS[model]}. {open_level}More rows are needed, or inputs "
            "that are less alike and without values far from all others."
        )
    return (
        f"Band: Assume the true function is {MODEL_WORDS[model]} and the noise is {NOISE_WORDS[group]}. A band of "
        f"mean width {width:.4g} ({target}) then holds it everywhere with probability {100.0 * confidence:g} % or more."
    )
