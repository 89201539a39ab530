"""report.html: one self-contained page over all results."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpsuite.atomic import remove_leftovers
from gpsuite.reporting.catalogue import method_titles, read_experiments, read_papers
from gpsuite.reporting.collect import PUBLISHED, SCALES, RunComparison, collect_comparisons, family_order
from gpsuite.reporting.comparison import CAUSES, VERDICTS
from gpsuite.reporting.equations import NONE, package_equations
from gpsuite.reporting.errata import KINDS as ERRATA_KINDS
from gpsuite.reporting.errata import read_errata
from gpsuite.reporting.figures import is_picture, read_picture
from gpsuite.reporting.files import present, write_text
from gpsuite.reporting.papers import KINDS, paper_cards
from gpsuite.reporting.sections import (
    UNFINISHED,
    Figure,
    Section,
    fill_tables,
    joint_figures,
    read_sections,
    read_table,
    tried,
)
from gpsuite.reporting.tables import ours_text
from gpsuite.text import html
from gpsuite.untrusted import UnusableFileError, is_inside, leaving_links, png_size

if TYPE_CHECKING:
    import jinja2

_PAGE_LIMIT = 8_900_000  # bytes. Figures fill the remaining space
_TITLES = {
    "pac_bayes": "PAC-Bayes bounds",
    "robustness": "Certified robustness",
    "perturbation": "Perturbation confidence regions",
    "active_learning": "Safe active learning",
    "wasserstein": "Wasserstein inference",
}


def write_report(results_dir: Path, conf_dir: Path) -> tuple[Path, list[str]]:
    """Write `results_dir`/report.html: answers, papers, and every run's figures, tables, comparison and provenance.

    Published runs are shown if the user has none of their name. The page needs no network and no other files, stays
    under 9 MB (what does not fit is linked), and is the same for the same results.

    Returns:
        the page, and what is wrong with the files that it had to leave out.

    Raises:
        ResultsError: if it cannot be written.
        ValueError: if a file of conf/paper is malformed.
    """
    known, titles = read_experiments(conf_dir), method_titles(conf_dir)
    sections = read_sections(results_dir, conf_dir, known)
    fill_tables(sections, results_dir, titles, known)
    problems = leaving_links(results_dir)
    remove_leftovers(*filter(is_inside, (results_dir, results_dir / PUBLISHED)))
    timed = results_dir / "bench" / "bench.csv"
    bench = tried(problems, partial(read_table, results_dir, titles), timed) if present(timed) else None
    best = collect_comparisons(results_dir, conf_dir)
    joint = joint_figures(results_dir)
    images = _read_figures(sections, joint, problems)
    families: dict[str, list[Section]] = {}
    for section in sorted(sections, key=lambda section: family_order(section.run.family)):
        families.setdefault(section.run.family, []).append(section)
    anchors = {section.run.path: section.anchor for section in sections}
    cards = paper_cards(read_papers(conf_dir), best, sections, joint, known)
    content = {
        "families": [(family, _TITLES.get(family, family), found) for family, found in families.items()],
        "own": [section for section in sections if not section.run.published],
        "papers": cards,
        "placed": {figure.anchor for card in cards for item in card.figures for figure in item.figures},
        "verdicts": VERDICTS,
        "targets": row_targets(best, anchors),
        "causes": CAUSES,
        "titles": titles,
        "kinds": KINDS,
        "errata": read_errata(conf_dir),
        "errata_kinds": ERRATA_KINDS,
        "bench": bench if bench is not None and bench.rows else None,
        "equations": [each for each in package_equations() if each.reference != NONE],
    }
    bare = _template().render(content)
    _embed(sections, joint, images, _PAGE_LIMIT - len(bare.encode("utf-8", "backslashreplace")))
    path = results_dir / "report.html"
    write_text(path, _template().render(content))
    problems += [text for section in sections for text in section.problems if text != UNFINISHED]
    return path, list(dict.fromkeys(problems))


def row_anchor(section: str, entry: str) -> str:
    """Return the page's anchor of the row of a paper's value in a run's section."""
    return f"{section}-{entry}"


def row_targets(best: Sequence[RunComparison], anchors: Mapping[Path, str]) -> dict[str, str]:
    """Return the anchor of each value's row, in its experiment's best run, or of its paper without one.

    `anchors` are those of the runs' sections, by folder.
    """
    return {
        row.id: f"paper-{row.paper}"
        if item.run is None
        else row_anchor(anchors[item.run.path], item.parts.get(row.id, row.id))
        for item in best
        for row in item.rows
    }


@cache
def _template() -> jinja2.Template:
    """Return the page's template with its style and script. Compiling it takes longer than rendering a page."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: Markup(html(value)) if type(value) is str else value,  # not its own mark-up
    )
    environment.globals["row_anchor"] = row_anchor
    environment.globals["ours_text"] = ours_text
    here = Path(__file__)
    files = {name: here.with_name(f"report.{name}") for name in ("css", "js", "html.j2")}
    parts = {name: path.read_text(encoding="utf-8") for name, path in files.items()}
    own = {"style": Markup(parts["css"]), "script": Markup(parts["js"])}
    return environment.from_string(parts["html.j2"], globals=own)


def _read_figures(sections: Sequence[Section], joint: list[Figure], faults: list[str]) -> dict[str, bytes]:
    """Return anchor -> content, made small. What is no usable PNG is removed, equal ones point to the first."""
    first: dict[bytes, str] = {}
    images: dict[str, bytes] = {}
    places: list[tuple[list[Figure], list[str]]] = [(joint, faults)]
    for figures, problems in places + [(section.figures, section.problems) for section in sections]:
        for figure in list(figures):
            try:
                content, small = read_picture(figure.path)
            except UnusableFileError as error:
                figures.remove(figure)
                problems.append(str(error))
                continue
            anchor = first.setdefault(content, figure.anchor)
            images.setdefault(anchor, small)
            figure.same = anchor if anchor != figure.anchor else ""
            figure.size, figure.picture = png_size(content), is_picture(content)
    return images


def _embed(sections: Sequence[Section], joint: Sequence[Figure], images: Mapping[str, bytes], room: int) -> None:
    """Embed figures while there is room: joint ones, then each shipped run's first, each second, ..., then parts."""
    queue = [
        (bool(section.run.tag), position, SCALES.index(section.run.scale), number, figure)
        for number, section in enumerate(sections)
        for position, figure in enumerate(section.figures)
        if not figure.same
    ]
    queued = [figure for *_, figure in sorted(queue, key=lambda item: item[:4])]
    for figure in [*(figure for figure in joint if not figure.same), *queued]:
        content = images[figure.anchor]
        size = len(content) * 4 // 3 + 40
        if size <= room:
            figure.source = "data:image/png;base64," + base64.b64encode(content).decode("ascii")
            room -= size
