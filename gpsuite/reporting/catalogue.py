"""Texts of conf/ on experiments, methods and papers, for pages and tables. Read without composing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpsuite.plugins import readable

# libyaml's loader is the same safe loader, ten times faster
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class FigureNote:
    """Description of a figure.

    Args:
        of: the figure, table or section of the paper that it reproduces. Empty if there is none.
        shows: what is drawn, in one or two sentences. `{n}` is how many values are behind a mark. May be empty.
        values: ids of the paper's values that it answers. If none are named, those of the place `of`.
    """

    of: str = ""
    shows: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExperimentNote:
    """The `meta` block of an experiment's file.

    Args:
        question: what it answers, for lists. The title if there is none.
        paper: authors and year.
        figure: what of the paper it reproduces.
        cost: scale -> time, in words.
        data: names of the datasets that it needs.
        figures: file name without ending -> what it is.
        whole_tables: names of the tables that the page shows with all rows: the reader sorts and looks up in them.
    """

    title: str = ""
    question: str = ""
    paper: str = ""
    figure: str = ""
    cost: Mapping[str, str] = field(default_factory=dict)
    data: tuple[str, ...] = ()
    figures: Mapping[str, FigureNote] = field(default_factory=dict)
    whole_tables: tuple[str, ...] = ()


@dataclass(frozen=True)
class PaperNote:
    """The part of a paper's file, such as `reeb2018`, on the paper itself.

    Args:
        venue: where and when it appeared.
        sentence: what it is about.
        finding: which main findings hold, in one sentence.
        account: what holds, what does not and why. `{ID}` is our value of a row, `{ID paper}` the paper's.
        main: ids of the values that represent it, with what they are in a few words.
        holds: ids of the values that the account says are reproduced.
        misses: ids of values that it says are not.
        figures: its figures, tables and theorems, each with the experiments that reproduce it.
    """

    name: str
    title: str
    authors: str = ""
    venue: str = ""
    sentence: str = ""
    finding: str = ""
    account: str = ""
    main: Mapping[str, str] = field(default_factory=dict)
    holds: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    figures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    bibtex: str = ""


def read_experiments(conf_dir: Path) -> dict[str, ExperimentNote]:
    """Return name -> note of every experiment's file."""
    found = readable(conf_dir, "experiment", lambda path: _experiment(_mapping(_load(path).get("meta"))))
    return {name: found[name] for name in sorted(found)}


def read_papers(conf_dir: Path) -> list[PaperNote]:
    """Return a note on every paper's file, in the files' order."""
    return list(readable(conf_dir, "paper", _paper).values())


def method_titles(conf_dir: Path) -> dict[str, str]:
    """Return method name -> its title."""
    found = readable(conf_dir, "method", lambda path: _load(path).get("title"))
    return {name.split("/")[1]: str(title) for name, title in found.items() if title}


def _experiment(meta: Mapping[str, Any]) -> ExperimentNote:
    figures = {name: _mapping(note) for name, note in _mapping(meta.get("figures")).items()}
    return ExperimentNote(
        title=str(meta.get("title", "")),
        question=str(meta.get("question") or meta.get("title", "")),
        paper=str(meta.get("paper", "")),
        figure=str(meta.get("figure", "")),
        cost={str(scale): str(cost) for scale, cost in _mapping(meta.get("cost")).items()},
        data=tuple(str(name) for name in meta.get("data") or []),
        figures={str(name): _figure(note) for name, note in figures.items()},
        whole_tables=tuple(str(name) for name in meta.get("whole_tables") or []),
    )


def _figure(note: Mapping[str, Any]) -> FigureNote:
    values = tuple(str(each) for each in note.get("values") or [])
    return FigureNote(str(note.get("of", "")), str(note.get("shows", "")).strip(), values)


def _paper(path: Path) -> PaperNote:
    about = _mapping(_load(path).get("about"))
    texts = {key: str(about.get(key, "")) for key in ("authors", "venue", "sentence", "finding", "account", "bibtex")}
    holds, misses = (tuple(map(str, about.get(key) or ())) for key in ("holds", "misses"))
    main = {str(name): str(words) for name, words in _mapping(about.get("main")).items()}
    figures = {str(of): tuple(map(str, names)) for of, names in _mapping(about.get("figures")).items()}
    title = str(about.get("title", path.stem))
    return PaperNote(path.stem, title, figures=figures, main=main, holds=holds, misses=misses, **texts)


def _load(path: Path) -> Mapping[str, Any]:
    return _mapping(yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader))


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
