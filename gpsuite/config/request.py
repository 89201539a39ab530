"""From words to a validated request: what the science is, and how the user wants it run."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, cast

from gpsuite.config.compose import Composed, compose_run, prepare_datasets
from gpsuite.config.files import conf_dir, group_choices
from gpsuite.config.overrides import Overrides, read_overrides
from gpsuite.config.spelling import stored
from gpsuite.data.loading import PreparedDataset, prepare
from gpsuite.data.spec import CsvSpec
from gpsuite.data.table.layout import read_bytes
from gpsuite.engine.keys import short_hash
from gpsuite.engine.plans import RunOptions
from gpsuite.errors import DataError, UserError
from gpsuite.experiments.base import EXPERIMENTS, Request
from gpsuite.text import typed_path

# settings that have another name below a figure
WORDS = {
    "inducing": "M",
    "other_kernel_inducing": "M of the other kernel",
    "count": "points",
    "hmc_repetitions": "HMC repetitions",
}


def read_request(words: Sequence[str], *, allow_absent: bool = False) -> tuple[Request[object], RunOptions]:
    """Turn `key=value` words into a validated request and the options of how to run it.

    With `allow_absent` a dataset's files may be missing. See `require_data`.

    Raises:
        UserError: for anything wrong, before any work. The message names key, value and what is allowed.
    """
    overrides = stored(read_overrides(words, group_choices()))
    experiment = experiment_name(overrides)
    composed = compose_run(experiment, overrides)
    as_shipped = Overrides({"experiment": experiment}, {"scale": composed.run.scale})
    shipped = composed if overrides == as_shipped else compose_run(experiment, as_shipped)
    where: dict[str, Any] = {
        "cache_dir": typed_path(composed.run.data_dir),
        "allow_stand_in": composed.run.scale == "smoke",
        "allow_absent": allow_absent,
    }
    prepared = _prepare(composed, where)
    if isinstance(composed.dataset, CsvSpec) and prepared is not None:
        composed, prepared = _fit_small(composed, prepared, overrides)
    several = prepare_datasets(composed.datasets, **where)
    science = _science(composed, prepared)
    original = _science(shipped, None)
    changed = tuple(key for key in {**original, **science} if science.get(key) != original.get(key))
    differing = {key: science.get(key) for key in changed}
    tag = composed.run.run_name or (short_hash(differing, 8) if changed else None)
    request = Request(
        experiment=composed.experiment,
        scale=composed.run.scale,
        seed=composed.run.seed,
        settings=composed.settings,
        methods=composed.methods,
        model=composed.model,
        dataset=prepared,
        datasets=several,
        budget_seconds=composed.run.budget.seconds,
        options=_plain(composed),
    )
    parts = _parts(EXPERIMENTS.get(experiment).parts, changed, science, original)
    return request, _options(composed, science, changed, parts, tag, words)


def experiment_name(overrides: Overrides) -> str:
    """Return the experiment's name. A UserError if none was given."""
    if "experiment" not in overrides.groups:
        raise UserError("experiment: missing. Name one, such as pac_bayes/regression\ngpsuite list", key="experiment")
    return overrides.groups["experiment"]


def _prepare(composed: Composed, where: Mapping[str, Any]) -> PreparedDataset | None:
    if composed.dataset is None:
        return None
    new = composed.dataset.new if isinstance(composed.dataset, CsvSpec) else None
    if new is not None and not composed.entry.new_rows:
        fault = f"{composed.experiment} predicts no new rows\nexperiment=guarantee does:"
        raise UserError(f"dataset.new={new}: {fault}", key="dataset.new", fix={"experiment": "guarantee"})
    if isinstance(composed.dataset, CsvSpec) and not composed.entry.new_rows:
        _refuse_arranged(composed.experiment, composed.dataset)
    prepared = prepare(composed.dataset, **where)
    if composed.question:
        prepared = replace(prepared, warnings=(*prepared.warnings, composed.question))
    if isinstance(composed.dataset, CsvSpec) and prepared.task != "measurements":
        targets = prepared.spec["target"]
        if len(targets) > 1:
            raise DataError(
                f"dataset.target=[{', '.join(targets)}]: {composed.experiment} learns one target\nname one of them:",
                key="dataset.target",
                fix={"dataset.target": targets[0]},
            )
    return prepared


def _fit_small(composed: Composed, prepared: PreparedDataset, overrides: Overrides) -> tuple[Composed, PreparedDataset]:
    """Return both with the shipped numbers of rows that do not fit a small table made smaller, and a note of each.

    A quarter of the rows are test rows. Half of the training rows are inducing inputs. What the user sets stays.
    """
    settings, rows, smaller = composed.settings, prepared.rows, {}
    test = getattr(settings, "test_rows", None)
    if test is not None and test > rows // 2 and "test_rows" not in overrides.values:
        test = max(rows // 4, 1)
        smaller = {"test_rows": test}
        if "count" not in overrides.values and getattr(settings, "count", 0) > test:
            smaller["count"] = test
    training = rows - (math.ceil(rows * getattr(settings, "test_share", 0.0)) if test is None else test)
    methods = dict(composed.methods)
    told = [f"{key}={value}: the {rows} rows do not allow {getattr(settings, key)}" for key, value in smaller.items()]
    if not any(key.endswith("inducing") for key in overrides.values):
        for name, options in methods.items():
            if (inducing := getattr(options, "inducing", 0)) > training > 1:
                methods[name] = replace(cast("Any", options), inducing=max(training // 2, 1))
                told.append(
                    f"method.inducing={max(training // 2, 1)}: {training} training rows do not allow {inducing}"
                )
    if not told:
        return composed, prepared
    settings = replace(settings, **smaller)
    if hasattr(settings, "check"):
        settings.check()
    notes = (*prepared.notes, *dict.fromkeys(told))
    return replace(composed, settings=settings, methods=methods), replace(prepared, notes=notes)


def _refuse_arranged(experiment: str, spec: CsvSpec) -> None:
    """Refuse what is said of the order and groups of rows where the split does not follow it."""
    for key in ("time", "order", "group", "weights"):
        value = getattr(spec, key)
        if value is not None:
            fault = f"{experiment} takes test rows at random\nexperiment=guarantee follows it:"
            raise UserError(f"dataset.{key}={value}: {fault}", key=f"dataset.{key}", fix={"experiment": "guarantee"})


def _science(composed: Composed, prepared: PreparedDataset | None) -> dict[str, Any]:
    """Return everything that decides the numbers, as plain values."""
    dataset: dict[str, Any] = {"name": composed.dataset_name}
    if isinstance(composed.dataset, CsvSpec) and prepared is not None:
        dataset["content"] = prepared.content_hash
        if composed.dataset.new is not None:  # another file of rows to predict is another run
            dataset["new"] = hashlib.sha256(read_bytes(composed.dataset.new, "new")).hexdigest()
    several = {"datasets": sorted(composed.datasets)} if composed.datasets else {}
    return {
        **asdict(composed.settings),
        **several,
        "seed": composed.run.seed,
        "methods": {name: asdict(options) for name, options in composed.methods.items()},
        "model": asdict(composed.model),
        "dataset": dataset,
    }


def _parts(
    allowed: Sequence[str], changed: Sequence[str], science: Mapping[str, Any], original: Mapping[str, Any]
) -> dict[str, str]:
    """Return, in words, the changed settings that are a part of the shipped ones: fewer, or some of a list."""
    parts = {}
    for key in (key for key in changed if key in allowed):
        ours, shipped = science[key], original[key]
        if _is_part(ours, shipped):
            # of methods the names: that their options are the shipped ones has just been checked
            ours, shipped = (list(each) if isinstance(each, dict) else each for each in (ours, shipped))
            name = WORDS.get(key, key.replace("_", " "))
            if isinstance(shipped, list):
                missing = ", ".join(str(each) for each in shipped if each not in ours)
                parts[key] = f"{name} = {missing} missing" if ours else f"no {name}"
            else:
                parts[key] = f"{ours} of {shipped} {name}"
    return parts


def _is_part(ours: Any, shipped: Any) -> bool:
    if isinstance(shipped, dict):
        return len(ours) < len(shipped) and all(shipped.get(name) == value for name, value in ours.items())
    return bool(set(ours) < set(shipped) if isinstance(shipped, list) else ours < shipped)


def _plain(composed: Composed) -> dict[str, Any]:
    """Return the whole configuration for config.yaml."""
    several = {"datasets": {name: asdict(spec) for name, spec in composed.datasets.items()}}
    return {
        "experiment": composed.experiment,
        **asdict(composed.run),
        **asdict(composed.settings),
        "methods": {name: asdict(options) for name, options in composed.methods.items()},
        "model": asdict(composed.model),
        "dataset": None if composed.dataset is None else asdict(composed.dataset),
        **(several if composed.datasets else {}),
    }


def _options(
    composed: Composed,
    science: Mapping[str, Any],
    changed: tuple[str, ...],
    parts: dict[str, str],
    tag: str | None,
    words: Sequence[str],
) -> RunOptions:
    run = composed.run
    return RunOptions(
        results_dir=typed_path(run.results_dir),
        conf_dir=conf_dir(),
        tag=tag,
        named=run.run_name is not None,
        science=short_hash({"experiment": composed.experiment, **science}),
        changed=changed,
        parts=parts,
        mode=run.parallel.mode,
        workers=run.parallel.workers,
        address=run.parallel.address,
        threads=run.threads,
        force=run.force,
        raise_errors=run.on_error == "raise",
        wait=run.wait,
        format=run.format,
        command=("gpsuite", "run", *words),
        meta=composed.meta,
    )
