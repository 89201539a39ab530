"""conf/, ours and that of every plug-in: an installed package whose entry points name methods, datasets, experiments.

A plug-in is left out as a whole if its entry points and its files do not fit together, or have a name that is taken.
Nothing of it is imported before it is used. What it is called is text of strangers.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpsuite.errors import UserError
from gpsuite.text import visible, visible_name

METHODS, DATASETS, EXPERIMENTS = "gpsuite.methods", "gpsuite.datasets", "gpsuite.experiments"
# what a file must say to be that of an entry point. Of an experiment the file's name says it
FILES = {
    METHODS: "conf/method/FAMILY/*.yaml with builder: {}",
    DATASETS: "conf/dataset/*.yaml with loader: {}",
    EXPERIMENTS: "conf/experiment/{}.yaml",
}
# group -> its files
GROUPS = {
    "experiment": "**/*.yaml",
    "dataset": "*.yaml",
    "method": "*/*.yaml",
    "model": "**/*.yaml",
    "parallel": "**/*.yaml",
    "paper": "*.yaml",
}

# libyaml's loader is the same safe loader, ten times faster
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
T = TypeVar("T")
_refused: dict[Path, str] = {}  # file of a plug-in -> why a reader refused it


class PluginError(UserError):
    """A plug-in is broken. Nothing of gpsuite is."""


@dataclass(frozen=True)
class Plugin:
    """An installed package with entry points for gpsuite.

    Attributes:
        name: name and version, fit to be shown.
        entries: (group, name) -> entry point.
        conf: the folder of its files.
        fault: why it is left out, in one sentence. Empty if it is not.
    """

    name: str
    entries: Mapping[tuple[str, str], EntryPoint]
    conf: Path = Path()
    fault: str = ""


@dataclass
class _Names:
    """Names in use: file -> owner, and (group, name) that methods, datasets and experiments refer to -> owner."""

    files: dict[str, str] = field(default_factory=dict)
    items: dict[tuple[str, str], str] = field(default_factory=dict)


@cache
def shipped_conf_dir() -> Path:
    """Return conf/: inside the installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


@cache
def shipped_published_dir() -> Path:
    """Return the published results that ship: inside the installed package a few tables, or all of a checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "published"
    return inside if inside.is_dir() else package.parent / "results" / "published"


def conf_files(conf_dir: Path, group: str) -> dict[str, Path]:
    """Return name -> file of a group such as `dataset`, of `conf_dir` and then of plug-ins. A method's: FAMILY/NAME."""
    return {name: path for each in (conf_dir, *plugin_dirs()) for name, path in files_in(each, group)}


def readable(conf_dir: Path, group: str, read: Callable[[Path], T]) -> dict[str, T]:
    """Return name -> what `read` makes of each of the `conf_files`, without the files of plug-ins that it refuses."""
    found = {}
    for name, path in conf_files(conf_dir, group).items():
        try:
            found[name] = read(path)
        except Exception as error:
            if path.is_relative_to(conf_dir):
                raise
            owner = next(each for each in plugins() if path.is_relative_to(each.conf))
            _refused[path] = sentence(owner, f"conf/{group}/{name}.yaml: {error}")
    return found


def left_out() -> list[str]:
    """Return a sentence for each plug-in that is left out, and for each file that a reader has refused."""
    return [*(each.fault for each in plugins() if each.fault), *_refused.values()]


def sentence(plugin: Plugin, text: str) -> str:
    """Return what is wrong with a plug-in on one line that is fit to be shown."""
    return visible(" ".join(f"plug-in {plugin.name}: {text}".split()))


def files_in(conf: Path, group: str) -> list[tuple[str, Path]]:
    """Return (name, file) of each file of a group in one folder."""
    root = conf / group
    return [(path.relative_to(root).with_suffix("").as_posix(), path) for path in sorted(root.glob(GROUPS[group]))]


def plugin_dirs() -> list[Path]:
    """Return the folders of the plug-ins that are not left out."""
    return [each.conf for each in plugins() if not each.fault]


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return what is installed, by name. Of two that have a name in common the second is left out."""
    found, taken = sorted(_installed(), key=lambda plugin: plugin.name), _Names()
    if found:
        _take(taken, shipped_conf_dir(), "gpsuite")
    checked = []
    for plugin in found:
        try:
            plugin = replace(plugin, conf=_conf_of(plugin))
            _take(taken, plugin.conf, plugin.name, plugin.entries)
        except PluginError as error:
            plugin = replace(plugin, fault=sentence(plugin, str(error)))
        checked.append(plugin)
    return tuple(checked)


def names_in(group: str) -> list[str]:
    """Return the names of a group's entry points."""
    return [name for each in plugins() if not each.fault for of, name in each.entries if of == group]


def load(group: str, name: str, kind: type) -> Any:
    """Return the object that a plug-in's entry point names, or None if no plug-in has one of that name.

    Raises:
        PluginError: if it cannot be imported, or is of another kind.
    """
    for plugin in plugins():
        if plugin.fault or (group, name) not in plugin.entries:
            continue
        entry = plugin.entries[group, name]
        where = f"{entry.value}, its '{name}' of {group},"
        try:
            item = entry.load()
        except (Exception, SystemExit) as error:
            fault = f"{where} cannot be imported: {type(error).__name__}: {error}"
            raise PluginError(sentence(plugin, fault)) from error
        if not isinstance(item, kind):
            raise PluginError(sentence(plugin, f"{where} is of the class {type(item).__name__}"))
        return item
    return None


def _installed() -> Iterator[Plugin]:
    seen = set()
    for distribution in importlib.metadata.distributions():
        try:
            entries = [each for each in distribution.entry_points if each.group in FILES]
            name = _title(distribution) if entries else ""
        except Exception:  # unreadable files of any package: whose it is is not known
            continue
        if entries and name.split()[0] not in seen:  # a later one of the same name is hidden by the path
            seen.add(name.split()[0])
            yield Plugin(name, {(each.group, each.name): each for each in entries})


def _title(distribution: Distribution) -> str:
    return visible_name(f"{distribution.metadata['Name'] or 'without-a-name'} {distribution.version}")


def _conf_of(plugin: Plugin) -> Path:
    """Return the folder of its files, found without importing its package."""
    packages = sorted({each.value.partition(":")[0].split(".")[0].strip() for each in plugin.entries.values()})
    if len(packages) > 1:
        raise PluginError(f"its entry points are in several packages, {', '.join(packages)}. Use one")
    try:
        spec = importlib.util.find_spec(packages[0])
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise PluginError(f"its package '{packages[0]}' is not installed")
    conf = Path(next(iter(spec.submodule_search_locations))) / "conf"
    if not conf.is_dir():
        raise PluginError(f"its package '{packages[0]}' has no folder conf with its YAML files")
    return conf


def _take(taken: _Names, conf: Path, owner: str, entries: Mapping[tuple[str, str], EntryPoint] | None = None) -> None:
    """Note the names of the files in a folder, and those that they refer to. Check a plug-in's files first.

    Raises:
        PluginError: if a name is taken, a file is missing or damaged, or requests what nobody has.
    """
    names = {f"{group}/{name}": (group, path) for group in GROUPS for name, path in files_in(conf, group)}
    # methods are known by their name in all families
    files = {f"method/{path.stem}" if group == "method" else name: name for name, (group, path) in names.items()}
    asked = {key: name for name, (group, path) in names.items() if (key := _asked(group, name, path)) is not None}
    if entries is not None:
        _refuse(((name, taken.files[key]) for key, name in files.items() if key in taken.files), "conf/{}.yaml")
        _refuse(((name, taken.items[group, name]) for group, name in entries if (group, name) in taken.items), "'{}'")
        for group, name in entries:
            if (group, name) not in asked:
                raise PluginError(f"'{name}' of {group} has no file {FILES[group].format(name)}")
        for (group, name), path in asked.items():
            if (group, name) not in {**taken.items, **entries}:
                raise PluginError(f"conf/{path}.yaml needs '{name}', which is no entry point of {group}")
    taken.files.update(dict.fromkeys(files, owner))
    taken.items.update({key: owner for key in asked if key not in taken.items})


def _refuse(clashes: Iterable[tuple[str, str]], shown: str) -> None:
    for name, owner in clashes:
        raise PluginError(f"{shown.format(name)} is a name of {owner}. Choose another one")


def _asked(group: str, name: str, path: Path) -> tuple[str, str] | None:
    """Return group and name that a file refers to: an experiment's file the experiment of its own name."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise PluginError(f"conf/{name}.yaml cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise PluginError(f"conf/{name}.yaml holds no keys")
    if group == "experiment":
        return EXPERIMENTS, name.removeprefix("experiment/")
    key = {"method": (METHODS, "builder"), "dataset": (DATASETS, "loader")}.get(group)
    return None if key is None else (key[0], str(content.get(key[1])))
