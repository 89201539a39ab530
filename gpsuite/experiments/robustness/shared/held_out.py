"""What the rows that are held out for tests leave to training."""

from __future__ import annotations


def told_few_learnt(rows: int, test_rows: int) -> list[str]:
    """Return a warning where more of a dataset's rows are held out than are left to training."""
    left = rows - test_rows
    if left >= test_rows:
        return []
    return [
        f"the model learns from {left} of {rows} rows at most: test_rows={test_rows} are held out; "
        f"a smaller test_rows, as {max(rows // 4, 1)}, leaves it more"
    ]
