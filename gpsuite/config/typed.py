"""Settings every experiment has, and typed sections of a configuration, whose values are set one by one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gpsuite.config.grammar import FORMATS
from gpsuite.data.dataset import TASKS
from gpsuite.data.spec import CSV_OPTIONS, CSV_SYNONYMS, csv_value
from gpsuite.errors import UserError, few, nearest, unknown
from gpsuite.experiments.base import require
from gpsuite.experiments.settings import Count, Rule, at_least, one_of

SCALES = ("smoke", "quick", "paper")
ON_ERROR = ("continue", "raise")
MODES = ("auto", "serial", "processes", "dask")
ONE, MANY = (
    {int: "a whole number", float: "a number", bool: "true or false", str: "a text"},
    {int: "whole numbers", float: "numbers", bool: "true or false", str: "texts"},
)

limit = Rule(lambda seconds: 0 < seconds < math.inf, "must be above 0 and finite. Leave it out for no limit")
place = Rule(bool, "must be a folder")
plain_name = Rule(
    lambda name: 0 < len(name.encode()) <= 150 and not set(name) & set("/\\~\0") and not name.startswith("."),
    "must be a plain folder name without / \\ ~, of at most 150 bytes",
)


@dataclass
class BudgetSettings:
    """Limits of one task. None means no limit.

    Attributes:
        seconds: wall-clock limit of a task. The best valid answer is kept, and computed again when the limit grows.
    """

    seconds: Annotated[float, limit] | None


@dataclass
class ParallelSettings:
    """Place where tasks run.

    Attributes:
        mode: auto is serial below about a minute of work, otherwise processes. The numbers do not depend on it.
        workers: worker processes, by default one per core, or all of a cluster's.
        address: address of a running Dask scheduler, `tcp://host:port`. With mode dask only.
    """

    mode: Annotated[str, one_of(MODES)]
    workers: Count | None = None
    address: str | None = None

    def check(self) -> None:
        """Refuse an address that is missing, malformed, or of no use in this mode."""
        address = self.address
        if self.mode != "dask":
            require(address is None, "parallel.address", address, f"needs parallel=dask, not {self.mode}")
            return
        if address is None:
            raise UserError(
                "parallel.address: missing. Say where the Dask scheduler listens: parallel.address=tcp://HOST:PORT",
                key="parallel.address",
            )
        valid = re.fullmatch(r"(tcp|tls|wss?)://.+:\d{1,5}", address) is not None
        require(valid, "parallel.address", address, "must be tcp://HOST:PORT or tls://HOST:PORT")


@dataclass
class RunSettings:
    """Settings every experiment has; conf/config.yaml gives them. Only `seed` and `scale` change numbers.

    Attributes:
        seed: random seed.
        scale: the smallest run, the default, or the paper's own setting.
        budget: limits of one task.
        parallel: place where tasks run.
        threads: threads of BLAS and TensorFlow per process.
        results_dir: folder for results, taken literally except a leading `~`.
        data_dir: folder for downloaded data, taken literally except a leading `~`.
        run_name: part of the folder's name instead of a hash of the changed settings, taken literally.
        force: compute again what is stored.
        on_error: continue with other tasks when one fails, or stop.
        wait: wait for another run of the same folder instead of giving up.
        format: the answer and the paths as text, only the folder, or one JSON object per run on stdout.
        debug: show tracebacks of wrong input.
    """

    seed: Annotated[int, at_least(0)]
    scale: Annotated[str, one_of(SCALES)]
    budget: BudgetSettings
    parallel: ParallelSettings
    threads: Count
    results_dir: Annotated[str, place]
    data_dir: Annotated[str, place]
    run_name: Annotated[str, plain_name] | None
    force: bool
    on_error: Annotated[str, one_of(ON_ERROR)]
    wait: bool
    format: Annotated[str, one_of(FORMATS)]
    debug: bool


def structured(schema: type, content: Mapping[str, Any], where: str) -> DictConfig:
    """Return a section with the fields of a dataclass and the values of a file. Errors as of `set_value`."""
    typed: DictConfig = OmegaConf.structured(schema)
    OmegaConf.set_readonly(typed, False)
    for key, value in content.items():
        set_value(typed, key, value, f"{where}: {key}")
    return typed


def has(part: DictConfig, key: str) -> bool:
    """Return whether a dotted key is a setting of a section, not a group of settings."""
    node = _node(part, key)
    return node is not None and not isinstance(node, DictConfig)


def set_value(target: DictConfig, key: str, value: Any, name: str) -> None:
    """Set the value of a dotted key, which messages call `name`.

    A single value for a list becomes a list of one, and a text is never an interpolation.

    Raises:
        UserError: for an unknown key, or a value of another type.
    """
    node = _node(target, key)
    if node is None:
        raise unknown(f"{name}: unknown key", key, list(map(str, target)), name)
    if isinstance(node, ListConfig) and not isinstance(value, list | tuple | ListConfig):
        value = [value]
    hint = node._metadata.ref_type
    kind = in_words(hint | None if node._is_optional() else hint)
    no_flag = hint is bool and isinstance(value, int | float) and value not in (0, 1)
    if no_flag or _misshapen(value, node, kind):
        raise UserError(f"{name}={value}: must be {kind}", key=name)
    try:
        OmegaConf.update(target, key, literal(value))
    except OmegaConfBaseException as error:
        reason = f"must be {kind}" if kind else str(error).splitlines()[0]
        if value == "":
            fault = f"{name}=: no value: it {reason}. Leave {name} out for its default"
            raise UserError(fault, key=name) from error
        simple = value is None or isinstance(value, bool)
        shown = {None: "null", True: "true", False: "false"}[value] if simple else value
        raise UserError(f"{name}={shown}: {reason}", key=name) from error


def _misshapen(value: Any, node: Any, kind: str) -> bool:
    """Return whether a value has parts instead of being plain, or is a text that would be an interpolation."""
    parts = value if isinstance(node, ListConfig) else [value]
    if kind in ("", "a list"):  # the fields of its entries say more
        return False
    nested = any(isinstance(each, list | tuple | dict) for each in parts)
    return nested or ("text" not in kind and any(isinstance(each, str) and "${" in each for each in parts))


def literal(value: Any) -> Any:
    """Return a value whose texts OmegaConf reads back as they are: `${` would begin an interpolation."""
    if isinstance(value, str):
        return re.sub(r"(\\*)\$\{", lambda found: rf"{found[1]}{found[1]}\${{", value)
    return [literal(each) for each in value] if isinstance(value, list | tuple) else value


def in_words(hint: Any) -> str:
    """Return what a field's type allows: `a whole number`, `a list of numbers`. Empty if the type does not say."""
    if get_origin(hint) is Annotated:
        return in_words(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        kinds = [in_words(each) for each in get_args(hint) if each is not NoneType]
        return " or ".join([*kinds, "null"]) if all(kinds) else ""
    if get_origin(hint) is list:
        element = get_args(hint)[0]
        plain = get_args(element)[0] if get_origin(element) is Annotated else element
        return f"a list of {MANY[plain]}" if plain in MANY else "a list"
    return ONE.get(hint, "")


def _node(part: DictConfig, key: str) -> Any:
    node: Any = part
    for name in key.split("."):
        if not isinstance(node, DictConfig):
            return None
        node = node._get_node(name, validate_access=False)  # also if it has no value yet
    return node


def set_table_option(dataset: DictConfig | None, key: str, option: str, value: Any) -> None:
    """Set an option of the user's own table. `key` is `dataset.` and the option.

    Raises:
        UserError: if the dataset is not a table of the user, and for unknown options and values.
    """
    if dataset is None or dataset.get("loader") != "csv":
        name = dataset.get("name") if dataset is not None else "none"
        raise UserError(
            f"{key}: dataset {name} has no settings. For a file of your own add dataset=csv\n"
            f"its settings: {few(CSV_OPTIONS)}",
            key=key,
        )
    if option not in CSV_OPTIONS:
        near = CSV_SYNONYMS.get(option.casefold()) or nearest(option, CSV_OPTIONS)
        if near:
            right = f"dataset.{near}"
            raise UserError(f"{key}: unknown. Did you mean '{right}'?", key=key, better=(key, right))
        raise UserError(f"{key}: unknown\nvalid: {few([f'dataset.{each}' for each in CSV_OPTIONS])}", key=key)
    if option == "task" and value not in TASKS:
        raise UserError(f"{key}={value}: valid: {', '.join(TASKS)}", key=key)
    set_value(dataset, option, csv_value(option, value), key)
