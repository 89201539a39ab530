from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ConfigKeyError, ValidationError

from gpsuite.errors import UserError
from gpsuite.models.config import Hyperparameters, ModelSpec

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
    with pytest.raises(UserError, match="did you mean 'matern52'"):
        ModelSpec(kernel="matern5")


@pytest.mark.parametrize("floor", [-1e-9, float("nan"), float("inf")])
def test_impossible_noise_floor(floor: float) -> None:
    with pytest.raises(UserError, match="noise_floor"):
        ModelSpec(noise_floor=floor)


def test_hyperparameters_survive_json() -> None:
    values = Hyperparameters(variance=0.1, lengthscales=(1 / 3, 2.0), noise_variance=1e-7)
    assert Hyperparameters.from_dict(json.loads(json.dumps(values.to_dict()))) == values


@pytest.mark.parametrize(
    "change", [{"variance": 0.0}, {"noise_variance": -1.0}, {"lengthscales": (1.0, float("nan"))}]
)
def test_hyperparameters_must_be_positive(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(Hyperparameters(), **change)


def test_at_least_one_lengthscale() -> None:
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
