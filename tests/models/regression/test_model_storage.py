from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gpflow
import numpy as np
import pytest

from gpsuite.models.config import Hyperparameters, ModelSpec
from gpsuite.models.regression.gpflow_models import (
    build_fitc,
    build_gpr,
    build_sgpr,
    hyperparameters_of,
    kind_of,
    predict,
    spec_of,
)
from gpsuite.models.regression.storage import load_model, save_model
from gpsuite.models.storage import ModelFileError
from tests.arrays import Array
from tests.models.regression_problems import START, make_problem

Problem = tuple[Array, Array]


def models(problem: Problem) -> list[Any]:
    X, Y = problem
    ard = Hyperparameters(variance=0.1, lengthscales=(1 / 3, 7.0), noise_variance=1e-5)
    return [
        build_gpr(X, Y, ModelSpec(), START),
        build_gpr(X, np.hstack([Y, Y**2]), ModelSpec("matern52", ard=True, noise_floor=1e-8), ard),
        build_sgpr(X, Y, X[:6] + 0.1, ModelSpec("matern32"), START),
        build_fitc(X, Y, X[:6] + 0.1, ModelSpec(ard=True), ard),
    ]


@pytest.mark.parametrize("index", range(4))
def test_reloaded_model_predicts_the_same_to_the_last_bit(
    problem: Problem, tmp_path: Path, index: int
) -> None:
    model = models(problem)[index]
    # A value reached by training is not the image of a rounded constrained one.
    model.kernel.variance.unconstrained_variable.assign_add(0.123456789)
    path = tmp_path / "model.npz"
    save_model(model, path)
    loaded = load_model(path)
    assert (kind_of(loaded), spec_of(loaded)) == (kind_of(model), spec_of(model))
    assert hyperparameters_of(loaded) == hyperparameters_of(model)
    Xnew, _ = make_problem(5, 9)
    for ours, theirs in zip(predict(loaded, Xnew), predict(model, Xnew), strict=True):
        assert np.array_equal(ours, theirs)
    assert loaded.training_loss() == model.training_loss()


def test_fixed_parameters_stay_fixed(problem: Problem, tmp_path: Path) -> None:
    model = models(problem)[2]
    gpflow.set_trainable(model.inducing_variable, False)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert not loaded.inducing_variable.Z.trainable
    assert loaded.kernel.variance.trainable


def test_file_is_plain_named_as_asked_and_alone(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "kept.model"
    for _ in range(2):
        save_model(models(problem)[0], path)
    assert [file.name for file in tmp_path.iterdir()] == ["kept.model"]
    with np.load(path, allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fU" for name in file.files)
        description = json.loads(str(file["description"]))
    assert (description["format"], description["version"]) == ("gpsuite-model", 1)


def test_same_model_same_bytes(problem: Problem, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_model(models(problem)[3], tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_damage_is_noticed_or_harmless(problem: Problem, tmp_path: Path) -> None:
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    model = models(problem)[0]
    save_model(model, whole)
    content = whole.read_bytes()
    expected = predict(model, problem[0])[0]
    rng = np.random.default_rng(0)
    refused = 0
    for position in rng.integers(len(content), size=150):
        broken = bytearray(content)
        broken[position] ^= 1 << int(rng.integers(8))
        damaged.write_bytes(bytes(broken))
        try:
            # A flipped bit in an unused field of the archive's directory changes nothing.
            assert np.array_equal(predict(load_model(damaged), problem[0])[0], expected)
        except ModelFileError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="not a model file"):
        load_model(path)


def test_truncated_and_missing_files_are_refused(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    save_model(models(problem)[0], path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ModelFileError, match="damaged"):
        load_model(path)
    with pytest.raises(ModelFileError, match="no such model file"):
        load_model(tmp_path / "absent.npz")


def test_single_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.ones(3))
    with pytest.raises(ModelFileError, match="not a model file"):
        load_model(path)


def rewrite(source: Path, target: Path, **changes: Any) -> None:
    """Copy a model file with entries of its description changed."""
    with np.load(source) as file:
        arrays = {name: file[name] for name in file.files}
    description = json.loads(str(arrays["description"])) | changes
    np.savez(target, **(arrays | {"description": np.array(json.dumps(description))}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "version 2, expected gpsuite-model version 1"),
        ({"format": "other"}, "format other"),
        ({"kind": "VGP"}, "unknown kind of model 'VGP'"),
        ({"kind": "SGPR"}, "'Z' is missing"),
        ({"spec": {"kernel": "linear"}}, "unknown model.kernel"),
        ({"spec": {"degree": 3}}, "degree"),
        ({"hyperparameters": {}}, "'variance' is missing"),
        ({"fixed": None}, "not a usable"),
    ],
)
def test_wrong_descriptions_are_refused(
    problem: Problem, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    save_model(models(problem)[0], tmp_path / "good.npz")
    rewrite(tmp_path / "good.npz", tmp_path / "bad.npz", **changes)
    with pytest.raises(ModelFileError, match=message):
        load_model(tmp_path / "bad.npz")


def test_non_finite_parameters_are_refused(problem: Problem, tmp_path: Path) -> None:
    model = models(problem)[0]
    save_model(model, tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as file:
        arrays = {name: file[name] for name in file.files}
    arrays["unconstrained.kernel.variance"] = np.array(np.nan)
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ModelFileError, match="variance is not finite"):
        load_model(tmp_path / "bad.npz")
