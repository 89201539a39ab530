from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpsuite.models.classification.links import LINKS, SqueezedProbit
from gpsuite.models.classification.storage import load_gpc, save_gpc
from gpsuite.models.config import KERNEL_NAMES
from gpsuite.models.storage import ModelFileError
from tests.models.gpc_problems import fitted_posterior


@pytest.mark.parametrize("kernel", KERNEL_NAMES)
@pytest.mark.parametrize("link", list(LINKS))
def test_reloaded_posterior_is_the_same_to_the_last_bit(tmp_path: Path, kernel: str, link: str) -> None:
    posterior = replace(fitted_posterior(kernel=kernel)[0], link=LINKS.get(link), variance=1 / 3)
    save_gpc(posterior, tmp_path / "model.npz")
    loaded = load_gpc(tmp_path / "model.npz")
    for name in ("kernel", "variance", "operator_bound", "link"):
        assert getattr(loaded, name) == getattr(posterior, name)
    for name in ("X", "lengthscales", "alpha", "root", "weights"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(posterior, name))
    Xnew = np.random.default_rng(0).standard_normal((5, 2))
    for ours, theirs in zip(
        loaded.latent_with_gradient(Xnew), posterior.latent_with_gradient(Xnew), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_file_is_plain_alone_and_always_the_same(tmp_path: Path) -> None:
    posterior, _ = fitted_posterior()
    for name in ("a.model", "b.model", "a.model"):
        save_gpc(posterior, tmp_path / name)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.model", "b.model"]
    assert (tmp_path / "a.model").read_bytes() == (tmp_path / "b.model").read_bytes()
    with np.load(tmp_path / "a.model", allow_pickle=False) as file:
        assert all(file[name].dtype.kind in "fU" for name in file.files)


def test_unknown_link_is_not_saved(tmp_path: Path) -> None:
    posterior = replace(fitted_posterior()[0], link=SqueezedProbit(squeeze=0.01))
    with pytest.raises(ValueError, match="can be saved"):
        save_gpc(posterior, tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", b"not a model", b"PK\x03\x04"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ModelFileError, match="not a classifier file"):
        load_gpc(tmp_path / "x")
    with pytest.raises(ModelFileError, match="no such classifier file"):
        load_gpc(tmp_path / "absent")


def test_truncated_files_are_refused(tmp_path: Path) -> None:
    save_gpc(fitted_posterior()[0], tmp_path / "x")
    (tmp_path / "x").write_bytes((tmp_path / "x").read_bytes()[:-40])
    with pytest.raises(ModelFileError, match="damaged"):
        load_gpc(tmp_path / "x")


@pytest.mark.parametrize(
    ("description", "arrays", "message"),
    [
        ({"version": 2}, {}, "version 2, expected gpsuite-gpc version 1"),
        ({"format": "gpsuite-model"}, {}, "format gpsuite-model"),
        ({"kernel": "linear"}, {}, "unknown kernel"),
        ({"link": "cauchit"}, {}, "unknown link"),
        ({"variance": None}, {}, "not a usable"),
        ({"operator_bound": 0.0}, {}, "operator_bound"),
        ({}, {"alpha": np.full(30, np.nan)}, "alpha has non-finite"),
        ({}, {"alpha": np.zeros(30, np.float32)}, "float32"),
        ({}, {"root": np.zeros((2, 2))}, "root: shape"),
        ({}, {"weights": None}, "'weights' is missing"),
    ],
)
def test_wrong_contents_are_refused(
    tmp_path: Path, description: dict[str, Any], arrays: dict[str, Any], message: str
) -> None:
    save_gpc(fitted_posterior()[0], tmp_path / "good.npz")
    with np.load(tmp_path / "good.npz") as file:
        entries = {name: file[name] for name in file.files}
    changed = json.loads(str(entries["description"])) | description
    entries |= {"description": np.array(json.dumps(changed))} | arrays
    np.savez(tmp_path / "bad.npz", **{k: v for k, v in entries.items() if v is not None})
    with pytest.raises(ModelFileError, match=message):
        load_gpc(tmp_path / "bad.npz")
