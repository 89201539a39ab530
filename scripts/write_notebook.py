"""Write .github/from_python.ipynb: the jobs of the guide's page "From Python", run, with what they print and draw.

    python scripts/write_notebook.py

Each job runs in an empty folder of its own, in one interpreter of its own. tests/test_from_python.py holds the cells to
the guide, and runs them.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / ".github/from_python.ipynb"
# shows the figure that a job leaves open, as a notebook would
RUN = """
import sys, matplotlib
matplotlib.use("Agg")
exec(compile(sys.stdin.read(), "job", "exec"), {"__name__": "__main__"})
plots = sys.modules.get("matplotlib.pyplot")
if plots is not None and plots.get_fignums():
    plots.savefig("figure.png", dpi=80)
"""
INTRODUCTION = "# From Python\n\nThe jobs of the guide's page of this name, with what they print and draw."


def jobs(guide: str) -> list[tuple[str, str]]:
    """Return the texts and the code of the page's jobs, in its order: (text before, code)."""
    section = re.findall(r"^## Jobs\n(.*?)(?=^## |\Z)", guide, flags=re.DOTALL | re.MULTILINE)[0]
    parts = re.split(r"^```python\n(.*?)^```\n", section, flags=re.DOTALL | re.MULTILINE)
    return [(text.strip(), code) for text, code in zip(parts[::2], parts[1::2], strict=False)]


def outputs(code: str) -> list[dict[str, Any]]:
    """Return what a job prints, and the figure it leaves."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", RUN]
        done = subprocess.run(command, input=code, cwd=folder, capture_output=True, text=True, check=True)
        printed = done.stdout.replace(folder, ".")
        found: list[dict[str, Any]] = [{"name": "stdout", "output_type": "stream", "text": printed}] if printed else []
        figure = Path(folder, "figure.png")
        if figure.exists():
            picture = base64.b64encode(figure.read_bytes()).decode()
            found.append({"output_type": "display_data", "data": {"image/png": picture}, "metadata": {}})
    return found


def main() -> None:
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "id": "top", "metadata": {}, "source": INTRODUCTION}]
    for number, (text, code) in enumerate(jobs((ROOT / ".github/guide/python.md").read_text(encoding="utf-8")), 1):
        cells.append({"cell_type": "markdown", "id": f"text{number}", "metadata": {}, "source": text})
        kept = {"execution_count": number, "outputs": outputs(code)}
        cells.append({"cell_type": "code", "id": f"code{number}", "metadata": {}, "source": code.rstrip(), **kept})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    NOTEBOOK.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
