"""The leaves of the package: budgets, rounding, seeds, texts, files written in one step."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import sys
import time
import unicodedata
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import IO
from unittest.mock import ANY

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpsuite.atomic import remove_leftovers, write_atomically, write_described
from gpsuite.budget import Budget, ProcessorBudget
from gpsuite.config.overrides import read_overrides
from gpsuite.rounding import rounded, rounded_interval, rounded_units, sureness
from gpsuite.seeds import derived_seed, stream
from gpsuite.text import counted, list_word, visible, visible_lines


def test_the_observer_hears_every_spending_with_the_best_value_so_far() -> None:
    heard: list[tuple[int, int, float]] = []
    budget = Budget(observer=lambda told: heard.append((told.spent_evaluations, told.spent_boxes, told.best)))
    budget.spend(evaluations=1)
    budget.spend(evaluations=2, best=0.5)
    budget.spend(boxes=4, best=0.7)
    assert heard == [(1, 0, math.inf), (3, 0, 0.5), (3, 4, 0.5)]


def test_restart_forgets_the_best_value_too() -> None:
    budget = Budget(evaluations=2)
    budget.spend(evaluations=2, best=0.1)
    assert budget.exhausted
    budget.restart()
    assert (budget.best, budget.spent_evaluations, budget.exhausted) == (math.inf, 0, False)


def test_the_processors_seconds_do_not_count_waiting() -> None:
    budget = ProcessorBudget(seconds=0.05)
    time.sleep(0.1)
    assert not budget.exhausted and 0.0 <= budget.elapsed < 0.05
    while not budget.exhausted:
        sum(range(1000))
    budget.restart()
    assert budget.elapsed < 0.05


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        (Budget(), 0.0),
        (Budget(evaluations=100), 0.25),
        (Budget(evaluations=10), 1.0),  # the last step may overspend
        (Budget(evaluations=0), 1.0),
        (Budget(evaluations=100, boxes=100), 0.5),
        (Budget(evaluations=100, run=3, runs=5), 0.45),
        (Budget(seconds=0.0), 1.0),
    ],
)
def test_the_share_follows_the_limit_nearest_to_its_end(budget: Budget, share: float) -> None:
    budget.spend(evaluations=25, boxes=50)
    assert budget.share == pytest.approx(share)


def test_a_part_is_of_what_is_left_and_never_negative() -> None:
    part = Budget(seconds=0.0, boxes=10, spent_boxes=3, observer=print).part(2)
    assert (part.seconds, part.boxes, part.spent_boxes, part.observer) == (0.0, 3, 0, None)
    assert Budget(boxes=3, spent_boxes=9).part(2) == Budget(boxes=0, started=ANY)
    assert Budget().part(3) == Budget(started=ANY)


def test_the_remainder_of_a_budget_tells_of_the_whole() -> None:
    whole = Budget(seconds=10.0)
    whole.started -= 11.0
    for rest in (whole.rest(boxes=5), whole.rest().rest(), whole.rest().part(2)):
        assert rest.seconds == 0.0
        assert rest.reason == "10 seconds used up"
    assert Budget().rest(boxes=0).reason == "0 boxes used up"


def test_restart_forgets_the_boxes_too() -> None:
    budget = Budget(boxes=2)
    budget.spend(boxes=2)
    assert budget.exhausted
    budget.restart()
    assert (budget.spent_boxes, budget.exhausted) == (0, False)


finite = st.floats(allow_nan=False, allow_infinity=False)
moderate = st.floats(-1e12, 1e12)
scales = st.floats(1e-6, 1e6)


def named(value: float) -> Fraction:
    """The shortest decimal that names a float."""
    return Fraction(repr(value))


@given(finite, st.integers(1, 17))
def test_a_rounded_number_is_on_its_side_and_near(value: float, digits: int) -> None:
    low, high = (Fraction(rounded(value, digits, side)) for side in (-1, 1))
    assert low <= named(value) <= high
    assert high - low <= abs(named(value)) * Fraction(10) ** (1 - digits)


@given(moderate, scales, moderate)
def test_units_are_changed_without_rounding_to_the_wrong_side(value: float, scale: float, offset: float) -> None:
    exact = named(value) * named(scale) + named(offset)
    low, high = (Fraction(rounded_units(value, scale, offset, side)) for side in (-1, 1))
    assert low <= exact <= high


@given(moderate, st.floats(1e-3, 1e6), scales, moderate)
def test_an_interval_is_shown_no_wider_and_hardly_narrower(
    low: float, width: float, scale: float, offset: float
) -> None:
    high = low + width
    first, last = (Fraction(end) for end in rounded_interval(low, high, scale, offset))
    exact = [named(end) * named(scale) + named(offset) for end in (low, high)]
    assert exact[0] <= first <= last <= exact[1]
    assert last - first >= (exact[1] - exact[0]) * Fraction(99, 100)


@pytest.mark.parametrize(
    ("value", "side", "shown"),
    [(0.123412, 1, "0.1235"), (-0.123412, 1, "-0.1234"), (0.0, 1, "0"), (1e-12, 1, "1e-12"), (0.1, 1, "0.1")],
)
def test_short_forms_are_rounded_to_the_right_side(value: float, side: int, shown: str) -> None:
    assert rounded(value, 4, side) == shown


def test_a_small_spread_next_to_a_large_offset_is_shown() -> None:
    assert rounded_units(1.5, 3.0, 1.7e9, 1) == "1700000004.5"
    assert rounded_interval(-1.0, 1.0, 3.0, 1.7e9) == ("1699999997", "1700000003")


def test_what_is_not_finite_is_named() -> None:
    assert rounded(float("inf"), 4, 1) == "inf"
    assert rounded_units(float("-inf"), 1.0, 0.0, -1) == "-inf"
    assert rounded_interval(0.0, float("inf")) == ("0", "inf")


@pytest.mark.parametrize(
    ("delta", "shown"),
    [(0.05, "95 %"), (1e-9, "99.9999999 %"), (1e-40, f"99.{'9' * 38} %"), (0.1, "90 %"), (1 / 3, None)],
)
def test_confidence_is_never_rounded_up(delta: float, shown: str | None) -> None:
    said = sureness(delta)
    assert shown is None or said == shown
    assert Fraction(said[:-2]) <= 100
    assert Fraction(said[:-2]) == 100 * (1 - named(delta))


def test_hardly_any_doubt_is_still_some() -> None:
    assert sureness(1e-70) != "100 %"


def test_an_interval_ends_inside_however_close_its_end_is() -> None:
    low, _ = rounded_interval(1e-80, 2.0, 1.0, 1.0)
    assert Decimal(low) > 1


def test_derived_seeds_never_change() -> None:
    assert (derived_seed(0), derived_seed(0, "split", 3)) == (3502022929, 1048033328)
    assert stream(0, "rows").permutation(5).tolist() == [0, 2, 1, 4, 3]


def test_every_part_of_a_name_and_its_place_count() -> None:
    names: list[tuple[str | int | float, ...]] = [
        (), ("split",), ("split", 3), (3, "split"), ("split", "3"), ("split", 3.5), ("split", 3, 0),
    ]  # fmt: skip
    assert len({derived_seed(seed, *axes) for seed in (0, 1) for axes in names}) == 2 * len(names)


def test_what_acts_is_written_out_and_what_shows_stays() -> None:
    assert visible("\x1b[31m") == r"\x1b[31m"
    assert visible("a\nb\tc\r") == r"a\nb\tc\r"
    assert visible("\u202eevil\u2066") == r"\u202eevil\u2066"
    assert visible("caf\udce9") == r"caf\udce9"
    assert visible_lines("a\n\x07b") == "a\n\\x07b"
    shown = "ζ target, ü 日本 😀 $x_{1}$ \\frac [a|b] ~'\" π±≤"
    assert visible(shown) == shown


def test_no_control_character_or_mark_of_direction_is_left() -> None:
    everything = "".join(map(chr, range(0x110000)))
    left = visible(everything)
    assert not {unicodedata.category(letter) for letter in left} & {"Cc", "Cs", "Zl", "Zp"}
    directions = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    assert not {unicodedata.bidirectional(letter) for letter in left} & directions


def test_things_are_counted_in_their_number() -> None:
    assert [counted(number, "row") for number in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1), min_size=1))
@example(
    ["007", "12", "1e3", "a, b", "true", "NaN", "a  b", "a true", "a 1", "it's", 'a\\"b\\', "-1", "0", "[x]", " y", "é"]
)
def test_the_word_of_a_list_is_read_back_as_the_list(texts: list[str]) -> None:
    [word] = shlex.split(list_word("classes", texts))
    assert [str(each) for each in read_overrides([word], {}).values["classes"]] == texts


def test_plain_names_are_not_quoted() -> None:
    assert list_word("classes", ["no", "yes_2", "12"]) == "classes=[no,yes_2,12]"
    assert list_word("classes", ["kind 1", "7"]) == "'classes=[kind 1,7]'"


def test_folders_are_made_and_content_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    for text in (b"first", b"second"):
        write_atomically(path, lambda stream, text=text: stream.write(text))
        assert path.read_bytes() == text
    assert list(path.parent.iterdir()) == [path]


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail(stream: IO[bytes]) -> None:
        stream.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, fail)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(OSError, match="file"):
        write_atomically(path / "below", fail)


KILLED = """
import os, signal, sys
from pathlib import Path
from gpsuite.commands.report import show_page
calls = []
def replace(*paths):
    calls.append(paths)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    rename(*paths)
rename, os.replace = os.replace, replace
show_page(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("write", [1, 2, 3])
def test_the_next_report_removes_what_a_killed_one_left(write: int, tmp_path: Path) -> None:
    run = tmp_path / "published" / "pac_bayes" / "one" / "paper"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    for place, left in ((write, 1), (0, 0)):
        subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(place)], capture_output=True, check=not place)
        assert len(list(tmp_path.rglob(".tmp-*"))) == left
    assert (tmp_path / "published" / "README.md").exists()


def test_only_what_is_abandoned_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own: list[Path] = []
    write_atomically(tmp_path / "file", lambda stream: own.append(Path(stream.name)))
    _, here, process, number = own[0].name.rsplit("-", 3)
    assert int(process) == os.getpid()
    names = {
        "killed": f".tmp-{here}-{ended.pid}-{number}",
        "running": f".tmp-{here}-{os.getpid()}-{number}",
        "elsewhere": f".tmp-{'0' * 8}-{ended.pid}-{number}",
        "long ago": f".tmp-{'0' * 8}-{os.getpid()}-{number}",
        "others": f".tmp-{ended.pid}",
    }
    for kind, name in names.items():
        (tmp_path / name).write_text(kind)
    os.utime(tmp_path / names["long ago"], (0, 0))
    remove_leftovers(tmp_path, tmp_path / "nowhere")
    kept = {path.read_text() for path in tmp_path.glob(".tmp-*")}
    assert kept == {"running", "elsewhere", "others"}


def test_a_description_that_cannot_be_written_leaves_both_files(tmp_path: Path) -> None:
    npz, other = tmp_path / "x.npz", tmp_path / "x.json"
    write_described(npz, other, {"bound": 1.0}, {"a": np.zeros(2)})
    before = npz.read_bytes(), other.read_bytes()
    with pytest.raises(ValueError, match="Out of range"):
        write_described(npz, other, {"bound": float("nan")}, {"a": np.ones(2)})
    assert (npz.read_bytes(), other.read_bytes()) == before
