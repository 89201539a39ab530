"""100,000 random (model, region, point) triples at the edges of floating point, against exact arithmetic."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpsuite.methods.robustness.level_bound import level_bound as level_bounds
from gpsuite.methods.robustness.level_bound import posterior_slice as slices
from gpsuite.methods.robustness.level_bound.level_bound import LevelBound
from gpsuite.methods.robustness.level_bound.posterior_slice import PosteriorSlice
from gpsuite.methods.robustness.search.branch_and_bound import UnsoundBoundError
from tests.arrays import Array
from tests.methods.robustness.extreme_problems import faults, study
from tests.methods.robustness.made_up_posteriors import KERNELS

TRIPLES = 4_192  # of each of 24 combinations
COMBINATIONS = [
    pytest.param(inference, link, kernel, id=f"{inference}-{link}-{kernel}")
    for inference in ("laplace", "ep", "vgp", "svgp")
    for link in ("probit", "logistic")
    for kernel in KERNELS
]


@pytest.mark.slow
@pytest.mark.guarantee
@pytest.mark.parametrize(("inference", "link", "kernel"), COMBINATIONS)
def test_nothing_is_outside_and_no_witness_overclaims(inference: str, link: str, kernel: str) -> None:
    counts = study([2026, *map(ord, inference + link + kernel)], inference, kernel, link, TRIPLES)
    print({name: count for name, count in counts.items() if count})  # shown by pytest -rP
    assert counts["triples"] >= TRIPLES
    assert min(counts["safe"], counts["unsafe"], counts["unknown"]) >= 10
    assert faults(counts) == 0


@pytest.mark.parametrize("inference", ["laplace", "svgp"])
def test_no_witness_overclaims_in_a_small_part_of_the_study(inference: str) -> None:
    counts = study([7], inference, "matern52", "probit", 128)
    assert counts["witnesses"] >= 32
    assert faults(counts) == 0


def distances_of_scaled_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the slack once left out: inputs and centre are each rounded at their own size."""

    def offsets(self: PosteriorSlice, points: Array) -> Array:
        scales = self.lengthscales[:, None]
        return self.X / scales - (points / self.lengthscales)[:, :, None]

    monkeypatch.setattr(PosteriorSlice, "offsets", offsets)


def witnesses_as_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The score of a witness without its rounding."""
    whole = LevelBound.evaluate

    def evaluate(self: LevelBound, points: Array) -> tuple[Array, Array]:
        low, high = whole(self, points)
        return 0.5 * (low + high), 0.5 * (low + high)

    monkeypatch.setattr(LevelBound, "evaluate", evaluate)


def no_slack_on_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Gram matrix as if it were computed exactly."""
    monkeypatch.setattr(slices, "gram_error", lambda *of: 0.0)


def no_slack_on_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean coefficients as if they were computed exactly."""
    whole = level_bounds.posterior_slice  # type: ignore[attr-defined]
    monkeypatch.setattr(level_bounds, "posterior_slice", lambda *of: replace(whole(*of), mean_error=0.0))


def half_a_radius(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes that are wider than they are said to be."""
    whole = slices.outward_radius  # type: ignore[attr-defined]
    monkeypatch.setattr(slices, "outward_radius", lambda *of: 0.5 * whole(*of))


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [distances_of_scaled_inputs, witnesses_as_computed, no_slack_on_the_operator, no_slack_on_the_mean, half_a_radius],
)
def test_the_study_notices(fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault(monkeypatch)
    found = 0
    for inference in ("laplace", "svgp"):
        try:
            found += faults(study([1], inference, "matern52", "probit", 1000))
        except UnsoundBoundError:  # the search itself finds the contradiction
            found += 1
    assert found > 0
