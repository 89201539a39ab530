"""The room of statistics knows numbers only."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import gpsuite.statistics

# gpsuite.arrays names numpy's types and nothing else
ALLOWED = {"numpy", "scipy", "gpsuite.arrays", "gpsuite.statistics", *sys.stdlib_module_names}


def test_statistics_import_numpy_and_scipy_only() -> None:
    modules = sorted(Path(gpsuite.statistics.__file__).parent.glob("*.py"))
    assert len(modules) > 3
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                room = ".".join(name.split(".")[:2]) if name.startswith("gpsuite") else name.split(".")[0]
                assert room in ALLOWED, f"{path.name} imports {name}"
