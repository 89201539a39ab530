"""From a file to its cells: what is read, what is said, and what is refused."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpsuite.data import read_csv
from gpsuite.data.table.describe import describe_table
from gpsuite.data.table.layout import decode, parse_separator, read_bytes, read_grid, split_rows
from gpsuite.errors import DataError
from gpsuite.text import typed_path
from tests.data.made_up_data import csv_spec, table, write
from tests.experiments.robustness.safety_runs import gpsuite


def refused(error: pytest.ExceptionInfo[DataError], key: str, *parts: str) -> None:
    message = str(error.value)
    assert error.value.key == f"dataset.{key}"
    assert message.startswith(f"dataset.{key}=")
    least = 1 if "Did you mean" in message else 2
    assert least <= len(message.splitlines()) <= 4, "what is wrong, and what to do"
    for part in parts:
        assert part in message


def test_a_missing_file_gives_the_nearest_name(tmp_path: Path) -> None:
    write(tmp_path, table(), "measurements.csv")
    with pytest.raises(DataError) as caught:
        read_bytes(str(tmp_path / "measurement.csv"))
    refused(caught, "path", "no such file. Did you mean 'measurements.csv'?", str(tmp_path / "measurement.csv"))
    with pytest.raises(DataError) as caught:
        read_bytes(str(tmp_path / "no" / "t.csv"))
    refused(caught, "path", f"there is no folder '{tmp_path / 'no'}'")
    with pytest.raises(DataError) as caught:
        read_bytes(str(tmp_path / "measurements.csv" / "t.csv"))
    refused(caught, "path", "there is no folder")


def test_a_folder_that_cannot_be_listed_still_gives_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> list[str]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(DataError) as caught:
        read_bytes(str(tmp_path / "t.csv"))
    refused(caught, "path", "no such file\n")


def test_what_is_not_a_file_with_content_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    cases = {
        str(tmp_path): "is a folder",
        str(tmp_path / "pipe"): "is not a regular file",
        write(tmp_path, b"", "empty.csv"): "the file is empty",
        write(tmp_path, b" \r\n\n", "blank.csv"): "the file is empty",
        "": "no file named",
        "???": "no file named",
        "a\0b": "cannot be read",
        "n" * 5000: "cannot be read",
    }
    for path, what in cases.items():
        with pytest.raises(DataError) as caught:
            read_bytes(path)
        refused(caught, "path", what)


def test_an_unreadable_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, table())

    def refuse(path: Path, largest: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("gpsuite.data.table.layout.read_file", refuse)
    with pytest.raises(DataError) as caught:
        read_bytes(path)
    refused(caught, "path", "cannot be read: Permission denied", "permissions")


def test_a_tilde_is_a_name_first_and_the_home_folder_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert typed_path("~/t.csv") == tmp_path / "home" / "t.csv"
    write(tmp_path, table(), "~t.csv")
    assert typed_path("~t.csv") == Path("~t.csv")
    assert read_bytes("~t.csv")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"a,b,y\n1,\0,3\n", "it holds binary data"),
        (b"PK\x03\x04\xff\xfe\xfd", "not a text CSV"),
        (b"\x89PNG\r\n\x1a\n\0\0", "it holds binary data"),
    ],
)
def test_binary_files_are_refused(data: bytes, what: str) -> None:
    with pytest.raises(DataError) as caught:
        decode("t.csv", data)
    refused(caught, "path", what, "CSV UTF-8")


def test_a_packed_table_is_to_be_unpacked() -> None:
    with pytest.raises(DataError) as caught:
        decode("t.csv", gzip.compress(b"a,b,y\n"))
    refused(caught, "path", "is compressed by gzip", "gunzip")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252"])
def test_other_encodings_are_read_and_said_unless_strict(encoding: str) -> None:
    text = "a,b\n1,2\n3,größe\n"
    found, notes = decode("t.csv", text.encode(encoding))
    assert found == text
    assert len(notes) == 1
    with pytest.raises(DataError) as caught:
        decode("t.csv", text.encode(encoding), strict=True)
    refused(caught, "path", "t.csv", "CSV UTF-8")
    assert decode("t.csv", text.encode(), strict=True) == (text, [])


def test_a_byte_order_mark_is_no_part_of_the_first_name() -> None:
    assert decode("t.csv", b"\xef\xbb\xbfa,b\n") == ("a,b\n", [])


def test_rows_carry_the_line_they_begin_in() -> None:
    text = '\n"a",b\r\n\n1,"two\nlines"\r\n   \n3,4'
    rows = list(split_rows("t.csv", text, ","))
    assert rows == [(2, ["a", "b"]), (4, ["1", "two\nlines"]), (7, ["3", "4"])]
    assert [cells for _, cells in split_rows("t.csv", "a;b\r1; 2\r", ";")] == [["a", "b"], ["1", "2"]]


@pytest.mark.parametrize("text", ['a,b\n1,2\n3,"4\n5,6\n', 'a,b\n1,2\n3,"4"5\n', "a,b\n1,2\n3," + "4" * 200_000])
def test_broken_quoting_names_the_line(text: str) -> None:
    with pytest.raises(DataError) as caught:
        list(split_rows("t.csv", text, ","))
    refused(caught, "path", "line 3: not valid CSV", "quote")


@pytest.mark.parametrize(
    ("line", "separator", "what"),
    [
        ("a;b;y", ",", "set dataset.separator=';'"),
        ("a\tb\ty", ",", "set dataset.separator='\\t'"),
        ("a,b,y", ";", "set dataset.separator=','"),
        ("a,b,y", "\t", "dataset.separator='\\t': only one column"),
        ("alone", None, "a target and one input at least"),
    ],
)
def test_a_wrong_separator_gives_the_right_one(tmp_path: Path, line: str, separator: str | None, what: str) -> None:
    with pytest.raises(DataError) as caught:
        read_grid(csv_spec(write(tmp_path, [line, line]), separator=separator))
    refused(caught, "separator", "only one column found", what)
    assert bool(caught.value.fix) == (separator is not None)


def test_a_separator_is_one_character_or_a_written_tab() -> None:
    assert [parse_separator(text) for text in (",", ";", "\\t", "\t", "|", " ")] == [",", ";", "\t", "\t", "|", " "]
    for text in ("", ";;", '"', "\n"):
        with pytest.raises(DataError) as caught:
            parse_separator(text)
        refused(caught, "separator", "must be one character", "dataset.separator=';'")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "umsatz;preis\n1.701;4.224\n2.398;8.625\n",
            "'1.701' in column 'umsatz' is read with a decimal point. Set dataset.thousands=. if",
        ),
        ("umsatz;preis\n1.701;4.224\n2.39;8.625\n", ""),
        ("umsatz;preis\n1.165.500;4.224\n2.398;8.625\n", "with a point between thousands ('1.165.500'"),
        ("umsatz,preis\n1.701,4.224\n2.398,8.625\n", ""),
    ],
)
def test_points_that_may_stand_between_thousands_are_reported(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text(text)
    assert gpsuite("data", "describe", str(tmp_path / "t.csv")) == 0
    said = capsys.readouterr().out
    assert told in said if told else "thousands" not in said


@pytest.mark.parametrize("name", ["Unnamed: 0", "Unnamed: 0.1", "nr"])
def test_an_index_that_was_written_with_the_table_is_no_input(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{name},a,y", *(f"{row},{0.1 * row**2},{row % 3}" for row in range(20))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    assert gpsuite("data", "describe", str(tmp_path / "t.csv")) == 0
    [told] = [line for line in capsys.readouterr().out.splitlines() if line.lstrip().startswith(name)]
    assert "it counts the rows" in told


def test_a_file_is_split_once_until_its_content_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def counted(path: str, text: str, separator: str, key: str = "path") -> Iterator[tuple[int, list[str]]]:
        if path:  # not a sample that decides on the separator
            calls.append(path)
        return split_rows(path, text, separator, key)

    monkeypatch.setattr("gpsuite.data.table.layout.split_rows", counted)
    path = write(tmp_path, [*table(), "4,5,6.25"])
    for _ in range(2):
        read_csv(csv_spec(path))
        describe_table(csv_spec(path))
    assert len(calls) == 1
    write(tmp_path, [*table(), "4,5,6.5"])
    assert read_csv(csv_spec(path)).y[-1, 0] == 6.5
    assert len(calls) == 2
