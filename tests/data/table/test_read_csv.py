from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpsuite.data import read_csv
from gpsuite.errors import DataError, UserError
from tests.data.made_up_data import csv_spec, table, write


def message_of(path: str, **changes: Any) -> str:
    with pytest.raises(UserError) as caught:
        read_csv(csv_spec(path, **changes))
    assert len(str(caught.value).splitlines()) <= 4
    return str(caught.value)


def test_default_inputs_are_all_other_columns(tmp_path: Path) -> None:
    dataset = read_csv(csv_spec(write(tmp_path, table())))
    assert dataset.task == "regression"
    assert dataset.input_names == ("a", "b")
    assert dataset.target_names == ("y",)
    assert dataset.X[2].tolist() == [2.0, 4.5]
    assert dataset.y[2].tolist() == [0.5]
    assert read_csv(csv_spec(write(tmp_path, table()), inputs="null")).content_hash == dataset.content_hash


def test_several_targets_and_chosen_inputs_keep_the_order_asked(tmp_path: Path) -> None:
    path = write(tmp_path, table(header="a,b,y"))
    dataset = read_csv(csv_spec(path, target="[y, a]", inputs="b"))
    assert (dataset.target_names, dataset.input_names) == (("y", "a"), ("b",))
    assert dataset.y[3].tolist() == [0.8, 3.0]


@pytest.mark.parametrize("name", ["my table.csv", "a,b.csv", "[x].csv", "k=v.csv", "~t.csv", "it's.csv", "größe.csv"])
def test_odd_file_names_are_taken_literally(tmp_path: Path, name: str) -> None:
    assert read_csv(csv_spec(write(tmp_path, table(), name))).X.shape == (12, 2)


@pytest.mark.parametrize("name", ["my y", "y,1", "[y]", "y=1", "~y", "it's", '"y"', "größe", "y;", "a.b", "???x"])
def test_odd_column_names_are_taken_literally(tmp_path: Path, name: str) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerow(["a", "b", name])
    dataset = read_csv(csv_spec(write(tmp_path, [stream.getvalue().strip(), *table()[1:]]), target=name))
    assert dataset.target_names == (name,)
    assert read_csv(csv_spec(str(tmp_path / "t.csv"), target=[name])).content_hash == dataset.content_hash


@pytest.mark.parametrize(
    ("content", "separator"),
    [
        ("\ufeff" + "\n".join(table()), ","),
        ("\r\n".join(table()) + "\r\n\r\n", ","),
        ("\r".join(table()), ","),
        ("\n".join(table()).replace("a,b,y", " a , b ,  y  "), ","),
        ("\n".join(table()).replace(",", ", "), ","),
        ("\n".join(table()).replace(",", ";"), ";"),
        ("\n".join(table()).replace(",", "\t"), "\\t"),
        ("\n".join('"' + line.replace(",", '","') + '"' for line in table()), ","),
    ],
)
def test_other_ways_to_write_the_same_table(tmp_path: Path, content: str, separator: str) -> None:
    plain = read_csv(csv_spec(write(tmp_path, table())))
    other = read_csv(csv_spec(write(tmp_path, content.encode(), "other.csv"), separator=separator))
    np.testing.assert_array_equal(other.X, plain.X)
    np.testing.assert_array_equal(other.y, plain.y)
    assert other.input_names == plain.input_names
    assert other.content_hash != plain.content_hash, "the file's bytes are part of the hash"


def test_a_huge_number_of_columns_is_read(tmp_path: Path) -> None:
    columns = 20_000
    lines = [",".join(f"c{i}" for i in range(columns)) + ",y"]
    lines += [",".join([str(row)] * columns) + f",{row * row}" for row in range(10)]
    assert read_csv(csv_spec(write(tmp_path, lines))).X.shape == (10, columns)


def test_hash_depends_on_content_and_choices_only(tmp_path: Path) -> None:
    path = write(tmp_path, table())
    reference = read_csv(csv_spec(path)).content_hash
    assert read_csv(csv_spec(write(tmp_path, table(), "copy.csv"), inputs="[a, b]")).content_hash == reference
    others = [
        csv_spec(path, target="a"),
        csv_spec(path, inputs="a"),
        csv_spec(path, inputs="[b, a]"),
        csv_spec(write(tmp_path, table(13), "longer.csv")),
    ]
    hashes = {read_csv(spec).content_hash for spec in others}
    assert len(hashes | {reference}) == 5


def test_text_labels_become_classes(tmp_path: Path) -> None:
    lines = ["a,b,kind", *(f"{i},{i * i},{('ham', 'spam')[i % 2]}" for i in range(10))]
    dataset = read_csv(csv_spec(write(tmp_path, lines), target="kind", task="classification"))
    assert dataset.label_names == ("ham", "spam")
    assert dataset.y[:3, 0].tolist() == [0.0, 1.0, 0.0]
    assert dataset.n_classes == 2
    assert dataset.X.shape == (10, 2)


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"target": "z"}, ["dataset.target=z: no column 'z'", "columns: [a, b, y]"]),
        ({"target": "???"}, ["no target named", "columns: [a, b, y]"]),
        ({"inputs": "[a, yy]"}, ["dataset.inputs=[a, yy]: no column 'yy'. Did you mean 'y'?"]),
        ({"inputs": "[a, y]"}, ["dataset.inputs=[a, y]: column 'y' is also the target", "leave it out"]),
        ({"target": "[a, b, y]"}, ["no input is left"]),
        ({"target": "[a, y]", "task": "classification"}, ["classification takes one target"]),
        ({"task": "regresion"}, ["dataset.task=regresion", "Did you mean 'regression'"]),
        ({"separator": ";"}, ["dataset.separator=';': only one column found", "set dataset.separator=','"]),
        ({"path": "nowhere.csv"}, ["dataset.path=nowhere.csv: no such file"]),
    ],
)
def test_wrong_choices_are_answered(tmp_path: Path, changes: dict[str, Any], parts: list[str]) -> None:
    path = write(tmp_path, table())
    message = message_of(str(changes.pop("path", path)), **changes)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    ("lines", "parts"),
    [
        (["a,b,y"], ["has column names but no rows"]),
        (table(9), ["9 rows. At least 10 are needed"]),
        ([*table(), "1,x,3"], ["line 14, column 'b': 'x' is not a number"]),
        ([*table(), "1,2"], ["line 14 has 2 cells, the header has 3"]),
        (["a,y", *(f"{i},3" for i in range(10))], ["dataset.target=y: column 'y' is constant"]),
        (["c,y", *(f"3,{i}" for i in range(10))], ["'c': it is constant (3)", "No other input is left"]),
        (["a,y,y", *table()[1:]], ["two columns are named 'y'"]),
    ],
)
def test_wrong_tables_are_answered(tmp_path: Path, lines: list[str], parts: list[str]) -> None:
    message = message_of(write(tmp_path, lines))
    for part in parts:
        assert part in message


def test_an_unnamed_column_may_be_left_out(tmp_path: Path) -> None:
    lines = [",a,y", *(f"row {i},{i},{i}" for i in range(10))]
    assert read_csv(csv_spec(write(tmp_path, lines), inputs="[a]")).input_names == ("a",)


NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), min_size=1, max_size=8).map(str.strip)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data(), names=st.lists(NAMES.filter(bool), min_size=2, max_size=5, unique=True))
def test_any_names_and_numbers_come_back(tmp_path: Path, data: st.DataObject, names: list[str]) -> None:
    columns = [data.draw(st.lists(NUMBERS, min_size=10, max_size=12).filter(lambda c: len(set(c)) > 1)) for _ in names]
    rows = [list(row) for row in zip(*columns, strict=False)]
    varied = all(len({row[column] for row in rows}) > 1 for column in range(len(names)))
    target = data.draw(st.sampled_from(names))
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL).writerows([names, *rows])
    spec = csv_spec(write(tmp_path, stream.getvalue().encode(), "random.csv"), target=target)
    if not varied:
        with pytest.raises(DataError, match="is constant"):
            read_csv(spec)
        return
    table = np.array(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = table.std(axis=0)
    if not (np.isfinite(deviation) & (deviation > 0.0)).all():
        with pytest.raises(DataError, match="its variance cannot be computed"):
            read_csv(spec)
        return
    dataset = read_csv(spec)
    where = names.index(target)
    assert dataset.target_names == (target,)
    np.testing.assert_array_equal(dataset.y[:, 0], table[:, where])
    np.testing.assert_array_equal(dataset.X, np.delete(table, where, axis=1))


def test_names_and_labels_that_would_act_on_a_terminal_are_written_out_at_the_door(tmp_path: Path) -> None:
    escape = "\x1b[31mred"
    rows = [[i, i * i, ("a\u202e", "b\x07")[i % 2]] for i in range(12)]
    path = tmp_path / "odd.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows([[escape, "two\nlines", "label\u2066"], *rows])
    for target in ("label\u2066", "label\\u2066"):  # as the file has it, or as it is shown
        dataset = read_csv(csv_spec(str(path), target=target, inputs=[escape, "two\nlines"], task="classification"))
        assert dataset.input_names == ("\\x1b[31mred", "two\\nlines")
        assert dataset.target_names == ("label\\u2066",)
        assert dataset.label_names == ("a\\u202e", "b\\x07")


@pytest.mark.parametrize(("times", "largest", "read"), [(3, 5, True), (2, 5, False), (3, 18, False)])
def test_a_text_that_recurs_among_few_numbers_is_a_level(tmp_path: Path, times: int, largest: int, read: bool) -> None:
    """`X` after the 1, 2, ... of a code; one that hardly recurs, or stands among many numbers, is a mistake."""
    cells = [str(row % largest) for row in range(54 - times)] + ["X"] * times
    path = write(tmp_path, ["code,a,y", *(f"{cell},{row * 0.37},{row % 7}" for row, cell in enumerate(cells))])
    if not read:
        assert "column 'code': 'X' is not a number" in message_of(path)
        return
    dataset = read_csv(csv_spec(path))
    assert "column 'code' holds numbers and texts, all read as 6 categories" in dataset.notes
    assert dataset.input_names[:6] == tuple(f"code={level}" for level in "01234X")
    assert dataset.X[:, 5].sum() == times


def test_the_same_numbers_as_classes_are_another_content(tmp_path: Path) -> None:
    path = write(tmp_path, ["a,b,y", *(f"{i},{i * i},{i % 2}" for i in range(12))])
    ways = [read_csv(csv_spec(path, task=task)) for task in ("regression", "classification")]
    assert ways[0].content_hash != ways[1].content_hash


def test_rows_that_differ_in_the_sign_of_zero_are_copies(tmp_path: Path) -> None:
    lines = ["a,b,y", *(f"{i},{i * i},{3 * i}" for i in range(1, 12)), "0,5,1", "-0,5,1", "-0.0,5,1"]
    groups = read_csv(csv_spec(write(tmp_path, lines))).groups
    assert groups is not None
    assert groups[-3:].tolist() == [11, 11, 11]


def test_too_few_rows_without_gaps_are_refused(tmp_path: Path) -> None:
    lines = ["a,b,y", *(f"{i},{i * i if i < 9 else ''},{3 * i}" for i in range(14))]
    with pytest.raises(DataError, match=r"9 rows\. At least 10 are needed"):
        read_csv(csv_spec(write(tmp_path, lines), missing="drop_rows"))


def test_a_column_that_varies_only_in_rows_left_out_is_left_out(tmp_path: Path) -> None:
    lines = ["a,b,y", *(f"{i},{7 if i else 8},{3 * i if i else ''}" for i in range(14))]
    data = read_csv(csv_spec(write(tmp_path, lines)))
    assert data.input_names == ("a",)
    assert "column 'b' left out: it is constant in the rows used" in data.notes


def test_lines_are_those_of_the_rows_used(tmp_path: Path) -> None:
    lines = ["a,b,y", *(f"{i},{i * i if i != 2 else ''},{3 * i}" for i in range(14))]
    data = read_csv(csv_spec(write(tmp_path, lines)))
    assert data.lines is not None
    assert data.lines.tolist() == [2, 3, *range(5, 16)]


def test_labels_are_distinguished_by_their_digits(tmp_path: Path) -> None:
    """Float64 takes 2^53 and 2^53 + 1 for one number."""
    labels = ["9007199254740992", "9007199254740993", "+5", "5.0"]
    lines = ["a,y", *(f"{i},{labels[i % 4]}" for i in range(16))]
    data = read_csv(csv_spec(write(tmp_path, lines), inputs="a", task="classification"))
    assert data.label_names == ("5", *labels[:2])
    assert data.y[:4, 0].tolist() == [1.0, 2.0, 0.0, 0.0]


@pytest.mark.parametrize("gaps", [4, 5])
def test_rows_with_gaps_are_left_out_up_to_a_fifth(tmp_path: Path, gaps: int) -> None:
    lines = ["a,b,y", *(f"{i},{i * i if i >= gaps else ''},{3 * i}" for i in range(20))]
    spec = csv_spec(write(tmp_path, lines))
    if gaps == 4:
        assert len(read_csv(spec).X) == 16
        return
    with pytest.raises(DataError, match="5 of 20 rows"):
        read_csv(spec)
