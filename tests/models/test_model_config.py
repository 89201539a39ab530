from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, ValidationError

from gpsuite.errors import UserError
from gpsuite.models.config import KERNEL_NAMES, Hyperparameters, ModelSpec
from gpsuite.models.kernels import KERNELS, build_kernel, kernel_name
from gpsuite.models.radial import kappa_and_slope
from tests.models.regression_problems import closed_form_kernel, make_problem

CONF = Path(__file__).resolve().parents[2] / "conf" / "model"
FILES = {
    "se": ModelSpec("squared_exponential", ard=False),
    "se_ard": ModelSpec("squared_exponential", ard=True),
    "matern32": ModelSpec("matern32"),
    "matern52": ModelSpec("matern52"),
}


@pytest.mark.parametrize("name", FILES)
def test_config_file_gives_its_spec(name: str) -> None:
    loaded = OmegaConf.load(CONF / f"{name}.yaml")
    assert set(loaded) == {field.name for field in dataclasses.fields(ModelSpec)}
    merged = OmegaConf.merge(OmegaConf.structured(ModelSpec), loaded)
    assert OmegaConf.to_object(merged) == FILES[name]


def test_every_config_file_is_known_and_starts_with_a_comment() -> None:
    assert {path.stem for path in CONF.glob("*.yaml")} == set(FILES)
    assert all(path.read_text().startswith("# ") for path in CONF.glob("*.yaml"))


def test_structured_config_rejects_wrong_keys_and_types() -> None:
    schema = OmegaConf.structured(ModelSpec)
    with pytest.raises(ConfigKeyError):
        OmegaConf.merge(schema, {"kernal": "matern32"})
    with pytest.raises(ValidationError):
        OmegaConf.merge(schema, {"ard": "perhaps"})


def test_unknown_kernel_names_the_nearest() -> None:
    with pytest.raises(UserError, match="Did you mean 'matern52'"):
        ModelSpec(kernel="matern5")


@pytest.mark.parametrize("floor", [-1e-9, float("nan"), float("inf")])
def test_an_impossible_noise_floor_is_refused(floor: float) -> None:
    with pytest.raises(UserError, match="noise_floor"):
        ModelSpec(noise_floor=floor)


def test_hyperparameters_survive_json() -> None:
    values = Hyperparameters(variance=0.1, lengthscales=(1 / 3, 2.0), noise_variance=1e-7)
    assert Hyperparameters.from_dict(json.loads(json.dumps(values.to_dict()))) == values


@pytest.mark.parametrize("change", [{"variance": 0.0}, {"noise_variance": -1.0}, {"lengthscales": (1.0, float("nan"))}])
def test_hyperparameters_must_be_positive(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(Hyperparameters(), **change)


def test_no_lengthscale_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Hyperparameters(lengthscales=())


def test_plain_modules_import_no_tensorflow() -> None:
    code = (
        "import sys, gpsuite.models.config, gpsuite.models.linalg, gpsuite.models.tensorflow_setup;"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_logarithms_are_variance_lengthscales_noise_and_return() -> None:
    values = Hyperparameters(2.0, (0.5, 3.0, 7.0), 0.01)
    assert values.n_kernel == 4
    np.testing.assert_allclose(values.to_log(), np.log([2.0, 0.5, 3.0, 7.0, 0.01]), rtol=1e-15)
    back = Hyperparameters.from_log(values.to_log())
    np.testing.assert_allclose(back.to_log(), values.to_log(), rtol=1e-15)
    assert len(back.lengthscales) == 3


def test_defaults_are_unit_scales_and_gpflows_noise_floor() -> None:
    assert Hyperparameters() == Hyperparameters(1.0, (1.0,), 1.0)
    assert ModelSpec() == ModelSpec("squared_exponential", False, 1e-6)
    assert ModelSpec(noise_floor=0.0).noise_floor == 0.0


# GPflow expands |x - x'|^2: its rounding, about 1e-16, appears under a square root on the diagonal of Matern kernels.
EXPANDED_DISTANCE = 1e-7


def test_table_and_config_agree() -> None:
    assert set(KERNELS) == set(KERNEL_NAMES)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("ard", [False, True])
def test_kernel_equals_closed_form(name: str, ard: bool) -> None:
    X, _ = make_problem(0)
    values = Hyperparameters(variance=1.7, lengthscales=(0.6, 1.9) if ard else (0.6,))
    kernel = build_kernel(ModelSpec(name, ard=ard), values, 2)
    assert kernel_name(kernel) == name
    assert kernel.ard == ard
    np.testing.assert_allclose(kernel(X).numpy(), closed_form_kernel(name, X, X, values), atol=EXPANDED_DISTANCE)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("q", [1e7, 1e308, np.inf])
def test_a_kernel_vanishes_however_far(name: str, q: float) -> None:
    with np.errstate(over="raise", invalid="raise"):
        assert [part.tolist() for part in kappa_and_slope(name, np.array([q]))] == [[0.0], [0.0]]


def test_one_lengthscale_is_repeated_for_ard() -> None:
    kernel = build_kernel(ModelSpec(ard=True), Hyperparameters(lengthscales=(0.5,)), 3)
    np.testing.assert_allclose(kernel.lengthscales.numpy(), [0.5, 0.5, 0.5])


@pytest.mark.parametrize(("ard", "count"), [(False, 3), (True, 2)])
def test_a_wrong_number_of_lengthscales_is_refused(ard: bool, count: int) -> None:
    with pytest.raises(ValueError, match=f"{count} lengthscales given for D=3"):
        build_kernel(ModelSpec(ard=ard), Hyperparameters(lengthscales=(1.0,) * count), 3)


def test_foreign_kernel_has_no_name() -> None:
    with pytest.raises(TypeError, match="Cosine"):
        kernel_name(gpflow.kernels.Cosine())
