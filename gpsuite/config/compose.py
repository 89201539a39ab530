"""Composition: Hydra merges the files, dataclasses type them, the user's values are set one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf

from gpsuite.config.files import conf_dir, conf_file, group_choices, method_families, method_family, read_file
from gpsuite.config.overrides import Overrides, Several, refuse_several, unknown_key
from gpsuite.config.spelling import public_options
from gpsuite.config.typed import SCALES, RunSettings, has, set_table_option, set_value, structured
from gpsuite.data.catalogue import read_spec
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.data.spec import CSV_OPTIONS, CsvSpec, DatasetSpec
from gpsuite.data.table.describe import ask_target
from gpsuite.data.table.read import class_question, suggested_task
from gpsuite.errors import DataError, UserError, few, unknown_name
from gpsuite.experiments.base import EXPERIMENTS, METHODS, Experiment, Method, MethodOptions, import_family
from gpsuite.experiments.settings import check_settings
from gpsuite.models.config import ModelSpec
from gpsuite.plugins import PluginError, plugin_dirs

FILE_ONLY = ("meta", "scales")  # parts of an experiment file that are no settings
# experiments that take a target the other way than one of this task
OTHER_WAY = {"regression": "robustness/safety", "classification": "pac_bayes/regression"}
METHOD_FIXED = ("builder", "title", "reference")  # what a method is, not how it is set


@dataclass(frozen=True)
class Sections:
    """Files and the user's values merged, typed part by part. Values may still be missing.

    Attributes:
        sections: settings, run, model, dataset if there is one, and `method/NAME` of each method.
        datasets: of an experiment over several datasets, in the order requested.
        meta: the experiment file's meta block.
    """

    experiment: str
    sections: Mapping[str, DictConfig]
    datasets: Mapping[str, DatasetSpec]
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class Composed:
    """A composed and typed configuration. `datasets` and `meta` as in `Sections`.

    `question` says how the target of the user's table was understood if there is another way.
    """

    experiment: str
    entry: Experiment[Any]
    run: RunSettings
    settings: Any
    methods: Mapping[str, MethodOptions]
    model: ModelSpec
    dataset_name: str | None
    dataset: DatasetSpec | CsvSpec | None
    datasets: Mapping[str, DatasetSpec]
    meta: Mapping[str, Any]
    question: str = ""


def compose_run(experiment: str, overrides: Overrides) -> Composed:
    """Compose the files, apply the scale, then the user's values, and type every part.

    Raises:
        UserError: for unknown keys, wrong types, impossible values or pairs, and missing values.
    """
    return _typed(compose_sections(experiment, overrides))


def compose_sections(experiment: str, overrides: Overrides) -> Sections:
    """Compose the files, apply the scale, then the user's values, part by part.

    Raises:
        UserError: for unknown keys, wrong types and methods of other experiments.
    """
    import_family(experiment)
    entry = EXPERIMENTS.get(experiment)
    values = dict(overrides.values)
    _refuse_several(values, entry)
    _refuse_model(experiment, overrides.groups, entry)
    content = _compose_files(experiment, overrides.groups, entry)
    scale = values.get("scale", content.get("scale", "quick"))
    if scale not in SCALES:
        raise unknown_name("scale", str(scale), SCALES)
    scaled = OmegaConf.merge(content, (content.get("scales") or {}).get(scale) or {})
    plain: dict[str, Any] = OmegaConf.to_container(scaled)  # type: ignore[assignment]
    names = _method_names(entry, plain, overrides.groups, values)
    datasets = {}
    if entry.several_datasets and "dataset" not in overrides.groups:
        datasets = _read_datasets(values.pop("datasets", plain.get("datasets")), experiment)
    _refuse_foreign_methods(experiment, names)
    sections = _sections(entry, plain, names)
    _apply(sections, values, experiment)
    return Sections(experiment, sections, datasets, plain.get("meta") or {})


def _refuse_several(values: Mapping[str, Any], entry: Experiment[Any]) -> None:
    lists = {key for key, hint in get_type_hints(entry.settings).items() if get_origin(hint) is list}
    for key, value in values.items():
        if isinstance(value, Several):
            raise refuse_several(key, value, is_list=key in {*lists, "methods", "datasets"})


def _refuse_model(experiment: str, groups: Mapping[str, str], entry: Experiment[Any]) -> None:
    """Raise if a chosen model would change nothing, or has a key that the experiment does not read."""
    if "model" not in groups:
        return
    name = f"model={groups['model']}"
    if not entry.model_keys:
        own = [key for key in ("prior", "kernel", "models") if key in get_type_hints(entry.settings)]
        has = f". It has {own[0]}=" if own else ""
        raise UserError(f"{name}: {experiment} builds its own models{has}", key="model")
    if groups["model"] in fitting_models(experiment):
        return
    chosen, shipped = read_file("model", groups["model"]), shipped_model(experiment)
    foreign = [key for key in chosen if key not in entry.model_keys and shipped[key] != chosen[key]]
    key, taken = ("kernel", entry.kernels) if not foreign else (foreign[0], entry.model_keys)
    valid = f"\nvalid: {', '.join(f'model={fitting}' for fitting in fitting_models(experiment))}"
    raise UserError(
        f"{name}: it says {key}={chosen[key]}, and {experiment} has only {', '.join(taken)}{valid}", key="model"
    )


def _compose_files(experiment: str, groups: Mapping[str, str], entry: Experiment[Any]) -> DictConfig:
    if "dataset" in groups and entry.several_datasets and not entry.single_dataset:
        raise _refuse_single(f"dataset={groups['dataset']}", experiment)
    if "dataset" in groups and not entry.dataset_tasks and groups["dataset"] not in entry.variants:
        valid = f"\nvalid: {', '.join(entry.variants)}" if entry.variants else ""
        valid += "\nyour own table: gpsuite data describe FILE names the experiments that take it"
        raise UserError(f"dataset={groups['dataset']}: {experiment} has a fixed dataset{valid}", key="dataset")
    chosen = [f"{group}={name}" for group, name in groups.items() if group not in ("experiment", "method")]
    return compose_files(experiment, tuple(chosen))


def _method_names(
    entry: Experiment[Any], plain: Mapping[str, Any], groups: Mapping[str, str], values: dict[str, Any]
) -> list[str]:
    """Return the methods to run: `method=` or `methods=` of the user, otherwise the file's."""
    listed = values.pop("methods", None)
    if listed is not None and "method" in groups:
        raise UserError("method: given together with methods. Give one of the two", key="method")
    given = listed if listed is not None else plain.get("methods") or []
    names = [groups["method"]] if "method" in groups else given
    names = [str(name) for name in (names if isinstance(names, list | tuple) else [names])]
    if entry.method_traits and not names:
        raise UserError(f"methods={names}: name at least one method", key="methods")
    if len(set(names)) < len(names):
        raise UserError(f"methods={names}: a method is named twice", key="methods")
    if names and not entry.method_traits:
        raise UserError(f"method={names[0]}: this experiment has no methods", key="method")
    return names


def _refuse_foreign_methods(experiment: str, names: Sequence[str]) -> None:
    """Raise if a method is of another family, or lacks a trait that the experiment requests."""
    valid = fitting_methods(experiment) if names else []
    for name in names:
        if name not in group_choices()["method"]:
            raise unknown_name("method", name, valid)
        if name not in valid:
            method_of(name)  # a broken plug-in says what is wrong with it
            raise UserError(f"method={name}: not a method of {experiment}\nvalid: {few(valid)}", key="method")


def _sections(entry: Experiment[Any], plain: Mapping[str, Any], names: Sequence[str]) -> dict[str, DictConfig]:
    """Return typed sections: settings, run, model, dataset, and one per method."""
    run_names = {each.name for each in fields(RunSettings)}
    others = {*run_names, *FILE_ONLY, "method", "methods", "datasets"}
    own = {key: value for key, value in plain.items() if key not in others}
    model, dataset = own.pop("model", None), own.pop("dataset", None)
    sections = {
        "run": structured(RunSettings, {k: v for k, v in plain.items() if k in run_names}, "config"),
        "settings": structured(entry.settings, own, "experiment"),
        "model": structured(ModelSpec, model or {}, "model"),
    }
    if dataset is not None:
        spec = CsvSpec if dataset.get("loader") == "csv" else DatasetSpec
        sections["dataset"] = structured(spec, dataset, "dataset")
    for name in names:
        content = read_method(name)
        sections[f"method/{name}"] = structured(method_of(name).options, content, f"method={name}")
    return sections


def _apply(sections: Mapping[str, DictConfig], values: Mapping[str, Any], experiment: str) -> None:
    """Set the user's values, each in the section that has its key."""
    entry = EXPERIMENTS.get(experiment)
    methods = {name: part for name, part in sections.items() if name.startswith("method/")}
    for key, value in values.items():
        head, _, option = key.partition(".")
        if head == "dataset" and option:
            if entry.several_datasets and "dataset" not in sections:
                raise _refuse_single(key, experiment)
            set_table_option(sections.get("dataset"), key, option, value)
            continue
        if head == "model" and option:
            targets = [sections["model"]] if option in entry.model_keys else []
        elif head == "method" and option:
            owned = [part for part in methods.values() if option.split(".")[0] in part]
            targets = [] if option in METHOD_FIXED else owned
            if methods and not targets:
                _refuse_foreign_option(option, list(methods), experiment)
        else:
            targets = [sections[name] for name in ("settings", "run") if has(sections[name], key)][:1]
            option = key
        if not targets:
            raise unknown_key(key, valid_keys(sections, experiment), experiment)
        for target in targets:
            set_value(target, option, value, key)


def _refuse_foreign_option(option: str, chosen: Sequence[str], experiment: str) -> None:
    """Raise if an option is of no chosen method but of others that the experiment takes."""
    having = [
        name
        for name in fitting_methods(experiment)
        if option in {each.name for each in fields(method_of(name).options)} - {*METHOD_FIXED}
    ]
    if having:
        names = ", ".join(name.removeprefix("method/") for name in chosen)
        raise UserError(
            f"method.{option}: not an option of {names}. Name a method that has it\nvalid: {', '.join(having)}",
            key=f"method.{option}",
        )


def valid_keys(sections: Mapping[str, DictConfig], experiment: str) -> list[str]:
    """Return every key the user may set for these sections, dotted: the experiment's own first."""
    entry = EXPERIMENTS.get(experiment)
    names = {section: [str(leaf) for leaf in part] for section, part in sections.items()}
    own = list(public_options(experiment, dict.fromkeys(names["settings"], ())))
    keys = [*own, "experiment", *(["kernel"] if entry.model_keys else []), "parallel"]
    keys += ["datasets"] * entry.several_datasets
    if entry.single_dataset or not entry.several_datasets:
        keys += ["dataset"] * bool(entry.dataset_tasks or entry.variants)
    keys += ["method", "methods"] if entry.method_traits else []
    for name in names["run"]:
        node = sections["run"]._get_node(name)
        keys += [f"{name}.{leaf!s}" for leaf in node] if isinstance(node, DictConfig) else [name]
    keys += [f"model.{leaf}" for leaf in entry.model_keys]
    for section, leaves in names.items():
        if section.startswith("method/"):
            keys += [f"method.{leaf}" for leaf in leaves if leaf not in METHOD_FIXED]
    if "dataset" in sections and sections["dataset"].get("loader") == "csv":
        keys += [f"dataset.{leaf}" for leaf in CSV_OPTIONS]
    return list(dict.fromkeys(keys))


def _refuse_missing(sections: Mapping[str, DictConfig]) -> None:
    for name, part in sections.items():
        missing = sorted(OmegaConf.missing_keys(part))
        if missing:
            key = missing[0] if name in ("run", "settings") else f"{name.split('/')[0]}.{missing[0]}"
            if key == "dataset.target":
                raise ask_target(str(part.path))
            raise UserError(f"{key}: missing. Give it as {key}=VALUE", key=key)


def _typed(untyped: Sections) -> Composed:
    experiment, sections = untyped.experiment, untyped.sections
    entry = EXPERIMENTS.get(experiment)
    _refuse_missing(sections)
    built: dict[str, Any] = {name: OmegaConf.to_object(part) for name, part in sections.items()}
    for name, typed in built.items():
        if is_dataclass(typed):
            check_settings(typed, "method." if name.startswith("method/") else "")
    methods: dict[str, Any] = {
        name.split("/", 1)[1]: typed for name, typed in built.items() if name.startswith("method/")
    }
    dataset: Any = built.get("dataset")
    question = ""
    if isinstance(dataset, CsvSpec) and dataset.task is None and entry.dataset_tasks:
        # what the experiment is made for. If that is several tasks, what the target looks like
        several = len(entry.dataset_tasks) > 1
        dataset.task = suggested_task(dataset) if several else entry.dataset_tasks[0]
        if dataset.task in OTHER_WAY:
            question = class_question(dataset, experiment, experiment if several else OTHER_WAY[dataset.task])
    composed = Composed(
        experiment=experiment,
        entry=entry,
        run=built["run"],
        settings=built["settings"],
        methods=methods,
        model=built["model"],
        dataset_name=dataset.name if dataset is not None else None,
        dataset=dataset,
        datasets=untyped.datasets,
        meta=untyped.meta,
        question=question,
    )
    if composed.dataset is not None:
        _refuse_dataset(composed, "dataset", composed.dataset)
    for spec in composed.datasets.values():
        _refuse_dataset(composed, "datasets", spec)
    return composed


def _refuse_dataset(composed: Composed, key: str, dataset: DatasetSpec | CsvSpec) -> None:
    """Raise if the experiment or a method cannot learn from the dataset. `key` is the user's word for it."""
    entry = composed.entry
    allowed = set(entry.dataset_tasks or [dataset.task])
    for options in composed.methods.values():
        allowed &= {*options.method.dataset_tasks, *entry.methodless}
    if dataset.task in allowed and (not entry.only_datasets or dataset.name in entry.only_datasets):
        return
    fitting = fitting_datasets(composed.experiment)
    valid = [name for name in fitting if read_file("dataset", name)["task"] in allowed]
    if key == "dataset":
        own = isinstance(dataset, CsvSpec)
        valid.append(f"csv with dataset.task={'|'.join(sorted(filter(None, allowed)))}" if own else "csv")
    users = ", ".join(composed.methods) or composed.experiment
    fault = f"{dataset.name}: a {dataset.task} dataset cannot be used with {users}"
    if entry.only_datasets:
        fault = f"[{dataset.name}]: not a dataset of this study"
    raise UserError(f"{key}={fault}\nvalid: {few(valid)}", key=key)


def _read_datasets(listed: Any, experiment: str) -> dict[str, DatasetSpec]:
    """Return name -> spec in the order of a list of datasets, or of a single name."""
    names = list(map(str, listed)) if isinstance(listed, list | tuple) else [] if listed is None else [str(listed)]
    if not names:
        raise UserError("datasets=[]: name at least one dataset", key="datasets")
    if len(set(names)) < len(names):
        raise UserError(f"datasets=[{','.join(names)}]: a dataset is named twice", key="datasets")
    return {name: _read_dataset(name, experiment) for name in names}


def _read_dataset(name: str, experiment: str) -> DatasetSpec:
    if name not in group_choices()["dataset"]:
        raise unknown_name("dataset", name, _dataset_names())
    spec = read_spec(conf_dir(), name)
    if isinstance(spec, CsvSpec):
        raise _refuse_single(f"datasets=[{name}]", experiment)
    return spec


def _refuse_single(word: str, experiment: str) -> UserError:
    return UserError(
        f"{word}: {experiment} has a list of datasets. Write datasets=[A,B]\n"
        f"a table of your own: gpsuite run pac_bayes/regression dataset=FILE\nvalid: {few(_dataset_names())}",
        key="dataset",
    )


def _dataset_names() -> list[str]:
    return [name for name in group_choices()["dataset"] if name != "csv"]


def prepare_datasets(
    specs: Mapping[str, DatasetSpec], *, cache_dir: Path, allow_stand_in: bool, allow_absent: bool
) -> dict[str, PreparedDataset]:
    """Find and verify every dataset, before any work.

    Raises:
        DataError: if one is missing or changed. Also says how to leave it out.
    """
    found: dict[str, PreparedDataset] = {}
    for name, spec in specs.items():
        try:
            prepared = prepare(spec, cache_dir=cache_dir, allow_stand_in=allow_stand_in, allow_absent=allow_absent)
        except DataError as error:
            raise DataError(_without(name, specs, str(error)), key="datasets") from error
        if prepared.absent:
            prepared = replace(prepared, absent=_without(name, specs, prepared.absent))
        found[name] = prepared
    return found


def _without(name: str, specs: Mapping[str, DatasetSpec], fault: str) -> str:
    """Return what is wrong with a dataset, and on its second line how to leave it out, if there are others."""
    first, *more = fault.split("\n")
    others = [other for other in specs if other != name]
    return "\n".join([first, *([f"leave it out: datasets=[{','.join(others)}]"] if others else []), *more])


# The files as they are, and which of them an experiment takes.


def read_method(name: str) -> dict[str, Any]:
    """Return the options in a method's file, typed as OmegaConf reads them. A method is one file, without defaults."""
    return dict(_read_method(conf_file("method", f"{method_families()[name]}/{name}")))


@cache
def _read_method(path: Path) -> dict[str, Any]:
    content = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(content, dict)
    return {str(key): value for key, value in content.items()}


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
    from hydra.core.override_parser.types import Quote, QuotedString
    from hydra.errors import HydraException

    places = [QuotedString(f"file://{each}", Quote.double).with_quotes() for each in plugin_dirs()]
    try:
        with initialize_config_dir(str(root), version_base="1.3"):
            search = [f"hydra.searchpath=[{','.join(places)}]"] if places else []
            content = compose("config", overrides=[f"experiment={experiment}", *chosen, *search])
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
    """Return the methods of the experiment's method family with all traits it requests. None if it takes none."""
    wanted, family = set(EXPERIMENTS.get(experiment).method_traits), method_family(experiment)
    return [
        name
        for name in group_choices()["method"]
        if wanted and method_families()[name] == family and wanted <= _traits(name)
    ]


def _traits(name: str) -> frozenset[str]:
    """Return a method's traits. One of a broken plug-in has none, and fits nowhere."""
    try:
        return method_of(name).traits
    except PluginError:
        return frozenset()


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
    import_family(method_families()[name])
    return METHODS.get(str(read_method(name).get("builder")))
