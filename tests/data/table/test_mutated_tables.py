"""Tables with warts come back as their numbers; damaged files are read as pandas reads them, or refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpsuite.data import CsvSpec, read_csv
from gpsuite.data.table.describe import describe_table
from gpsuite.errors import UserError
from gpsuite.seeds import stream
from tests.data.table.mutated_tables import damaged, written_table
from tests.data.table.pandas_reading import disagreements

REAL = sorted((Path(__file__).parent / "real").glob("*.csv"))


def check_written(folder: Path, number: int) -> bool:
    """Read a table with warts; return whether it was read, after checking every number of it."""
    table = written_table(stream(19, "written", number))
    path = folder / "t.csv"
    path.write_bytes(table.content)
    try:
        data = read_csv(CsvSpec(path=str(path), target="target"))
    except UserError as error:
        assert 1 <= len(str(error).splitlines()) <= 4
        return False
    assert data.input_names == table.names, table.warts
    np.testing.assert_allclose(data.X, table.X, rtol=1e-15, err_msg=str(table.warts))
    np.testing.assert_allclose(data.y[:, 0], table.y, rtol=1e-15, err_msg=str(table.warts))
    if table.lost or {"decimal comma", "id", "constant", "title"} & set(table.warts):
        assert data.notes, "what was decided is said"
    return True


def check_damaged(folder: Path, number: int) -> bool | None:
    """Read a damaged file; return whether pandas agrees with its numbers, None where one of them does not read it."""
    rng = stream(19, "damaged", number)
    source = REAL[int(rng.integers(len(REAL)))] if rng.random() < 0.3 else None
    content = written_table(rng).content if source is None else b"\n".join(source.read_bytes().split(b"\n")[:60])
    path = folder / "d.csv"
    path.write_bytes(damaged(content, rng))
    try:
        described = describe_table(CsvSpec(path=str(path)))
    except UserError as error:
        assert str(error)
        return None
    names = [str(column["column"]) for column in described.columns]
    spec = CsvSpec(
        path=str(path),
        target=[names[int(rng.integers(len(names)))]],
        task=str(rng.choice(["regression", "classification"])),
        missing=[None, "drop_rows", "drop_columns"][int(rng.integers(3))],
    )
    try:
        data = read_csv(spec)
    except UserError as error:
        assert 1 <= len(str(error).splitlines()) <= 4
        return None
    assert np.isfinite(data.X).all()
    if any("decimal comma" in note or "thousands" in note or "without its" in note for note in data.notes):
        return None
    wrong = disagreements(spec, data)
    assert not wrong, (number, wrong, data.notes)
    return wrong is not None


def test_tables_with_warts_come_back_as_their_numbers(tmp_path: Path) -> None:
    read = [check_written(tmp_path, number) for number in range(150)]
    assert np.mean(read) > 0.9


def test_damaged_files_are_read_as_pandas_reads_them_or_refused(tmp_path: Path) -> None:
    agreed = [check_damaged(tmp_path, number) for number in range(100)]
    assert sum(each is True for each in agreed) > 30


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_twelve_thousand_mutated_files_are_read_as_written_or_refused(tmp_path: Path) -> None:
    read = [check_written(tmp_path, number) for number in range(1000, 6000)]
    agreed = [check_damaged(tmp_path, number) for number in range(1000, 8000)]
    print(f"\n{sum(read)} of {len(read)} with warts read, {sum(each is True for each in agreed)} damaged compared")
    assert np.mean(read) > 0.9
    assert sum(each is True for each in agreed) > 1800
