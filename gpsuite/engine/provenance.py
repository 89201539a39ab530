"""Provenance of a result: datasets, versions, commit, machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from gpsuite.data.loading import PreparedDataset
from gpsuite.experiments.base import Request
from gpsuite.plugins import plugins

PACKAGES = (
    "gpsuite",
    "numpy",
    "scipy",
    "gpflow",
    "tensorflow",
    "tensorflow-probability",
    "hydra-core",
    "pandas",
    "matplotlib",
    "scikit-learn",
    "opencv-python-headless",
    "mapie",
    "crepes",
)

# part of a record's origin that decides last bits
ARITHMETIC = ("numpy", "scipy", "tensorflow", "processor", "openblas_coretype", "avx512")
# instructions that numpy can leave unused: then it computes as on a processor without AVX-512
AVX512 = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"
_of_run: dict[str, str] = {}  # in a worker process


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide the numbers, without importing them."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    # the version is the last word of a plug-in's name
    return {**found, **dict(plugin.name.rsplit(" ", 1) for plugin in plugins() if not plugin.fault)}


@cache
def git_state() -> Mapping[str, Any]:
    """Return commit and dirty flag of the checkout the package runs from. Nulls for an installed wheel.

    They are read once: a running process does not use later commits.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return {"commit": None, "dirty": None}
    commit = _git(root, "rev-parse", "HEAD")
    # only files that affect results. Untracked files too: a new one may register a method or be a setting
    changes = _git(root, "status", "--porcelain", "--untracked-files=all", "--", "gpsuite", "conf")
    return {"commit": commit, "dirty": bool(changes) if changes is not None else None}


def machine() -> dict[str, Any]:
    """Return the machine data that timings depend on: processor, cores, memory, system, BLAS kernels."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE"),
    }


def state_commit(commit: str) -> None:
    """Use the run's commit for this worker: the checkout may have changed before the worker started."""
    if _of_run.get("commit") != commit:
        _of_run["commit"] = commit
        origin.cache_clear()


@cache
def origin() -> dict[str, str]:
    """Return the origin that every record stores: commit, versions, and `ARITHMETIC`."""
    git, found = git_state(), versions()
    commit = f"{str(git['commit'] or '')[:12]}{' with changes' if git['dirty'] else ''}"
    return {
        "commit": _of_run.get("commit", commit),
        **{name: found[name] for name in ("gpsuite", "python", "numpy", "scipy", "tensorflow")},
        "processor": _processor(),
        "openblas_coretype": os.environ.get("OPENBLAS_CORETYPE", ""),
        "avx512": "yes" if has_avx512() else "no",
    }


def has_avx512() -> bool:
    """Return whether the processor has AVX-512 according to Linux: BLAS and numpy's exp then differ in last bits."""
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def same_arithmetic(origin_of: Mapping[str, str]) -> bool:
    """Return whether a record was computed with the same last bits as here. False if it does not state them."""
    here = origin()
    return all(origin_of.get(key) == here[key] for key in ARITHMETIC)


def environment_of(origin_of: Mapping[str, str]) -> dict[str, str]:
    """Return the environment in which a process here has the last bits of BLAS and numpy of a record's origin.

    It is empty if this process already has them, or this processor cannot have them: AVX-512 can be left unused, not
    added. An empty value means that the variable is not set: the record's OpenBLAS chose its kernels itself.
    """
    here = origin()
    environment: dict[str, str] = {}
    if origin_of.get("avx512") == "no" and here["avx512"] == "yes":
        environment["NPY_DISABLE_CPU_FEATURES"] = AVX512
    elif origin_of.get("avx512", here["avx512"]) != here["avx512"]:
        return {}
    kernels = _kernels(origin_of)
    if kernels != _kernels(here) and (kernels or here["openblas_coretype"]):
        environment["OPENBLAS_CORETYPE"] = kernels
    return environment


def _kernels(origin_of: Mapping[str, str]) -> str:
    """Return OpenBLAS' kernels at an origin. Empty if OpenBLAS chose them and the choice is not known."""
    brand = "Zen" if "AMD" in origin_of.get("processor", "") else "Haswell"
    named = origin_of.get("openblas_coretype", "")
    # it becomes an environment variable: a stranger's record may contain anything
    return named if re.fullmatch("[A-Za-z0-9]{1,20}", named) else brand if origin_of.get("avx512") == "no" else ""


def dataset_provenance(request: Request[object]) -> dict[str, Any]:
    """Return the keys `dataset`, null unless there is exactly one, and `datasets` if tasks use several."""
    data = request.dataset
    several = request.datasets or request.further
    return {
        "dataset": None if data is None else _described(data),
        **({"datasets": [_described(each) for each in request.prepared]} if several else {}),
    }


def _described(data: PreparedDataset) -> dict[str, Any]:
    return {
        "name": data.name,
        "stand_in": data.stand_in,
        "content_hash": data.content_hash,
        "licence": data.spec.get("licence"),
        "citation": data.spec.get("citation"),
        **({"notes": list(data.notes)} if data.notes else {}),
        **({"warnings": list(data.warnings)} if data.warnings else {}),
    }


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (ValueError, OSError):
        return None
