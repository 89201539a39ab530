"""A run's answer as answer.md, and as page.html with figures, tables and sentences in one file."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from pathlib import Path

from gpsuite.reporting.files import read_bytes, write_text

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:1rem auto;padding:0 1rem;color:#222}"
    "img{max-width:100%;height:auto}table{border-collapse:collapse;font-size:14px}"
    "td,th{border:1px solid #ccc;padding:.2rem .5rem;text-align:left}div.wide{overflow-x:auto}"
    ".violated{color:#b00;font-weight:600}"
)


def write_answer(folder: Path, title: str, sentences: Sequence[str]) -> None:
    """Write answer.md and page.html from the sentences, and the tables and figures in the run's folder.

    An empty sentence begins a paragraph.

    Raises:
        ResultsError: if a file cannot be read or written.
    """
    lines = [f"- {text.strip()}" if text else "" for text in sentences]
    assumptions = folder / "tables" / "assumptions.md"
    table = ["", read_bytes(assumptions).decode("utf-8")] if assumptions.exists() else []
    write_text(folder / "answer.md", "\n".join([f"# {title}", "", *lines, *table, ""]))
    write_text(folder / "page.html", _page(folder, title, sentences))


def _page(folder: Path, title: str, sentences: Sequence[str]) -> str:
    import pandas as pd

    items = []
    for text in filter(None, sentences):
        mark = ' class="violated"' if "violated" in text else ""
        items.append(f"<li{mark}>{html.escape(text.strip())}</li>")
    figures = [
        f'<figure><img alt="{path.stem}" src="data:image/png;base64,'
        f'{base64.b64encode(read_bytes(path)).decode("ascii")}"></figure>'
        for path in sorted((folder / "figures").glob("*.png"))
    ]
    tables = []
    for path in sorted((folder / "tables").glob("*.csv")):
        if path.stem != "statistics":
            table = pd.read_csv(path).to_html(index=False, float_format="{:.4g}".format)
            tables.append(f'<h2>{path.stem}</h2><div class="wide">{table}</div>')
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>",
            f"<h1>{html.escape(title)}</h1><ul>",
            *items,
            "</ul>",
            *figures,
            *tables,
            "</body></html>",
            "",
        ]
    )
