"""Every job of the guide's page "From Python" runs as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / ".github"
GUIDE = (DOCS / "guide/python.md").read_text(encoding="utf-8")
SECTION = re.findall(r"^## Jobs\n(.*?)(?=^## |\Z)", GUIDE, flags=re.DOTALL | re.MULTILINE)[0]
JOBS = [part.partition("\n") for part in re.split(r"^### ", SECTION, flags=re.MULTILINE)[1:]]
BLOCKS = [
    pytest.param(code, id=title)
    for title, _, text in JOBS
    for code in re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
]


@pytest.mark.parametrize("code", BLOCKS)
def test_a_job_runs_as_it_is_printed(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 5 <= len([line for line in code.splitlines() if line]) <= 15
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "guide", "exec"), {"__name__": "__main__"})


def test_the_notebook_has_the_same_jobs_and_what_they_gave() -> None:
    """Written by `python scripts/write_notebook.py`, which runs them."""
    cells = json.loads((DOCS / "from_python.ipynb").read_text(encoding="utf-8"))["cells"]
    jobs = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in jobs] == [str(block.values[0]).rstrip() for block in BLOCKS]
    assert all(cell["outputs"] for cell in jobs)
