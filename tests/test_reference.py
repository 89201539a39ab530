"""The reference pages are what their generator makes, and complete: commands, settings, methods, tables, columns."""

from __future__ import annotations

import ast
import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from gpsuite.commands import COMMANDS
from gpsuite.config.files import group_choices, method_families
from gpsuite.data.spec import CSV_OPTIONS

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / ".github/guide"
AGAIN = "python scripts/write_reference.py"
EXPERIMENTS = ROOT / "gpsuite/experiments"


@cache
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts/write_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def committed(name: str) -> str:
    return (GUIDE / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["commands", "settings", "tables", "files", "datasets"])
def test_a_page_is_what_its_generator_makes(name: str) -> None:
    assert committed(name).splitlines() == generator().page(generator().PAGES[name]).splitlines(), AGAIN


def test_every_page_of_the_reference_is_made() -> None:
    made = {path.stem for path in GUIDE.glob("*.md") if path.read_text(encoding="utf-8").startswith(generator().MADE)}
    assert made == set(generator().PAGES)


def test_nothing_that_can_be_set_or_called_is_missing() -> None:
    names = {"commands": list(COMMANDS), "datasets": [f"| `{name}`" for name in group_choices()["dataset"]]}
    names["settings"] = [f"### {name}\n" for name in (*generator().experiments(), *method_families())]
    names["settings"] += [f"`dataset.{key}`" for key in CSV_OPTIONS]
    assert [name for page, wanted in names.items() for name in wanted if name not in committed(page)] == []


def test_every_column_of_every_table_has_a_meaning() -> None:
    script = generator()
    missing = [
        f"{name}, {table}: {column}"
        for name, tables in script.headers().items()
        for table, columns in tables.items()
        for column in columns
        if not script.meaning(column, table, name.split("/")[0])
    ]
    assert missing == [], "write it into scripts/reference_columns.yaml"
    assert set(script.headers()) == set(script.experiments())


def test_no_meaning_is_left_over() -> None:
    script = generator()
    used = {column for tables in script.headers().values() for columns in tables.values() for column in columns}
    used |= {script.pattern(column) for column in used}
    assert sorted(set(script.COLUMNS["meanings"]) - used) == []


def test_every_table_that_an_experiment_names_is_listed() -> None:
    listed = committed("tables")
    missing = []
    for path in sorted(EXPERIMENTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "table":
                constants = [arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant)]
                names = map(str, constants)
                missing += [f"{path.name}: {name}" for name in names if f"`{name}`" not in listed]
    assert missing == [], f"run the experiment, or name its columns in scripts/reference_columns.yaml; {AGAIN}"
