from __future__ import annotations

import shlex
import unicodedata

from hypothesis import example, given
from hypothesis import strategies as st

from gpsuite.config.overrides import read_overrides
from gpsuite.text import counted, list_word, visible, visible_lines


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
    [
        "007",
        "12",
        "1e3",
        "a, b",
        "true",
        "NaN",
        "a  b",
        "a true",
        "a 1",
        "it's",
        'a\\"b\\',
        "-1",
        "0",
        "[x]",
        " y",
        "é",
    ]
)
def test_the_word_of_a_list_is_read_back_as_the_list(texts: list[str]) -> None:
    [word] = shlex.split(list_word("classes", texts))
    assert [str(each) for each in read_overrides([word], {}).values["classes"]] == texts


def test_plain_names_are_not_quoted() -> None:
    assert list_word("classes", ["no", "yes_2", "12"]) == "classes=[no,yes_2,12]"
    assert list_word("classes", ["kind 1", "7"]) == "'classes=[kind 1,7]'"
