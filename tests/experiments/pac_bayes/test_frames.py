from __future__ import annotations

from gpsuite.experiments.base import Record
from gpsuite.experiments.pac_bayes.tables import METRICS, records_frame, summarise_fits, wide_table

TITLES = {"one": "one start", "five": "five starts"}
SPREAD = "worst minus best start's objective"


def record(method: str, split: int, **changes: float) -> Record:
    metrics = {**dict.fromkeys(METRICS, 0.5 + split), "log_theta": 1.0, "confidence": 1.0, "n_train": 10}
    axes = {"method": method, "split": split}
    return Record("key", "pac_bayes/regression", "", axes, "done", "", {**metrics, **changes}, {})  # type: ignore[arg-type]


def test_methods_of_several_starts_show_how_far_these_ended_apart() -> None:
    ones = [record("one", split) for split in range(2)]
    fives = [record("five", split, start_spread=0.25 + split) for split in range(2)]
    tidy = summarise_fits(records_frame([*ones, *fives]), ["method"], METRICS)
    [line] = tidy[tidy["metric"] == "start_spread"].to_dict("records")
    assert (line["method"], line["mean"], line["n"]) == ("five", 0.75, 2)
    table = wide_table(tidy, ["method"], TITLES).set_index("method")
    assert list(table.columns)[-2:] == [SPREAD, "splits"]
    assert dict(table[SPREAD]) == {"one start": "–", "five starts": "0.75 ± 0.50"}


def test_without_them_the_table_has_no_such_column() -> None:
    frame = records_frame([record("one", split) for split in range(2)])
    tidy = summarise_fits(frame, ["method"], METRICS)
    assert set(tidy["metric"]) == set(METRICS)
    assert SPREAD not in wide_table(tidy, ["method"], TITLES)
