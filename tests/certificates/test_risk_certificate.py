"""Risk certificates: checked by other code from predictor and dataset, and nothing stronger confirmed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.certificates import plain_risk
from gpsuite.certificates import risk_verification as verification
from gpsuite.certificates.envelope import read_envelope
from gpsuite.certificates.plain_risk import WORK_PER_MINUTE, largest_risk, on_grid, smallest_risk
from gpsuite.certificates.risk_verification import verify_certificate
from gpsuite.data.splits import train_test_indices
from gpsuite.errors import UserError
from gpsuite.experiments.pac_bayes.tasks import FitTask, Goal
from gpsuite.methods.pac_bayes.kl_inverse import kl_inverse, kl_inverse_lower
from gpsuite.methods.pac_bayes.losses import BandLoss
from gpsuite.untrusted import UnusableFileError
from tests.arrays import Array
from tests.certificates.test_certificate import fit_checksum
from tests.methods.pac_bayes.certified_fit import KINDS, certified, params, small_dataset, with_copies, written

DATA = small_dataset()


def _verify(path: Path, dataset: Any = DATA) -> tuple[int, list[str]]:
    return verify_certificate(path, read_envelope(path), dataset)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "settings", [params(), params("exp"), params(scaling="all"), params(unit="accuracy")],
    ids=["band", "exp", "all", "own units"],
)  # fmt: skip
def test_a_true_certificate_is_confirmed_with_the_numbers_it_states(
    tmp_path: Path, kind: str, settings: FitTask
) -> None:
    _, found, arrays = certified(kind, settings, DATA)
    code, lines = _verify(written(arrays, tmp_path))
    text = "\n".join(lines)
    assert code == 0, text
    proved = float(
        re.findall(r"of at most (0\.\d+) on new|at most a share (0\.\d+)", text)[0][settings.loss.name == "band01"]
    )
    assert found.bound_kl <= proved <= found.bound_kl + 2e-6
    assert f"risk {found.gibbs_risk_train:.6f} on the 48 rows" in text
    assert f"KL(Q||P) {found.certificate.penalty.kl:.6g} nats" in text
    (lower,) = map(float, re.findall(r"\(at least ([\d.e-]+)\)", text))
    assert found.lower_kl * (1.0 - 1e-5) - 2e-8 <= lower <= found.lower_kl
    for word in (
        "small, 60 rows, 2 inputs, content hash of small",
        "probability at least 95 %",
        "units of price",
        "to be trusted",
    ):
        assert word in text


@pytest.mark.parametrize("times", [[2] * 60, [9, 1, 5, 2, 1, 30]], ids=["all twice", "some"])
@pytest.mark.parametrize("kind", ["full", "fitc"])
def test_a_bound_counts_copies_once_and_the_check_knows(tmp_path: Path, kind: str, times: list[int]) -> None:
    copied = with_copies(DATA, times)
    posterior, found, arrays = certified(kind, params(), copied)
    losses = BandLoss(0.5).expected(posterior.y, posterior.train_mean, posterior.train_variance)
    train, groups = train_test_indices(len(copied.X), 0.2, 3)[0], copied.groups
    assert groups is not None
    different = np.flatnonzero(groups[train] == train)
    assert found.certificate.n == len(different) < len(losses)
    c = found.certificate.penalty.per_point
    for mean in (losses.mean(), losses[different].mean()):
        assert found.bound_kl >= kl_inverse(float(mean), c).p - 1e-12, "sound whatever the copies are"
        assert found.lower_kl <= kl_inverse_lower(float(mean), c).p + 1e-12
    path = written(arrays, tmp_path)
    assert _verify(path, copied)[0] == 0
    _, _, naive = certified(kind, params(), replace(copied, groups=None))
    code, lines = _verify(written(naive, tmp_path), copied)
    assert code == 1
    assert "bound" in lines[1] or "risk" in lines[1]


def _description(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    file = path.with_suffix(".json")
    description = json.loads(file.read_text())
    change(description)
    file.write_text(json.dumps(description))
    fit_checksum(path)


def _set(part: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda description: description[part].update({name: value})


def _less(name: str, by: float) -> Callable[[dict[str, Any]], None]:
    return lambda description: description["claim"].update({name: description["claim"][name] - by})


def _bound(name: str, by: float) -> Callable[[dict[str, Any]], None]:
    return lambda description: description["claim"]["bounds"].update({name: description["claim"]["bounds"][name] - by})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_bound("kl", 1e-6), "bound: "),
        (_less("kl", 1e-4), "KL: "),
        (_less("gibbs_risk", 1e-6), "risk on the training rows: "),
        (_bound("kl_lower", -1e-6), "lower bound: "),
        (_set("claim", "delta", 0.001), "bound: "),
        (_set("goal", "epsilon", 0.45), "risk on the training rows: "),
        (_set("goal", "unit", "own"), "risk on the training rows: "),
        (_set("dataset", "seed", 4), "is stated"),
        (_set("dataset", "target", "profit"), "the dataset's target is price"),
        (_set("dataset", "test_share", 0.5), "is stated"),
        (_set("dataset", "scaling", "all"), "is stated"),
        (_set("model", "noise_variance", 0.02), "KL: "),
        (_set("model", "alpha", 0.0), "is stated"),
        (_set("model", "jitter", 1e-3), "is stated"),
        (_set("model", "variance", math.exp(0.305)), "not on the grid"),
        (_set("model", "variance", math.exp(7.0)), "not on the grid"),
        (_set("model", "variance", math.exp(0.31)), "is stated"),
    ],
)  # fmt: skip
def test_a_changed_certificate_is_refuted_with_the_reason(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], reason: str
) -> None:
    path = written(certified("fitc", params(), DATA)[2], tmp_path)
    _description(path, change)
    code, lines = _verify(path)
    assert code == 1
    assert lines[0].endswith("refuted")
    assert reason in "\n".join(lines)


@pytest.mark.parametrize("name", ["lengthscales", "inducing_inputs", "whitened_mean", "whitened_factor"])
def test_another_predictor_is_refuted(tmp_path: Path, name: str) -> None:
    arrays = dict(certified("free_form", params(), DATA)[2])
    arrays[name] = arrays[name] * (math.exp(-0.03) if name == "lengthscales" else 0.97)
    code, lines = _verify(written(arrays, tmp_path))
    assert code == 1, lines


def test_a_weaker_claim_is_confirmed_and_the_proved_bound_stated(tmp_path: Path) -> None:
    _, found, arrays = certified("full", params(), DATA)
    path = written(arrays, tmp_path)
    _description(path, _bound("kl", -0.1))
    code, lines = _verify(path)
    assert code == 0
    assert f"a share {math.ceil(1e6 * found.bound_kl) / 1e6:.6f}"[:-1] in "\n".join(lines)


def test_the_dataset_is_requested_and_another_one_is_not_accepted(tmp_path: Path) -> None:
    path = written(certified("full", params(), DATA)[2], tmp_path)
    with pytest.raises(UserError, match=r"add dataset=small, or dataset.path=FILE.csv dataset.target=price$"):
        _verify(path, None)
    with pytest.raises(UserError, match="not the content that the certificate is about"):
        _verify(path, replace(DATA, content_hash="another"))
    with pytest.raises(UserError, match="not the content"):
        _verify(path, replace(DATA, X=DATA.X[:-1], y=DATA.y[:-1]))


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("claim", "kl", "1"),
        ("claim", "bounds", {"kl": 10**400, "kl_lower": 0.0}), ("claim", "bounds", {"kl": 1.0}),
        ("claim", "bounds", {"kl": 1.0, "kl_lower": 0.0, "pinsker": 1.0}), ("claim", "bounds", 1.0),
        ("claim", "delta", 1.0), ("claim", "delta", True),
        ("dataset", "seed", -1), ("dataset", "seed", 0.5), ("dataset", "seed", 2**32), ("dataset", "count", [1]),
        ("dataset", "test_share", 1.0), ("dataset", "test_share", 0.99), ("dataset", "scaling", "none"),
        ("dataset", "content_hash", "a\x1b[31m"), ("goal", "loss", "capped_abs"), ("goal", "epsilon", 0.0),
        ("goal", "unit", "miles"), ("model", "kernel", "matern52"),
        ("model", "posterior", "magic"), ("model", "variance", -1.0), ("model", "noise_variance", 0.0),
        ("model", "alpha", 1.5), ("model", "jitter", -1e-9),
    ],
)  # fmt: skip
def test_fields_that_are_no_certificates_are_refused(tmp_path: Path, part: str, name: str, value: Any) -> None:
    path = written(certified("fitc", params(), DATA)[2], tmp_path)
    _description(path, _set(part, name, value))
    with pytest.raises(UserError, match=r"fit\.|not the content"):
        _verify(path)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5])
def test_a_share_that_leaves_no_rows_on_one_side_is_no_split(tmp_path: Path, share: float) -> None:
    path = written(certified("fitc", params(), DATA)[2], tmp_path)
    _description(path, _set("dataset", "test_share", share))
    with pytest.raises(UnusableFileError, match="no such split"):
        _verify(path)


@pytest.mark.parametrize("name", ["inducing_inputs", "whitened_mean"])
def test_one_number_that_is_not_finite_makes_no_posterior(tmp_path: Path, name: str) -> None:
    arrays = dict(certified("free_form", params(), DATA)[2])
    arrays[name] = arrays[name].copy()
    arrays[name].flat[1] = np.nan
    with pytest.raises(UnusableFileError, match=f"{name} has values that are not numbers"):
        _verify(written(arrays, tmp_path))


def test_the_prior_itself_is_a_free_form_posterior(tmp_path: Path) -> None:
    """T = I, m = 0: a certificate like any other, refuted here because it is not the one of the claim."""
    arrays = dict(certified("free_form", params(), DATA)[2])
    M = len(arrays["whitened_mean"])
    path = written({**arrays, "whitened_mean": np.zeros(M), "whitened_factor": np.eye(M)}, tmp_path)
    code, lines = _verify(path)
    assert code == 1
    assert "risk on the training rows: " in "\n".join(lines)
    assert "KL: " not in "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("lengthscales", np.ones(3)), ("lengthscales", np.array([1.0, -1.0])), ("lengthscales", np.ones(0)),
        ("inducing_inputs", np.ones((9, 3))), ("inducing_inputs", np.ones((0, 2))),
        ("inducing_inputs", np.full((9, 2), np.inf)), ("whitened_mean", np.ones(4)),
        ("whitened_mean", np.ones(9, dtype=np.float32)), ("whitened_factor", np.ones((9, 9))),
        ("whitened_factor", np.zeros((9, 9))), ("surplus", np.ones(2)),
    ],
)  # fmt: skip
def test_arrays_that_do_not_fit_are_refused(tmp_path: Path, name: str, array: Array) -> None:
    arrays = certified("free_form", params(), DATA)[2]
    with pytest.raises(UnusableFileError, match=r"fit\."):
        _verify(written({**arrays, name: array}, tmp_path))


def test_what_would_take_too_long_is_refused(tmp_path: Path) -> None:
    arrays = certified("fitc", params(), DATA)[2]
    path = written({**arrays, "inducing_inputs": np.zeros((5000, 2))}, tmp_path)
    with pytest.raises(UnusableFileError, match="too large to check"):
        _verify(path)


def test_the_work_of_a_check_is_counted_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, needed in (("full", 2 * 48**3), ("fitc", 2 * 48 * 81 + 3 * 729)):
        path = written(certified(kind, params(), DATA)[2], tmp_path)
        minutes = needed / WORK_PER_MINUTE
        with pytest.raises(UnusableFileError, match=r"minutes, more than .* allowed\nadd minutes="):
            verify_certificate(path, read_envelope(path), DATA, 0.99 * minutes)
        assert verify_certificate(path, read_envelope(path), DATA, 1.01 * minutes)[0] == 0
    monkeypatch.setattr(verification, "LARGEST_FULL", 47)
    with pytest.raises(UnusableFileError, match="too large to check"):
        _verify(written(certified("full", params(), DATA)[2], tmp_path))


def test_a_singular_predictor_is_no_refutation(tmp_path: Path) -> None:
    arrays = certified("fitc", params(), DATA)[2]
    path = written({**arrays, "inducing_inputs": np.zeros((9, 2))}, tmp_path)
    with pytest.raises(UnusableFileError, match="cannot be computed"):
        _verify(path)


def test_the_checkers_bisection_encloses_the_inverse() -> None:
    rng = np.random.default_rng(0)
    for q, c in zip([0.0, 1.0, *rng.uniform(size=60)], [0.3, 0.3, *10.0 ** rng.uniform(-6, 1, 60)], strict=True):
        assert largest_risk(q, c) == pytest.approx(float(kl_inverse(q, c).p), abs=1e-12)
        assert smallest_risk(q, c) == pytest.approx(float(kl_inverse_lower(q, c).p), abs=1e-12)


def test_the_grid_is_whole_hundredths_within_six() -> None:
    assert on_grid(np.exp([-6.0, 6.0, 0.0, 0.13, -3.77]))
    for outside in (6.01, -6.01, 0.005, 0.1301):
        assert not on_grid(np.exp([0.0, outside]))


@pytest.mark.parametrize("kind", ["fitc", "vfe"])
def test_a_true_certificate_of_a_nearly_singular_kernel_is_confirmed(tmp_path: Path, kind: str) -> None:
    # 9 inducing inputs in 3 places: float64 is off by more than the check's tolerance, and the slack covers it
    _, found, arrays = certified(kind, params(), DATA, apart=2e-3)
    assert found.certificate.penalty.rounding > 1e-6
    code, lines = _verify(written(arrays, tmp_path))
    assert code == 0, lines


def test_beyond_extended_precision_float64_decides_what_it_can(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_risk, "LONG_WORK", 0.0)
    path = written(certified("fitc", params(), DATA)[2], tmp_path)
    code, lines = _verify(path)
    assert code == 0
    assert "in float64" in lines[0]
    _description(path, _less("kl", 0.01))
    with pytest.raises(UnusableFileError, match="float64 does not decide"):
        _verify(path)
    _description(path, _less("kl", 3.0))
    assert _verify(path)[0] == 1


def test_the_bound_needs_eight_training_rows_and_parts_of_a_row_are_test_rows(tmp_path: Path) -> None:
    path = written(certified("full", params(), DATA)[2], tmp_path)
    _description(path, _set("dataset", "test_share", 0.875))  # 52.5 of 60 rows
    with pytest.raises(UnusableFileError, match="learns from 7 rows"):
        _verify(path)
    _description(path, _set("dataset", "test_share", 0.86))
    assert _verify(path)[0] == 1


@pytest.mark.parametrize("name", ["count", "seed"])
def test_whole_numbers_end_where_floats_skip_some(tmp_path: Path, name: str) -> None:
    path = written(certified("full", params(), DATA)[2], tmp_path)
    _description(path, _set("dataset", name, 2**53))
    with pytest.raises(UnusableFileError, match="whole number"):
        _verify(path)
    _description(path, _set("dataset", "seed", 2**32 - 1))
    _description(path, _set("dataset", "count", 2**53 - 1))
    with pytest.raises(UserError, match="not the content"):
        _verify(path)


@pytest.mark.parametrize(("name", "by", "reason"), [("kl", 1e-6, "bound: "), ("kl_lower", -1e-6, "lower bound: ")])
def test_a_bound_that_forgets_its_copies_is_refuted(tmp_path: Path, name: str, by: float, reason: str) -> None:
    copied = with_copies(DATA, [9, 1, 5, 2, 1, 30])
    settings = replace(params(), loss=Goal("band01", epsilon=0.1))  # a risk at which both ends say something
    path = written(certified("full", settings, copied)[2], tmp_path)
    assert _verify(path, copied)[0] == 0
    _description(path, _bound(name, by))
    code, lines = _verify(path, copied)
    assert code == 1
    assert any(line.startswith(reason) for line in lines)


def test_a_jitter_beyond_rounding_is_no_prior(tmp_path: Path) -> None:
    path = written(certified("fitc", params(), DATA)[2], tmp_path)
    _description(path, _set("model", "jitter", 1.1e-3))
    with pytest.raises(UnusableFileError):
        _verify(path)


def test_what_float64_proves_is_looser_by_its_tolerance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found, arrays = certified("full", params(), DATA)
    path = written(arrays, tmp_path)
    monkeypatch.setattr(verification, "extended", lambda *_: False)
    text = "\n".join(_verify(path)[1])
    proved = float(re.findall(r"at most a share (0\.\d+)", text)[0])
    (lower,) = map(float, re.findall(r"\(at least ([\d.e-]+)\)", text))
    assert proved >= found.bound_kl + 0.9e-5
    assert lower <= max(found.lower_kl - 0.9e-5, 0.0)


def test_a_lengthscale_off_the_grid_is_not_counted(tmp_path: Path) -> None:
    arrays = dict(certified("full", params(), DATA)[2])
    arrays["lengthscales"] = arrays["lengthscales"] * math.exp(0.005)
    path = written(arrays, tmp_path)
    weakest = {"bounds": {"kl": 1.0, "kl_lower": 0.0}, "kl": 1e6, "gibbs_risk": 1.0}
    _description(path, lambda stated: stated["claim"].update(weakest))
    code, lines = _verify(path)
    assert (code, "not on the grid" in lines[1]) == (1, True)


def test_the_mean_prediction_is_given_twice_the_bound(tmp_path: Path) -> None:
    _, found, arrays = certified("full", params(), DATA)
    text = "\n".join(_verify(written(arrays, tmp_path))[1])
    (mean,) = map(float, re.findall(r"its mean prediction, as one predictor: at most ([\d.]+)", text))
    assert min(1.0, 2.0 * found.bound_kl) <= mean <= min(1.0, 2.0 * found.bound_kl + 1e-5)
