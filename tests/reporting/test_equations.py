"""The index of equations: every method says what it follows, every equation of the specifications is somewhere."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
from pathlib import Path

import pytest

from gpsuite.reporting.equations import NONE, module_equations, package_equations

ROOT = Path(__file__).resolve().parents[2]
LISTED = [(e["reference"], e["locator"]) for e in json.loads((ROOT / "tests" / "equations.json").read_text("utf-8"))]
NOT_HERE = {
    ("derived", "mean over a box"): "the models of degree 3 are sharper",
    ("derived", "variance over a box"): "the models of degree 3 are sharper",
}
METHODS = [
    path
    for path in sorted((ROOT / "gpsuite" / "methods").rglob("*.py"))
    if path.name != "__init__.py" or path.parent.parent.name == "methods"
]
WORK = re.compile(r"\S.* (1[89]|20)\d\d")
LOCATOR = re.compile(
    r"(Eq\. \([\d.]+\)|(Theorem|Algorithm|Lemma|Prop\.|Corollary|Definition|Fig\.|Table) [\d.]+"
    r"|(Notes )?Sec\. [\d.]+|App\. [A-Z][\d.]*|Assumption A\d|Main Theorem|Confidence Regions|Perturbed Gradients)"
)


@pytest.mark.parametrize("path", METHODS, ids=[str(path.relative_to(ROOT)) for path in METHODS])
def test_a_method_module_names_its_equation_and_source(path: Path) -> None:
    """In its own docstring, or that of everything public in it; `none` says why."""
    stated = list(module_equations(path.read_text(encoding="utf-8"), "module"))
    assert [each for each in stated if each.place == "module"]


def test_equations_are_written_in_one_way() -> None:
    for each in package_equations():
        if each.reference in ("derived", NONE):
            assert each.locator, each
        else:
            assert WORK.fullmatch(each.reference), each
            assert not each.locator or LOCATOR.fullmatch(each.locator), each
    sources = [*(ROOT / "gpsuite").rglob("*.py")]
    assert not [path for path in sources if re.search(r"^ *Equations?: *$|^ *Eqs?: ", path.read_text("utf-8"), re.M)]


def test_every_listed_equation_is_in_the_code() -> None:
    found = {(each.reference, each.locator) for each in package_equations()}
    assert {entry for entry in LISTED if entry not in found} == set(NOT_HERE)


def test_what_is_derived_is_listed_or_written_down_once() -> None:
    """A name that is not in the list may be a slip of the pen: it must be one of these."""
    names = {each.locator for each in package_equations() if each.reference == "derived"}
    assert names - {locator for reference, locator in LISTED if reference == "derived"} == {
        "GP classifiers by PAC-Bayes",
        "copies among the rows",
        "diagonal from secant pairs",
        "expected improvement with the value of access",
        "rounding of the sparse posterior",
        "tempering of Gaussian predictions",
    }


def test_the_list_is_that_of_the_specifications() -> None:
    folder = os.environ.get("GPSUITE_SPECS_DIR", "")
    if not folder:
        pytest.skip("GPSUITE_SPECS_DIR is not set")
    script = runpy.run_path(str(ROOT / "scripts" / "list_equations.py"))
    assert [(e["reference"], e["locator"]) for e in script["listed"](Path(folder))] == LISTED


def test_places_are_functions_classes_and_modules_with_several_references() -> None:
    source = '''"""A module.

Equation: Somebody 1999
"""

class Shape:
    """A class."""

    def area(self) -> float:
        """Return it.

        Args:
            none.

        Equation: Somebody & Other 2001, Eq. (10), Eq. (2.3)
        Equation: derived, area by parts
        """
'''
    ast.parse(source)
    found = [(e.reference, e.locator, e.place, e.summary) for e in module_equations(source, "m")]
    assert found == [
        ("Somebody 1999", "", "m", "A module."),
        ("Somebody & Other 2001", "Eq. (10)", "m.Shape.area", "Return it."),
        ("Somebody & Other 2001", "Eq. (2.3)", "m.Shape.area", "Return it."),
        ("derived", "area by parts", "m.Shape.area", "Return it."),
    ]
    assert not list(module_equations('"""Plain."""', "m"))


def test_the_index_is_sorted_by_number_and_ends_with_what_is_derived() -> None:
    index = package_equations()
    reeb = list(dict.fromkeys(each.locator for each in index if each.reference == "Reeb et al. 2018"))
    numbers = [int(locator[5:-1]) for locator in reeb if locator.startswith("Eq. ")]
    assert numbers == sorted(numbers)
    own = [each.reference in ("derived", NONE) for each in index]
    assert own == sorted(own)
