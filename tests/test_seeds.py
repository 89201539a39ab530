"""Seeds are derived from names: the same in every version, others for other names, in whatever process."""

from __future__ import annotations

from gpsuite.seeds import derived_seed, stream


def test_derived_seeds_never_change() -> None:
    assert (derived_seed(0), derived_seed(0, "split", 3)) == (3502022929, 1048033328)
    assert stream(0, "rows").permutation(5).tolist() == [0, 2, 1, 4, 3]


def test_every_part_of_a_name_and_its_place_count() -> None:
    names: list[tuple[str | int | float, ...]] = [
        (), ("split",), ("split", 3), (3, "split"), ("split", "3"), ("split", 3.5), ("split", 3, 0),
    ]  # fmt: skip
    assert len({derived_seed(seed, *axes) for seed in (0, 1) for axes in names}) == 2 * len(names)
