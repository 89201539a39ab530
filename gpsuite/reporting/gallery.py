"""results/published/README.md, for readers on a code host: per paper the verdicts, misses, costs and figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpsuite.reporting.catalogue import ExperimentNote, PaperNote, method_titles, read_experiments, read_papers
from gpsuite.reporting.collect import PUBLISHED, collect_comparisons, find_runs
from gpsuite.reporting.comparison import DECIDED, ComparisonRow, Verdict, read_paper_values
from gpsuite.reporting.errata import NAME as ERRATA
from gpsuite.reporting.errata import errata_text, markdown_table, read_errata
from gpsuite.reporting.figures import read_picture
from gpsuite.reporting.files import ARCHIVE, cannot, present, read_mapping, task_seconds, write_text
from gpsuite.reporting.joint_figures import NAME as OVERVIEW
from gpsuite.reporting.joint_figures import draw_overview
from gpsuite.reporting.papers import KINDS, PaperCard, paper_cards
from gpsuite.reporting.sections import Section, joint_figures, read_sections, tried
from gpsuite.reporting.tables import mean_and_error
from gpsuite.text import markdown, markdown_code
from gpsuite.untrusted import UnusableFileError, guard_links

HEAD = ["figure or table", "state", "CPU hours", "records, MB", "missing", "a full run, two cores"]
NAME = "README.md"
NOTES = "NOTES.md"  # next to the runs of a family: what was measured on them, written by hand
_HEAD = """# Published results

Made by `gpsuite report` from the runs in this folder: their tables, figures (PNG, PDF and the numbers as CSV),
comparisons with the papers and records. In a fresh clone `gpsuite report` draws the whole page, with filter and all
values, without computing. `gpsuite run experiment=NAME scale=paper` redraws a run from its records. `gpsuite recheck`
computes a random sample of them again. What else was measured: [notes](NOTES.md). What is wrong in the papers and in
their authors' code, with the tests that show it: [errata](ERRATA.md).

Verdicts: *reproduced*; *partly*; *not reproduced*; *not run*; *not comparable*, with its cause. The kinds of statements
are counted apart: a mathematical identity that holds says less about a reproduction than a printed result.
"""


@dataclass(frozen=True)
class _Gallery:
    """A paper with all its values and the runs of its family."""

    card: PaperCard
    rows: Sequence[ComparisonRow]
    sections: Sequence[Section]


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
        """What the shipped run leaves out, otherwise what every partial run does; names of partial runs and studies."""
        if not self.runs:
            return f"`{self.name}` was not run"
        parts = [run for run in self.runs if run.run.tag and run.left_out and not run.study]
        held = [run for run in self.runs if not run.run.tag] or parts
        left = [
            markdown(text) for text in (held[0].left_out if held else ()) if all(text in run.left_out for run in held)
        ]
        named = {"partial runs": parts, "with other settings": [run for run in self.runs if run.study]}
        tags = [
            f"{what} {', '.join(markdown_code(run.run.tag) for run in runs)}" for what, runs in named.items() if runs
        ]
        told = [*left, *tags]
        return f"`{self.name}`: {'; '.join(told) or 'not finished'}"


def write_gallery(results_dir: Path, conf_dir: Path) -> Path | None:
    """Write README.md and the errata into `results_dir`/published; nothing if no run is published.

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
    path = root / NAME
    write_text(root / ERRATA, errata_text(read_papers(conf_dir), read_errata(conf_dir)))
    write_text(path, gallery_text(root, conf_dir))
    return path


def gallery_text(root: Path, conf_dir: Path) -> str:
    """Return the page of a folder of published runs, as Markdown."""
    known = read_experiments(conf_dir)
    sections = read_sections(root, conf_dir, known)
    best = [item for item in collect_comparisons(root, conf_dir) if not item.problem]
    cards = paper_cards(read_papers(conf_dir), read_paper_values(conf_dir), best, sections, joint_figures(root), known)
    lines = [_HEAD]
    if present(root / f"{OVERVIEW}.png"):
        lines += [f"![one panel a guarantee]({OVERVIEW}.png)", ""]
    lines += ["## Verdicts", "", *verdict_table(cards), "", *_licences(sections)]
    for card in cards:
        own = [section for section in sections if section.run.family == card.family]
        rows = [row for item in best for row in item.rows if row.paper == card.note.name]
        lines += _paper(_Gallery(card, rows, own), known, root)
    return "\n".join(lines).rstrip("\n") + "\n"


def verdict_table(cards: Sequence[PaperCard], page: str = "") -> list[str]:
    """Return a line per paper: how much is reproduced of what could be decided, by kind of statement.

    `page` is the page that is linked, empty on the page itself.
    """
    head = ["paper", *(f"{text}, reproduced" for text in KINDS.values()), "not run", "not comparable"]
    rows = []
    for card in cards:
        kinds = {basis: dict(verdicts) for basis, verdicts in card.kinds}
        total = dict(card.verdicts)
        shares = [_share(kinds.get(basis, {})) for basis in KINDS]
        last = [str(total.get("not run", 0)), str(total.get("not comparable", 0))]
        rows.append([f"[{card.note.authors or card.note.name}]({page}#{_anchor(card)})", *shares, *last])
    return markdown_table(head, rows)


def _share(counts: Mapping[Verdict, int]) -> str:
    decided = sum(counts.get(verdict, 0) for verdict in DECIDED)
    return f"{counts.get('reproduced', 0)} of {decided}" if decided else "–"


def _licences(sections: Sequence[Section]) -> list[str]:
    found: dict[str, tuple[str, str]] = {}
    for section in sections:
        about = tried([], read_mapping, section.run.path / "run.json") or {}
        several = about.get("datasets")
        for data in several if isinstance(several, list) else [about.get("dataset")]:
            if isinstance(data, dict) and data.get("name"):
                found[str(data["name"])] = (str(data.get("licence") or ""), str(data.get("citation") or ""))
    rows = [[markdown_code(name), *map(markdown, texts)] for name, texts in sorted(found.items())]
    table = markdown_table(["dataset", "licence", "citation"], rows)
    return ["## Data behind the runs", "", *table, ""] if rows else []


def _paper(gallery: _Gallery, known: Mapping[str, ExperimentNote], root: Path) -> list[str]:
    card = gallery.card
    lines = [f"## {card.note.title}", "", f"{card.note.authors}, {card.note.venue}. {card.note.sentence}", ""]
    if present(root / card.family / NOTES):
        lines += [f"What was measured, and what was not reproduced and why: [notes]({card.family}/{NOTES}).", ""]
    rows = completeness_rows(card.note, gallery.sections, known)
    lines += ["### Figures and tables", "", *markdown_table(HEAD, rows), "", *_costs(gallery, known)]
    lines += _misses(gallery.rows)
    shown: set[bytes] = set()
    own = [(section.run.name, figure) for section in gallery.sections for figure in section.figures]
    for name, figure in [*(("several runs", figure) for figure in card.joint), *own]:
        try:
            content, _ = read_picture(figure.path)
        except UnusableFileError:  # report.html names it
            continue
        if content in shown:
            continue
        shown.add(content)
        lines += [
            f"![{markdown(figure.name)}]({figure.link})",
            "",
            f"{markdown_code(name)}: {markdown(figure.alt)}",
            "",
        ]
    return lines


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


def _costs(gallery: _Gallery, known: Mapping[str, ExperimentNote]) -> list[str]:
    rows = []
    for section in gallery.sections:
        facts, note = dict(section.facts), known.get(section.run.experiment, ExperimentNote())
        spent = facts.get("CPU time of all tasks", "")
        study = ["a study: settings of its own"] if section.study else []
        left_out = "; ".join([*study, *map(markdown, section.left_out)])
        rows.append([markdown_code(section.run.name), note.figure, spent, note.cost.get("paper", ""), left_out])
    for item in gallery.card.missing:
        note = known.get(item.name, ExperimentNote())
        rows.append([f"`{item.name}`", note.figure, "not run", item.cost, f"{item.count} values"])
    head = ["run", "corresponds to", "CPU time", "a full run, two cores", "left out"]
    return ["### Runs", "", *markdown_table(head, rows), ""]


def _misses(rows: Sequence[ComparisonRow]) -> list[str]:
    """Return what was not or only partly reproduced, and what cannot be compared, with the causes."""
    missed = [row for verdict in ("not reproduced", "partly") for row in rows if row.verdict == verdict]
    head = ["id", "verdict", "what", "published", "ours", "why, and what would settle it"]
    table = []
    for row in missed:
        printed = f"{row.published} (measured by other code)" if row.basis == "measurement" else row.published
        table.append(list(map(markdown, [row.id, row.verdict, _what(row), printed, _ours(row), row.why])))
    lines = ["### Misses", "", *markdown_table(head, table), ""]
    causes: dict[str, list[str]] = {}
    for row in rows:
        if row.verdict == "not comparable" and row.cause:
            causes.setdefault(row.cause, []).append(markdown(row.id))
    told = [f"* {cause}: {', '.join(ids)}" for cause, ids in sorted(causes.items())]
    return [*(lines if table else []), *(["Not comparable, by cause:", "", *told, ""] if told else [])]


def _what(row: ComparisonRow) -> str:
    texts = [row.quantity.rstrip("."), row.method, row.dataset, row.condition]
    return f"{'; '.join(text for text in texts if text)} ({row.where})"


def _ours(row: ComparisonRow) -> str:
    if row.ours is None:
        return ""
    if row.asked == "in all cells" and row.n and row.interval and 0.0 <= row.ours <= 1.0:
        return f"{round(row.ours * row.n)} of {row.n}"
    return f"{row.ours:.4g}" if row.standard_error is None else mean_and_error(row.ours, row.standard_error)


def _anchor(card: PaperCard) -> str:
    kept = "".join(letter for letter in card.note.title.lower() if letter.isalnum() or letter in " -")
    return kept.replace(" ", "-")
