"""Faults of the installed plug-ins, which `list` and `doctor` name."""

from __future__ import annotations

from collections.abc import Iterator

from gpsuite.config.compose import compose_sections, method_of, read_method
from gpsuite.config.files import conf_dir
from gpsuite.config.overrides import Overrides
from gpsuite.config.typed import structured
from gpsuite.data.sources import LOADERS
from gpsuite.errors import UserError
from gpsuite.experiments.base import EXPERIMENTS, METHODS
from gpsuite.plugins import Plugin, PluginError, files_in, left_out, plugins, sentence
from gpsuite.reporting.catalogue import read_experiments
from gpsuite.reporting.comparison import read_paper_values


def plugin_faults() -> list[str]:
    """Import what plug-ins add, try their files, and return a sentence for each fault."""
    read_experiments(conf_dir())
    read_paper_values(conf_dir())
    found = [fault for registry in (METHODS, LOADERS, EXPERIMENTS) for fault in registry.faults()]
    found += [fault for plugin in plugins() if not plugin.fault for fault in _faulty_files(plugin)]
    return [*left_out(), *found]


def _faulty_files(plugin: Plugin) -> Iterator[str]:
    for group, attempt in {"method": _try_method, "experiment": _try_experiment}.items():
        for name, _ in files_in(plugin.conf, group):
            try:
                attempt(name)
            except PluginError:  # named already
                continue
            except UserError as error:
                yield sentence(plugin, f"conf/{group}/{name}.yaml: {error}")


def _try_method(name: str) -> None:
    name = name.split("/")[1]
    structured(method_of(name).options, read_method(name), f"method={name}")


def _try_experiment(name: str) -> None:
    compose_sections(name, Overrides({"experiment": name}, {}))
