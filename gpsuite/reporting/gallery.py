"""results/published/README.md, for readers on a code host: per paper what holds, its figures, what differs and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpsuite.reporting.catalogue import ExperimentNote, PaperNote, method_titles, read_experiments, read_papers
from gpsuite.reporting.collect import PUBLISHED, collect_comparisons, find_runs
from gpsuite.reporting.comparison import CAUSES, ComparisonRow, csv_text
from gpsuite.reporting.errata import NAME as ERRATA
from gpsuite.reporting.errata import errata_text, markdown_table, read_errata
from gpsuite.reporting.figures import read_picture
from gpsuite.reporting.files import ARCHIVE, cannot, present, read_mapping, task_seconds, write_text
from gpsuite.reporting.joint_figures import NAME as OVERVIEW
from gpsuite.reporting.joint_figures import draw_overview
from gpsuite.reporting.papers import COUNTED, PaperCard, paper_cards
from gpsuite.reporting.sections import Section, joint_figures, read_sections, tried
from gpsuite.reporting.tables import ours_text
from gpsuite.text import markdown
from gpsuite.untrusted import UnusableFileError, guard_links

HEAD = ["figure or table", "state", "CPU hours", "records, MB", "missing", "a full run, two cores"]
NAME = "README.md"
NOTES = "NOTES.md"  # next to the runs of a family: what was measured on them, written by hand
LONGEST = 190  # letters of a cell, before its marks are escaped. The whole text is in comparison.csv
_HEAD = """# Published results

Five papers, recomputed. For each: the results that hold, those that do not and why, and its figures next to the printed
values. Made by `gpsuite report` from the runs in this folder. In a fresh clone `gpsuite report` draws the whole page
with every value, without computing. `gpsuite run experiment=NAME scale=paper` redraws a run from its records, and
`gpsuite recheck` recomputes a random sample of the records and compares.

A printed number is *reproduced* if it agrees within its digits or its error, a claim if the rule written before the
run holds. It *differs* if the run has the power to show it. It is *undecided* if the paper or the data leave it open.
Facts about the data and identities are checked, not counted. A printed number with a standard error agrees within three
standard errors of the difference of two such means: [comparison.csv](comparison.csv) has the rule of each. A cause is
theirs (the paper or its code), ours (a setting, or too few draws), or unknown. *Open* rows need more draws.
"""
_REST = """## More

* [comparison.csv](comparison.csv): every value with its verdict, test, interval and remark, also those that agree
* [figures.csv](figures.csv): what is complete, partial or missing of each figure and table, and its cost
* [runs.csv](runs.csv): the runs, what they leave out, their time
* [data.csv](data.csv): the data behind the runs, with licences and citations
* [notes](NOTES.md): further measurements
* [errata](ERRATA.md): what is wrong in the papers and in their authors' code, with the tests that show it
"""


@dataclass(frozen=True)
class _Experiment:
    """An experiment that reproduces a figure, with its runs at the paper's scale."""

    name: str
    runs: Sequence[Section]
    cost: str

    @property
    def whole(self) -> bool:
        """Whether the shipped run ended without a failure and leaves nothing out."""
        return any(not run.run.tag and run.finished and not run.left_out for run in self.runs)

    @property
    def missing(self) -> str:
        """Parts that the shipped run leaves out, otherwise those that every partial run leaves out.

        Names of partial runs and studies.
        """
        if not self.runs:
            return f"{self.name} was not run"
        parts = [run for run in self.runs if run.run.tag and run.left_out and not run.study]
        held = [run for run in self.runs if not run.run.tag] or parts
        left = [text for text in (held[0].left_out if held else ()) if all(text in run.left_out for run in held)]
        named = {"partial runs": parts, "with other settings": [run for run in self.runs if run.study]}
        tags = [f"{what} {', '.join(run.run.tag for run in runs)}" for what, runs in named.items() if runs]
        told = [*left, *tags]
        return f"{self.name}: {'; '.join(told) or 'not finished'}"


def write_gallery(results_dir: Path, conf_dir: Path) -> Path | None:
    """Write README.md and the errata into `results_dir`/published. Nothing if no run is published.

    Raises:
        ResultsError: if it cannot be written.
        ValueError: if a file of conf/paper is malformed.
    """
    root = guard_links(results_dir) / PUBLISHED
    if not find_runs(root):
        return None
    try:
        draw_overview(root, method_titles(conf_dir))
    except (LookupError, TypeError, ValueError) as error:  # its numbers are files of runs, with any columns and cells
        raise cannot("draw", root / f"{OVERVIEW}.png", error) from error
    write_text(root / ERRATA, errata_text(read_papers(conf_dir), read_errata(conf_dir)))
    for name, text in gallery_texts(root, conf_dir).items():
        write_text(root / name, text)
    return root / NAME


def gallery_texts(root: Path, conf_dir: Path) -> dict[str, str]:
    """Return the page of a folder of published runs, as Markdown, and its tables as CSV: file name -> text."""
    known = read_experiments(conf_dir)
    sections = read_sections(root, conf_dir, known)
    best = [item for item in collect_comparisons(root, conf_dir) if not item.problem]
    cards = paper_cards(read_papers(conf_dir), best, sections, joint_figures(root), known)
    lines = [_HEAD]
    if present(root / f"{OVERVIEW}.png"):
        lines += [f"![one panel per guarantee]({OVERVIEW}.png)", ""]
    lines += [*paper_table(cards), ""]
    for card in cards:
        lines += _paper(card, present(root / card.family / NOTES))
    figures = [
        [card.note.name, *row]
        for card in cards
        for row in completeness_rows(card.note, [each for each in sections if each.run.family == card.family], known)
    ]
    return {
        NAME: "\n".join([*lines, _REST]),
        "comparison.csv": csv_text(ComparisonRow, [row for card in cards for row in card.rows]),
        "figures.csv": table_text(["paper", *HEAD], figures),
        "runs.csv": _runs(cards, sections, known),
        "data.csv": _licences(sections),
    }


def paper_table(cards: Sequence[PaperCard], page: str = "") -> list[str]:
    """Return a line per paper: what holds, and the counts of verdicts. `page` is linked, empty on the page itself."""
    head = ["paper", "main findings that hold", *COUNTED.values(), "more"]
    rows = [
        [
            markdown(card.name),
            markdown(card.note.finding),
            *card.counts.values(),
            f"[figures, causes]({page}#{_anchor(card)})",
        ]
        for card in cards
    ]
    return markdown_table(head, rows)


def _paper(card: PaperCard, notes: bool) -> list[str]:
    note = card.note
    more = f" [Notes]({card.family}/{NOTES}) tell what was measured." if notes else ""
    about = " ".join(filter(None, (f"{note.authors}, {note.venue}.", markdown(card.account))))
    lines = [f"## {note.title}", "", about, "", f"{card.words[:1].upper()}{card.words[1:]}.{more}", ""]
    shown: set[bytes] = set()
    for item in card.figures:
        for figure in item.figures:
            try:
                content, _ = read_picture(figure.path)
            except UnusableFileError:  # report.html names it
                continue
            if content not in shown:
                shown.add(content)
                name = markdown(item.name)
                lines += [f"![{name}]({figure.link})", f"{name}. {markdown(figure.alt)}", ""]
    return lines + _differences(card)


def _differences(card: PaperCard) -> list[str]:
    """Return the table of what differs or needs more draws, and the ids of what is left open, by cause, or not run."""
    table = []
    for row in card.open_rows:
        ours = f"{ours_text(row)}{' (open)' if row.verdict == 'undecided' else ''}"
        table.append([row.id, _statement(row), row.published, ours, row.reason, row.needed or "–"])
    cells = [[markdown(shorten(cell)) for cell in line] for line in table]
    head = ["id", "statement", "printed", "ours", "cause", "needed"]
    lines = [*markdown_table(head, cells), ""] if cells else []
    causes: dict[str, list[str]] = {}
    for row in card.rows:
        if row.verdict == "undecided" and row.cause and row not in card.open_rows and row.basis in COUNTED:
            causes.setdefault(CAUSES[row.cause], []).append(markdown(row.id))
    told = " ".join(f"{cause[0].upper()}{cause[1:]}: {', '.join(ids)}." for cause, ids in causes.items())
    counted = [row for row in card.rows if row.verdict == "not run" and row.basis in COUNTED]
    missing = [f"{markdown(row.id)} ({markdown(row.dataset)})" for row in counted]
    left = f"Not run: {', '.join(missing)}. [figures.csv](figures.csv) has the costs." if missing else ""
    shown = [f"Undecided, by cause. {told}" if told else "", left]
    return [*lines, *(line for text in shown if text for line in (text, ""))]


def _statement(row: ComparisonRow) -> str:
    """Return what is stated, on which data and where. Of a number also its condition's first clause, if that fits."""
    quantity, place = row.quantity.rstrip("."), f"({row.dataset}, {row.where})"
    whole = f"{quantity}: {row.clause} {place}"
    return whole if row.clause and len(whole) <= LONGEST else f"{quantity} {place}"


def shorten(text: str) -> str:
    """Return a text of at most `LONGEST` letters: whole sentences where they fit, otherwise whole words."""
    if len(text) <= LONGEST:
        return text
    kept = text[: LONGEST - 2]
    end = kept.rfind(". ") + 1
    return f"{kept[:end] if end > LONGEST // 2 else kept.rpartition(' ')[0]} …"


def table_text(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as CSV."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([head, *rows])
    return stream.getvalue()


def _licences(sections: Sequence[Section]) -> str:
    found: dict[str, tuple[str, str]] = {}
    for section in sections:
        about = tried([], read_mapping, section.run.path / "run.json") or {}
        several = about.get("datasets")
        for data in several if isinstance(several, list) else [about.get("dataset")]:
            if isinstance(data, dict) and data.get("name"):
                found[str(data["name"])] = (str(data.get("licence") or ""), str(data.get("citation") or ""))
    return table_text(["dataset", "licence", "citation"], [[name, *texts] for name, texts in sorted(found.items())])


def completeness_rows(
    note: PaperNote, sections: Sequence[Section], known: Mapping[str, ExperimentNote]
) -> list[list[str]]:
    """Return a line per figure, table and theorem of a paper, and a last one for all runs of its family."""
    full = [section for section in sections if section.run.scale == "paper"]
    rows = []
    for figure, names in note.figures.items():
        own = {name: [section for section in full if section.run.experiment == name] for name in names}
        paid = {name: known.get(name, ExperimentNote()).cost.get("paper", "") for name in names}
        parts = [_Experiment(name, own[name], paid[name]) for name in names]
        runs = [run for part in parts for run in part.runs]
        missing = "; ".join(part.missing for part in parts if not part.whole)
        state = "complete" if not missing else "partial" if runs else "not run"
        costs = " + ".join(part.cost for part in parts if part.cost)
        rows.append([figure, state, *_spent(runs), missing, costs])
    return [*rows, ["all runs of the family", "", *_spent(full), "", ""]]


def _spent(runs: Sequence[Section]) -> list[str]:
    """Return CPU hours and megabytes of records of some runs.

    A task with a record in several of the runs counts once. A run without readable records counts as its run.json says.
    """
    seconds: dict[str, float] = {}
    for run in runs:
        seconds.update(task_seconds(run.run.path / ARCHIVE) or {str(run.run.path): run.cpu_seconds})
    files = [path for run in runs if present(path := run.run.path / ARCHIVE)]
    size = sum(path.lstat().st_size for path in files) / 1e6
    return [f"{sum(seconds.values()) / 3600:.2f}", f"{size:.2f}" if files else "none"]


def _runs(cards: Sequence[PaperCard], sections: Sequence[Section], known: Mapping[str, ExperimentNote]) -> str:
    rows = []
    for section in sections:
        note = known.get(section.run.experiment, ExperimentNote())
        spent = dict(section.facts).get("CPU time of all tasks", "")
        left_out = "; ".join([*(["a study: other settings"] if section.study else []), *section.left_out])
        rows.append([section.run.name, note.figure, spent, note.cost.get("paper", ""), left_out])
    for item in [item for card in cards for item in card.missing]:
        note = known.get(item.name, ExperimentNote())
        rows.append([item.name, note.figure, "not run", item.cost, f"{item.count} values"])
    return table_text(["run", "corresponds to", "CPU time", "a full run, two cores", "left out"], rows)


def _anchor(card: PaperCard) -> str:
    kept = "".join(letter for letter in card.note.title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")
