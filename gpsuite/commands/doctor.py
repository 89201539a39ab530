"""`gpsuite doctor`: what commonly goes wrong on a machine, and the fix."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from gpsuite.commands.tables import console, show_json, show_table
from gpsuite.commands.words import Words, read_words
from gpsuite.config.files import conf_dir
from gpsuite.data.catalogue import describe
from gpsuite.engine.provenance import has_avx512, machine, versions
from gpsuite.errors import UserError
from gpsuite.plugins import plugins
from gpsuite.text import counted, line_width, visible, visible_name, wrapped

HELP = """
gpsuite doctor [results_dir=DIR] [data_dir=DIR] [format=json]

Versions, threads, data found, plug-ins, free disk and backends. A line that is marked ! or ✗ says what to do.
Exit code 1 if something needs fixing.
"""

LEAST_FREE_GB = 1.0
EXTRAS = {"opencv-python-headless": "images", "mapie": "peers"}  # package of `versions` -> what installs it
MISSING = ("problem", "install gpsuite again: pip install gpsuite, or make setup in a checkout")
MARKS = {"ok": ("✓", "green"), "note": ("!", "yellow"), "problem": ("✗", "bold red")}
_TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-macos", "tf-nightly")


class Finding(NamedTuple):
    """One thing looked at: ok, note or problem."""

    state: str
    what: str
    found: str
    fix: str = ""
    package: bool = False

    @property
    def columns(self) -> dict[str, str]:
        return {"state": self.state, "what": self.what, "found": self.found, "fix": self.fix}


def main(words: list[str]) -> int:
    """Print the findings."""
    given = read_words(words)
    if given.names:
        raise UserError(f"{given.names[0]}: doctor takes no names")
    findings = [*_packages(), *_machine(), *_blas(), *_places(given), *_data(given), *_plugins(), *_backends()]
    code = 1 if any(finding.state == "problem" for finding in findings) else 0
    if given.json:
        show_json({"findings": [finding.columns for finding in findings], "exit_code": code})
    elif sys.stdout.isatty():
        _show(findings)
    else:
        show_table("doctor", [finding.columns for finding in findings])
    return code


def _show(findings: Sequence[Finding]) -> None:
    """Print one line per check with a mark. Packages that are as they should be share one."""
    from rich.text import Text

    fine = [each for each in findings if each.state == "ok" and each.package]
    others = [each for each in findings if each not in fine]
    packages = Finding("ok", "packages", ", ".join(f"{each.what} {each.found}" for each in fine))
    screen, width = console(), line_width(sys.stdout)
    for each in [packages, *others] if fine else others:
        mark, style = MARKS[each.state]
        text = visible(f"{each.what}: {each.found}{f'. {each.fix}' if each.fix else ''}")
        lines = "\n".join(wrapped(text, width - 2)).replace("\n", "\n  ")
        screen.print(Text.assemble((mark, style), " ", lines), soft_wrap=True)
    counts = Counter(each.state for each in findings)
    told = [counted(counts[state], state) for state in ("problem", "note") if counts[state]]
    screen.print(Text(" and ".join(told) if told else "nothing needs fixing", style="bold"))


def _packages() -> Iterator[Finding]:
    python = platform.python_version()
    right = (3, 11) <= sys.version_info[:2] <= (3, 12)
    fix = "" if right else "use Python 3.11 or 3.12"
    yield Finding("ok" if right else "problem", "python", python, fix, package=True)
    for name, version in versions().items():
        if name == "python":
            continue
        state, fix = "ok", ""
        if version == "not installed":
            extra = EXTRAS.get(name)
            state, fix = ("note", f"only if you need it: pip install 'gpsuite[{extra}]'") if extra else MISSING
        elif name == "numpy" and int(version.split(".")[0]) >= 2:
            state, fix = "problem", "gpflow 2.11 needs numpy<2: pip install 'numpy<2', or make setup in a checkout"
        yield Finding(state, name, version, fix, package=True)
    flavours = [dist.name for dist in importlib.metadata.distributions() if dist.name in _TENSORFLOWS]
    if len(flavours) > 1:
        fix = "keep one: pip uninstall tensorflow-cpu, and install gpsuite again"
        yield Finding("problem", "TensorFlow", " and ".join(sorted(flavours)), fix)


def _machine() -> Iterator[Finding]:
    found = machine()
    yield Finding("ok", "processor", f"{found['processor']}, {found['cores']} cores, {found['memory_gb']} GB")
    asked = os.environ.get("OMP_NUM_THREADS", "")
    cores = os.cpu_count() or 1
    many = asked.isdigit() and int(asked) > cores
    shown = f"OMP_NUM_THREADS={asked or 'unset'}. gpsuite gives each process one thread unless threads= is set"
    fix = f"set it to at most {cores}" if many else ""
    yield Finding("problem" if many else "ok", "threads", shown, fix)


def _blas() -> Iterator[Finding]:
    import numpy  # noqa: F401 - loads the BLAS that threadpoolctl looks for
    from threadpoolctl import threadpool_info

    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    kernels = sorted({str(pool.get("architecture")) for pool in pools})
    slow = kernels in (["Haswell"], ["Zen"]) and has_avx512()  # AVX2 kernels
    fix = "the processor has AVX-512: OPENBLAS_CORETYPE=SkylakeX is about 1.6 times faster" if slow else ""
    yield Finding("note" if slow else "ok", "BLAS kernels", ", ".join(kernels) or "unknown", fix)


def _places(given: Words) -> Iterator[Finding]:
    for name, place in (("results_dir", given.results_dir), ("data_dir", given.data_dir)):
        folder = place.absolute()
        while not folder.exists():
            folder = folder.parent
        free = shutil.disk_usage(folder).free / 1e9
        writable = os.access(folder, os.W_OK)
        state = "ok" if writable and free >= LEAST_FREE_GB else "problem"
        fix = "" if state == "ok" else f"choose another place with {name}=DIR"
        yield Finding(state, name, f"{place}: {free:.1f} GB free{'' if writable else ', not writable'}", fix)


def _data(given: Words) -> Iterator[Finding]:
    path = os.environ.get("GPSUITE_DATA_PATH", "")
    named = [each for each in path.split(os.pathsep) if each.strip()]
    absent = ", ".join(each for each in named if not Path(each).expanduser().is_dir())
    if absent:
        yield Finding("problem", "GPSUITE_DATA_PATH", f"{absent}: no such folder", "correct or unset it")
    else:
        yield Finding("ok", "GPSUITE_DATA_PATH", path or "unset")
    rows = describe(conf_dir(), given.data_dir)
    for state in sorted({row.state for row in rows}):
        names = ", ".join(row.name for row in rows if row.state == state)
        missing = state == "missing"
        fix = "gpsuite data fetch NAME, or set GPSUITE_DATA_PATH" if missing else ""
        yield Finding("note" if missing else "ok", f"datasets: {state}", names, fix)


def _plugins() -> Iterator[Finding]:
    if not plugins():
        return
    from gpsuite.commands.plugins import plugin_faults

    for plugin in plugins():
        names = ", ".join(visible_name(name) for _, name in plugin.entries)
        yield Finding("ok", f"plug-in {plugin.name}", names)
    for fault in plugin_faults():
        yield Finding("problem", "plug-in", fault, "fix or uninstall it")


def _backends() -> Iterator[Finding]:
    if importlib.util.find_spec("loky") is not None:
        yield Finding("ok", "parallel=processes", "loky")
    else:
        yield Finding("problem", "parallel=processes", "no loky", "pip install loky")
    if importlib.util.find_spec("distributed") is not None:
        yield Finding("ok", "parallel=dask", f"distributed {importlib.metadata.version('distributed')}")
    else:
        fix = "only if you have a cluster: pip install 'gpsuite[cluster]'"
        yield Finding("note", "parallel=dask", "no distributed", fix)
