"""Numbers of small problems as they were: what every function of some packages returns, against a stored file.

Identities and oracles say that a number is right; what they cannot see is one that changed within what they allow: a
bound that became looser, a slack that lost a term, a step that is never taken. A scenario is a small, well conditioned
problem; while it runs, the returned numbers of every function of the named packages are noted, and what the function
set aside for rounding (`NAMED`: it is too small to be seen in what is returned). Of each array two things are kept: its
size and a sum with irregular weights, so that entries that are exchanged are noticed too.

The tolerance is 1e-13 of the sum of the absolute values, because the rounding that bounds pay for begins at 1e-12 of
that; a number that other processors' kernels (`PROCESSORS`) compute differently has twenty times the largest
difference. Left out is what is rounding alone, what only some processors compute (a last bit decides a branch), what
was never written (work arrays, filled with something else for each run) and what depends on the scenarios before (they
come in both orders). After a change that is meant to change numbers the failing test names the functions they come
from; when every one of them is meant,

    python -m tests.golden tests/methods/robustness/test_robustness_numbers.py

writes the file next to that module again. Run it on a processor with AVX-512: other processors compute other last bits.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import math
import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from gpsuite.engine.provenance import AVX512

Scenario = Callable[[], object]
NAMED = {"slack", "rounding", "error", "errors", "room", "unit", "allowance"}
TOLERANCE, DIFFERENCES = 1e-13, 20.0
_ROUNDING_ALONE = 1e-4
_UNWRITTEN = 1e300
_SLOTS, _CALLS, _DEPTH = 2, 12, 5


def _processor(kernels: str, without: str) -> dict[str, str]:
    return {"OPENBLAS_CORETYPE": kernels, "NPY_DISABLE_CPU_FEATURES": without}


# what others compute: kernels of the matrix routines, instructions of numpy's functions
PROCESSORS: tuple[dict[str, str], ...] = (
    {},
    *(_processor(kernels, "") for kernels in ("Haswell", "SkylakeX")),
    *(_processor(kernels, AVX512) for kernels in ("Haswell", "Zen")),
    *(_processor(kernels, f"{AVX512} AVX2 FMA3") for kernels in ("Sandybridge", "Nehalem", "Core2", "Prescott")),
)


class Numbers:
    """Notes what functions return.

    The first call of a function has a slot of its own, the others up to `_CALLS` share one.

    Attributes:
        found: by function and place in its result, a slot each: [count, weighted sum, sum of absolute values].
    """

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.found: dict[str, list[list[float]]] = {}
        self._packages, self._calls = packages, dict[str, int]()
        self._names = dict[CodeType, str | None]()
        self._seen = dict[int, object]()

    def run(self, scenario: Scenario) -> None:
        """Run it, what was computed before and kept (`functools.cache`, by object, `_KEPT`) being forgotten first."""
        for name, module in list(sys.modules.items()):
            if name.startswith(self._packages):
                getattr(module, "_KEPT", {}).clear()
                for kept in vars(module).values():
                    getattr(kept, "cache_clear", int)()
                    if isinstance(kept, WeakKeyDictionary):
                        kept.clear()
        before = sys.getprofile()
        sys.setprofile(self._watch)
        try:
            result = scenario()
        finally:
            sys.setprofile(before)
        self._note("result", result)

    def _watch(self, frame: FrameType, event: str, returned: object) -> None:
        if event != "return":
            return
        code = frame.f_code
        if code not in self._names:
            module = str(frame.f_globals.get("__name__"))
            written = not (code.co_name.startswith("<") or code.co_filename.startswith("<"))
            watched = module.startswith(self._packages) and written
            short = f"{module.removeprefix('gpsuite.').split('.', 2)[-1]}.{code.co_qualname}"
            self._names[code] = short if watched else None
        name = self._names[code]
        if name is not None:
            self._note(name, returned)
            for own in NAMED.intersection(code.co_varnames):
                if own in frame.f_locals:
                    self._note(f"{name} {own}", frame.f_locals[own])

    def _note(self, name: str, value: object) -> None:
        call = self._calls[name] = self._calls.get(name, -1) + 1
        if call >= _CALLS:
            return
        slot = min(call, _SLOTS - 1)
        for place, array in self._leaves(name, value, 0):
            slots = self.found.setdefault(place, [])
            while len(slots) <= slot:
                slots.append([0, 0.0, 0.0])
            kept = slots[slot]
            with np.errstate(all="ignore"):
                flat = np.ravel(array).astype(np.float64)
            weights = 0.5 + (0.6180339887498949 * np.arange(1, len(flat) + 1) + 0.7548776662466927 * call) % 1.0
            # one that is not finite counts by its kind, and so does what was never written and would overflow a sum
            unusual = [np.isnan(flat), flat == np.inf, flat == -np.inf, np.abs(flat) > _UNWRITTEN]
            kinds = np.select(unusual, [3.0, 5.0, 7.0, 9.0], 0.0)
            terms = weights * np.where(kinds > 0.0, kinds, flat)
            kept[0] += len(flat)
            kept[1] += math.fsum(terms)
            kept[2] += math.fsum(np.abs(terms))

    def _leaves(self, place: str, value: object, depth: int) -> Iterator[tuple[str, Any]]:
        """Yield the arrays and numbers of a result; what was seen before is left out."""
        match value:
            case bool() | int() | float() | np.generic() | np.ndarray():
                array = np.asarray(value)
                if array.dtype.kind in "biuf" and not (array.ndim and self._again(value)):
                    yield place, array
            case str() if place.startswith("result"):
                yield place, np.asarray(float(zlib.crc32(value.encode())))
            case tuple() | list() if depth < _DEPTH:
                for index, each in enumerate(value):
                    yield from self._leaves(f"{place}[{index}]", each, depth + 1)
            case dict() if depth < _DEPTH:
                for key, each in value.items():
                    yield from self._leaves(f"{place}[{key}]", each, depth + 1)
            case _ if dataclasses.is_dataclass(value) and depth < _DEPTH and not self._again(value):
                for field in dataclasses.fields(value):
                    if not isinstance(each := getattr(value, field.name, None), str):
                        yield from self._leaves(f"{place}.{field.name}", each, depth + 1)

    def _again(self, value: object) -> bool:
        """Say whether the object was noted before; it is kept, so that no other has its identity."""
        if id(value) in self._seen:
            return True
        self._seen[id(value)] = value
        return False


def noted(scenario: Scenario, packages: tuple[str, ...]) -> dict[str, list[list[float]]]:
    """Return the numbers of a scenario."""
    numbers = Numbers(packages)
    numbers.run(scenario)
    return numbers.found


def check(file: str, name: str, scenario: Scenario, packages: tuple[str, ...]) -> None:
    """Compare the numbers of a scenario with the stored ones of the test module `file`.

    Raises:
        AssertionError: naming the functions that return something else, the innermost first.
    """
    stored = _stored(_beside(Path(file)))[name]
    found = noted(scenario, packages)
    changed = [
        place for place in found.keys() | stored.keys() if not _agree(found.get(place, []), stored.get(place, []))
    ]
    order = {place: index for index, place in enumerate(found)}
    changed.sort(key=lambda place: order.get(place, -1))
    assert not changed, f"{len(changed)} of {len(stored)} numbers of {name} changed, first: {changed[:8]}"


def _agree(found: list[list[float]], stored: list[list[float] | None]) -> bool:
    if len(found) > len(stored):
        return False
    for now, then in zip_longest(found, stored):
        if then is None:
            continue  # rounding alone, or not on every processor
        tolerance = then[2] if len(then) > 2 else TOLERANCE
        if now is None or now[0] != then[0] or not abs(now[1] - then[1]) <= tolerance * now[2]:
            return False
    return True


def _beside(test: Path) -> Path:
    return test.with_name(test.stem.removeprefix("test_") + ".json.gz")


@functools.cache
def _stored(path: Path) -> dict[str, dict[str, Any]]:
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def _merged(runs: list[dict[str, list[list[float]]]]) -> dict[str, list[list[float] | None]]:
    """Return the first run's numbers with a tolerance where the others' differ, None if none holds."""
    merged: dict[str, list[list[float] | None]] = {}
    for place in dict.fromkeys(place for run in runs for place in run):
        rows = merged[place] = []
        for slots in zip_longest(*(run.get(place, []) for run in runs)):
            if None in slots or len({count for count, _, _ in slots}) > 1:
                rows.append(None)
                continue
            count, total, _ = slots[0]
            size = max(each[2] for each in slots)
            wide = DIFFERENCES * max(abs(each[1] - total) for each in slots) / size if size else 0.0
            if wide > _ROUNDING_ALONE:
                rows.append(None)
            else:
                rows.append([count, float(f"{total:.15g}")] + ([float(f"{wide:.1e}")] if wide > TOLERANCE else []))
    return merged


def _filled(make: Callable[..., Any], value: float, *shape: Any, **options: Any) -> Any:
    array = make(*shape, **options)
    if array.dtype.kind == "f":
        array.fill(value)
    return array


def main(tests: list[str]) -> None:
    """Write the files of the test modules again; the numbers of each processor come from two processes of its own."""
    if tests[0] == "--print":
        given, filling = import_module(tests[1]), float(tests[2])
        made = {name: getattr(np, name) for name in ("empty", "empty_like")}
        for name in made:
            setattr(np, name, functools.partial(_filled, made[name], filling))
        scenarios = list(given.SCENARIOS.items())[:: 1 if filling else -1]
        print(json.dumps({name: noted(run, given.PACKAGES) for name, run in scenarios}))
        return
    for test in tests:
        module = test.removesuffix(".py").replace("/", ".")
        runs = []
        for number, processor in enumerate(PROCESSORS):
            for filling in (0.0, 1e3 * (number + 1)):
                command = [sys.executable, "-m", "tests.golden", "--print", module, str(filling)]
                environment = os.environ | processor
                done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
                runs.append(json.loads(done.stdout.splitlines()[-1]))
        merged = {name: _merged([run[name] for run in runs]) for name in runs[0]}
        path = _beside(Path(test))
        path.write_bytes(gzip.compress(json.dumps(merged).encode(), mtime=0))
        print(f"{path}: {sum(map(len, merged.values()))} results of {len(merged)} problems")


if __name__ == "__main__":
    import tests.conftest  # noqa: F401  (one thread)

    main(sys.argv[1:])
