"""The files under conf/: where they are, which names they offer, and which of them an experiment takes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf

from gpsuite.data.catalogue import dataset_names, shipped_conf_dir
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, METHODS, Method


def conf_dir() -> Path:
    """Return conf/: inside the installed package, or at the top of a checkout."""
    return shipped_conf_dir()


def group_choices() -> dict[str, list[str]]:
    """Return the names each configuration group offers."""
    return _choices(conf_dir())


def method_families() -> dict[str, str]:
    """Return method -> family of every conf/method/FAMILY/NAME.yaml; methods are known only by their name.

    Raises:
        UserError: if two families have a method of one name.
    """
    return _families(conf_dir())


@cache
def _choices(root: Path) -> dict[str, list[str]]:
    names = {group: _names(root / group) for group in ("experiment", "model", "parallel")}
    return {**names, "method": sorted(_families(root)), "dataset": dataset_names(root)}


@cache
def _families(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in sorted((root / "method").glob("*/*.yaml")):
        family, name = path.parent.name, path.stem
        if name in found:
            raise UserError(f"method={name}: named twice, in conf/method/{found[name]} and {family}", key="method")
        found[name] = family
    return found


def read_file(group: str, name: str) -> dict[str, Any]:
    """Return one file of a group as plain values, without composing."""
    inside = f"{method_families()[name]}/{name}" if group == "method" else name
    path = conf_dir() / group / f"{inside}.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else {}


def read_method(name: str) -> dict[str, Any]:
    """Return the options in a method's file, typed as OmegaConf reads them; a method is one file, without defaults."""
    return dict(_read_method(conf_dir() / "method" / method_families()[name] / f"{name}.yaml"))


@cache
def _read_method(path: Path) -> dict[str, Any]:
    content = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


def _names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))


def compose_files(experiment: str, chosen: tuple[str, ...] = ()) -> DictConfig:
    """Return what Hydra makes of an experiment's files and the groups that the user chose, read-only.

    Raises:
        UserError: if a file is broken.
    """
    return _compose(conf_dir(), experiment, chosen)


# a request composes the shipped settings too, a multirun the same files again and again
@lru_cache(maxsize=64)
def _compose(root: Path, experiment: str, chosen: tuple[str, ...]) -> DictConfig:
    from hydra import compose, initialize_config_dir
    from hydra.errors import HydraException

    try:
        with initialize_config_dir(str(root), version_base="1.3"):
            content = compose("config", overrides=[f"experiment={experiment}", *chosen])
    except HydraException as error:  # a broken file of ours or of a method author
        raise UserError(f"experiment={experiment}: {str(error).splitlines()[0]}", key="experiment") from error
    # an unknown key of a scale is refused by its type, as one of the file
    OmegaConf.set_struct(content, False)
    OmegaConf.set_readonly(content, True)
    return content


def fitting_models(experiment: str) -> list[str]:
    """Return the models that an experiment takes: those like its own in all keys that it does not read."""
    shipped, entry = shipped_model(experiment), EXPERIMENTS.get(experiment)
    models = {name: read_file("model", name) for name in group_choices()["model"]}
    return [
        name
        for name, model in models.items()
        if model["kernel"] in entry.kernels
        and all(key in entry.model_keys or shipped[key] == value for key, value in model.items())
    ]


def shipped_model(experiment: str) -> Mapping[str, Any]:
    """Return the model that an experiment has if none is chosen."""
    return compose_files(experiment).model  # type: ignore[no-any-return]


def fitting_methods(experiment: str) -> list[str]:
    """Return the methods of an experiment's family that have all traits it asks for; none if it takes none."""
    wanted, family = set(EXPERIMENTS.get(experiment).method_traits), experiment.split("/")[0]
    return [
        name
        for name in group_choices()["method"]
        if wanted and method_families()[name] == family and wanted <= method_of(name).traits
    ]


def fitting_datasets(experiment: str) -> list[str]:
    """Return the shipped datasets that an experiment takes, by their kind or by name."""
    entry = EXPERIMENTS.get(experiment)
    return [
        name
        for name in group_choices()["dataset"]
        if name != "csv"
        and (not entry.only_datasets or name in entry.only_datasets)
        and (not entry.dataset_tasks or read_file("dataset", name)["task"] in entry.dataset_tasks)
    ]


def method_of(name: str) -> Method[Any]:
    """Return the method that a method's file is for."""
    return METHODS.get(str(read_method(name).get("builder")))
