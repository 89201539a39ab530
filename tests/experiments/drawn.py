"""The numbers that a figure shows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def drawn(folder: Path, name: str) -> pd.DataFrame:
    """Return the numbers of a run's figure, which must have been drawn from them as image and page."""
    figures = folder / "figures"
    assert (figures / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (figures / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    return pd.read_csv(figures / f"{name}.csv")
