"""The index of equations: which function or module implements which printed result, read from docstrings.

A docstring has a line `Equation: REFERENCE, LOCATOR, ...` per reference, such as `Equation: Reeb et al. 2018, Eq. (4),
Eq. (5)`. Results of our own are `derived, NAME`. What follows no equation is `none, WHY`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LAYERS = ("certificates", "methods", "models")
NONE = "none"

_LINE = re.compile(r"^ *Equation: (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Equation:
    """One place in the code that states one equation.

    Attributes:
        reference: authors and year, `derived` or `none`.
        locator: such as `Eq. (4)`. The name of a derived result. Empty for the whole work.
        place: dotted name of the function, class or module.
        summary: the first line of its docstring.
    """

    reference: str
    locator: str
    place: str
    summary: str


@cache
def package_equations() -> tuple[Equation, ...]:
    """Return the index of this package: by reference and locator, what is derived here last."""
    package = Path(__file__).resolve().parents[1]
    found = [
        equation
        for layer in LAYERS
        for path in sorted((package / layer).rglob("*.py"))
        for equation in module_equations(path.read_text(encoding="utf-8"), _dotted(path, package))
    ]
    return tuple(sorted(found, key=_order))


def module_equations(source: str, name: str) -> Iterator[Equation]:
    """Yield what the docstrings of a module say, `none` included."""
    if "Equation: " not in source:
        return
    tree = ast.parse(source)
    yield from _stated(tree, name)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield from _stated(node, f"{name}.{node.name}")
        if isinstance(node, ast.ClassDef):
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield from _stated(method, f"{name}.{node.name}.{method.name}")


def _stated(node: ast.Module | ast.ClassDef | ast.FunctionDef, place: str) -> Iterator[Equation]:
    text = ast.get_docstring(node) or ""
    for line in _LINE.findall(text):
        reference, *locators = line.split(", ")
        for locator in locators or [""]:
            yield Equation(reference, locator, place, text.split("\n", 1)[0])


def _dotted(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _order(equation: Equation) -> tuple[bool, str, list[tuple[int, str]], str]:
    # numbers in locators by their size
    pieces = re.split(r"(\d+)", equation.locator)
    numbered = [(int(piece), "") if piece.isdigit() else (0, piece) for piece in pieces]
    return equation.reference in ("derived", NONE), equation.reference, numbered, equation.place
