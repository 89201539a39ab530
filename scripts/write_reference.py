"""Write the reference pages of the guide from settings, schemas, help texts and headers of the published tables.

    python scripts/write_reference.py

tests/test_reference.py compares the committed pages with what this prints, and checks that they are complete.
"""

from __future__ import annotations

import csv
import importlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from gpsuite.certificates.certificate import Claim, Origin, StoredRegion
from gpsuite.certificates.envelope import FORMAT, VERSION
from gpsuite.certificates.model import Model
from gpsuite.certificates.risk import ARRAYS, Rows
from gpsuite.commands import COMMANDS
from gpsuite.config.compose import fitting_methods
from gpsuite.config.explain import Setting, explain_settings, field_meanings
from gpsuite.config.files import conf_dir, group_choices, method_families, read_file
from gpsuite.config.overrides import read_overrides
from gpsuite.config.spelling import in_full, stored
from gpsuite.data.catalogue import describe
from gpsuite.experiments.base import EXPERIMENTS
from gpsuite.experiments.report import Outcome
from gpsuite.reporting.catalogue import read_experiments
from gpsuite.reporting.comparison import ComparisonRow
from gpsuite.reporting.metrics import METRICS, metric

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / ".github/guide"
COLUMNS = yaml.safe_load((ROOT / "scripts/reference_columns.yaml").read_text(encoding="utf-8"))
STATISTICS = "statistics"
MADE = "<!-- made by scripts/write_reference.py -->"

EXIT_CODES = """| code | meaning |
| ---: | :--- |
| 0 | done |
| 1 | some tasks failed. The others are kept, and each failure is named with its traceback file |
| 2 | wrong input: one message of at most four lines, nothing is lost |
| 3 | nothing safe or possible, such as a plan without a safe measurement |
| 130 | interrupted. Run the same command again to resume |"""
RUN_FOLDER = """    results/<family>/<name>/<scale>[~<tag>]/
      config.yaml  plan.json  run.json        what was asked, its tasks, and where the numbers come from
      records.csv  artifacts/<key>.npz        one row per task, and its arrays
      tables/*.csv *.md *.tex                 exact, and rounded for people
      figures/*.png *.pdf *.csv               with the numbers that each shows
      comparison.csv                          our values next to the paper's
      certificates/  run.log
      answer.md  predictions.csv  page.html  model/           of experiment=guarantee"""
RECORDS = """\
Finished tasks live once in `results/.records`. Deleting a run's folder loses no computation, and its artifacts are
copies. A record is found again by its key: a hash of the task's settings, the dataset's content and the method's
version. Every record carries a checksum over its fields and arrays. One that is damaged, edited, or lies under
another's key is named, counts as missing and is computed again. The same holds for records of format 1, which had
no checksums. Files that gpsuite did not write are not touched. `status`, `compare`, `report` and `publish` read
what they can of a damaged folder and name what they cannot. `compare` and `publish` then exit with 2.

`gpsuite publish` packs a run's records into `results/published/.../records.zip`. With each go its checksum, commit,
versions and processor, and no rows of a dataset. A record that is not in `results/.records` is looked up there, in
the same `results_dir`. So a fresh clone redraws a published run without computing, and resumes from it. It needs
the dataset only if a figure shows its rows."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    rule = [":---"] * len(columns)
    lines = [columns, rule, *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(" ".join(["|", *(f"{cell} |" if cell else "|" for cell in line)]) for line in lines)


def named(names: Iterable[str]) -> str:
    """Return names as code, with commas between them."""
    return ", ".join(f"`{name}`" for name in names)


def commands() -> str:
    """Return the page of commands: what `--help` says of each."""
    parts = ["# Commands", "What `gpsuite COMMAND --help` prints, for every command."]
    parts.append(
        "`--key value` and `--key=value` mean `key=value`. Every command takes `format=json`, which prints "
        "numbers as numbers and names every file written, and `output=FILE`, which keeps what would be printed."
    )
    parts += ["## Exit codes", EXIT_CODES]
    for name, about in COMMANDS.items():
        text = importlib.import_module(f"gpsuite.commands.{name}").HELP.strip()
        parts += [f"## {name}", f"{about.partition(':')[0].capitalize()}.", f"```text\n{text}\n```"]
    return "\n\n".join(parts)


def explained(*words: str) -> dict[str, list[Setting]]:
    """Return the settings of an experiment by section."""
    overrides = stored(read_overrides(in_full(words), group_choices()))
    return explain_settings(words[0].removeprefix("experiment="), overrides)


def experiments() -> list[str]:
    """Return all experiments but the tour, which runs others."""
    return [name for name in group_choices()["experiment"] if name != "tour"]


def settings() -> str:
    """Return the page of settings: of every run, table, kernel, method and experiment."""
    notes = read_experiments(conf_dir())
    first = explained("experiment=pac_bayes/regression", "dataset=csv")
    parts = [
        "# Settings",
        "Every key of every experiment, with its value at `scale=quick`. `gpsuite run NAME --help` prints the "
        "same for one experiment. An empty value must be given or is chosen for you.",
        "## Every run",
        settings_table(first["every run"]),
        "## Your own table",
        "For every experiment that takes `dataset=my.csv`. [Tell how a table is read](table.md) explains them.",
        settings_table(first["your table"]),
    ]
    for family in dict.fromkeys(name.split("/")[0] for name in experiments()):
        parts.append(f"## {family}")
        for name in (each for each in experiments() if each.split("/")[0] == family):
            found = explained(f"experiment={name}")
            own = [each for part in ("settings", "parts", "model") for each in found.get(part, ())]
            parts += [f"### {name}", notes[name].question, settings_table([e for e in own if e.key != "parallel"])]
    parts += ["## Methods", "Their keys begin with `method.`; `method=NAME` runs one."]
    titles = {name: str(read_file("method", name).get("title", name)) for name in method_families()}
    options = method_options()
    for name, family in sorted(method_families().items(), key=lambda each: (each[1], each[0])):
        parts += [f"### {name}", f"{titles[name]} ({family})."]
        parts.append(settings_table(options[name]) if options[name] else "It has no settings.")
    return "\n\n".join(parts)


def method_options() -> dict[str, list[Setting]]:
    """Return the settings of every method, from experiments that take it; their families are imported by now."""
    found: dict[str, list[Setting]] = {}
    for name in experiments():
        takes = fitting_methods(name) if EXPERIMENTS.get(name).method_traits else []
        new = [method for method in takes if method not in found]
        if new:
            sections = explained(f"experiment={name}", f"methods=[{','.join(new)}]")
            found |= {method: sections.get(f"method {method}", []) for method in new}
    return found


def settings_table(found: Sequence[Setting]) -> str:
    """Return settings as a table."""
    rows = [(f"`{each.key}`", f"`{each.value}`" if each.value else "", each.meaning, each.allowed) for each in found]
    return table(("key", "value", "meaning", "allowed"), rows)


def headers() -> dict[str, dict[str, list[str]]]:
    """Return experiment -> table -> columns, of all published runs and of the tables that none of them has."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in sorted((ROOT / "results/published").rglob("tables/*.csv")):
        experiment = "/".join(path.relative_to(ROOT / "results/published").parts[:-3])
        with path.open(encoding="utf-8", newline="") as stream:
            columns = next(csv.reader(stream), [])
        own = found.setdefault(experiment, {}).setdefault(path.stem, [])
        own += [name for name in columns if name not in own]
    for experiment, tables_of in COLUMNS["unpublished"].items():
        for name, columns in tables_of.items():
            own = found.setdefault(experiment, {}).setdefault(name, [])
            own += [column for column in columns if column not in own]
    return {name: {key: value for key, value in found[name].items() if key != STATISTICS} for name in sorted(found)}


def meaning(column: str, name: str, family: str) -> str:
    """Return what a column of a table means; empty if nothing says it."""
    special = COLUMNS["tables"].get(name, {}).get(column)
    known = METRICS.get(f"{family}/{column}") or METRICS.get(column)
    if special or not known:
        return special or COLUMNS["meanings"].get(column) or COLUMNS["meanings"].get(pattern(column), "")
    better = f". {known.better.capitalize()} is better" if known.better else ""
    return f"{metric(column, family).heading}{better}"


def pattern(column: str) -> str:
    """Return the name with a star that stands for this column, or an empty string."""
    stars = [name for name in COLUMNS["meanings"] if "*" in name]
    fits = [name for name in stars if re.fullmatch(re.escape(name).replace(r"\*", ".+"), column)]
    return fits[0] if fits else ""


def tables() -> str:
    """Return the page of tables: the tables of each experiment, and what their columns mean."""
    parts = [
        "# Tables",
        "Each experiment writes its tables as CSV (exact), Markdown and LaTeX (rounded). Below are the tables of "
        "each experiment, and then the meaning of each column. A `*` is a name of your data, or for a "
        "number.",
        "## Tables of every run",
        "`tables/statistics.csv` has the numbers that are compared with the paper, one per row:",
        table(("column", "meaning"), [(f"`{name}`", text) for name, text in COLUMNS[STATISTICS].items()]),
        "`comparison.csv` has the paper's values next to ours:",
        fields_table(ComparisonRow),
        "`records.csv` has one row per task: its key, its axes, its status with a reason, its metrics and its seconds.",
        "A table whose name ends with `_tidy` has one row per number; `_timing` has measured seconds, which "
        "differ from run to run.",
    ]
    found = headers()
    for family in dict.fromkeys(name.split("/")[0] for name in found):
        own = {name: value for name, value in found.items() if name.split("/")[0] == family}
        parts.append(f"## {family}")
        rows = [(name, f"`{each}`", named(columns)) for name, of in own.items() for each, columns in of.items()]
        parts.append(table(("experiment", "table", "columns"), rows))
        parts.append(f"What the columns of `{family}` mean:")
        parts.append(table(("column", "meaning"), meanings(own, family)))
    return "\n\n".join(parts)


def meanings(found: Mapping[str, Mapping[str, Sequence[str]]], family: str) -> list[tuple[str, str]]:
    """Return each column of a family with its meaning; a table is named where its column means something else."""
    rows: dict[tuple[str, str], None] = {}
    for of in found.values():
        for name, columns in of.items():
            for column in columns:
                special = column in COLUMNS["tables"].get(name, {})
                shown = pattern(column) if column not in COLUMNS["meanings"] and pattern(column) else column
                rows[f"`{shown}`" + (f" in {name}" if special else ""), meaning(column, name, family)] = None
    return sorted(rows, key=lambda row: row[0].casefold())


def fields_table(schema: Any) -> str:
    """Return the fields of a dataclass with what its docstring says of them; without it the name says all."""
    known = field_meanings(schema)
    rows = [(f"`{each.name}`", known.get(each.name, "").replace("`", "")) for each in fields(schema)]
    return (
        table(("field", "meaning"), rows)
        if any(text for _, text in rows)
        else named(name.strip("`") for name, _ in rows)
    )


def files() -> str:
    """Return the page of files: what a run writes, and the formats of records and certificates."""
    risk = [(f"`{kind}`", named(arrays)) for kind, arrays in ARRAYS.items()]
    return "\n\n".join(
        [
            "# Files",
            "## A run's folder",
            RUN_FOLDER,
            "A run with other settings than the shipped ones gets a tag: a hash of what differs, or "
            "`run_name=NAME`. So nothing is overwritten. A name is taken again by a run that only adds tasks, "
            "such as more repetitions.",
            "Nothing is pickled. Every mean comes with the number of its values and with a named interval.",
            "## Records",
            RECORDS,
            "A task's outcome has these fields:",
            fields_table(Outcome),
            "## Certificates and models",
            f"Two files with one name: NAME.json describes, NAME.npz holds plain arrays. `format` is `{FORMAT}`, "
            f"`version` is {VERSION}. `checksum` is the SHA-256 of description and arrays. `kind` is "
            "`classification`, `regression` or `pac_bayes`.",
            "### A proved range",
            "Each claim is one side of a range, with the tree of cuts that proves it:",
            fields_table(Claim),
            "The region:",
            named(each.name for each in fields(StoredRegion)),
            "The stored model of C latent functions:",
            fields_table(Model),
            "Where model and point come from:",
            fields_table(Origin),
            "### A risk",
            "The rows, and how they were standardised:",
            fields_table(Rows),
            "Arrays by kind of posterior:",
            table(("posterior", "arrays"), risk),
        ]
    )


def datasets() -> str:
    """Return the page of datasets."""
    rows = [
        (f"`{each.name}`", each.title, each.shape, each.task, each.licence)
        for each in describe(conf_dir(), ROOT / "data")
    ]
    used: dict[str, list[str]] = {}
    for name, note in read_experiments(conf_dir()).items():
        for each in note.data:
            used.setdefault(each, []).append(name)
    return "\n\n".join(
        [
            "# Datasets",
            table(("dataset", "what it is", "rows x inputs", "task", "licence"), rows),
            "`gpsuite data list` says where each was found. Several are share-alike or non-commercial, so no data "
            "rows are committed here.",
            "## Where files are looked up",
            "- In the folders of `GPSUITE_DATA_PATH`, as `<folder>/<dataset>/<file>`, also as `.gz` or `.xz`.\n"
            "- Then in `data/`.\n"
            "- Then they are downloaded (`GPSUITE_OFFLINE=1` forbids it).",
            "Their SHA-256 is verified. `gpsuite data verify` reads every byte again. Large sets are parsed once "
            "and kept in `data/.parsed`, which is safe to delete. `scale=smoke` replaces a missing dataset by a "
            "generated stand-in of the same shape. Its tables and figures say it, and it never enters `compare`.",
            "## What uses them",
            table(("dataset", "experiments"), [(f"`{name}`", ", ".join(of)) for name, of in sorted(used.items())]),
        ]
    )


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each page."""
    for name, made in PAGES.items():
        yield name, page(made)


def page(made: Callable[[], str]) -> str:
    """Return the text of a page as it is committed."""
    return f"{MADE}\n{made()}\n"


PAGES = {"commands": commands, "settings": settings, "tables": tables, "files": files, "datasets": datasets}


def main() -> None:
    for name, text in texts():
        (GUIDE / f"{name}.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
