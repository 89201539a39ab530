"""Saved models that were changed: every change ends in one sentence and exit code 2, whether or not it is disguised."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpsuite
from gpsuite import cli
from gpsuite.certificates.envelope import checksum
from gpsuite.certificates.model import Model
from gpsuite.experiments.guarantee.saved import SavedClassifier, SavedModel, SavedRegression, unpacked, write_model

N, D = 6, 2
RNG = np.random.default_rng(0)
HUGE = 10**400
# what a value of a description may be replaced by; the nested list is deeper than Python's stack
OTHERS: tuple[Any, ...] = (None, True, -1, 0, 7.25, HUGE, 1e300, "", "at most 1 %", [], [[]], {}, {"a": {"b": 1}})


def model(functions: int, likelihood: str) -> Model:
    X, rank = RNG.normal(size=(N, D)), functions * N
    root = 0.1 * RNG.normal(size=(rank, functions, N))
    noise = 0.1 if likelihood == "gaussian" else 0.0
    alpha, weights = RNG.normal(size=(functions, N)), -np.ones(rank)
    return Model(X, "squared_exponential", 1.0, np.ones(D), alpha, root, weights, likelihood, noise)


def common() -> dict[str, Any]:
    return {
        "inputs": ("a", "b"),
        "target": "t",
        "guarantee": ("with probability 0.99, at most 83.5 % are wrong", "ends at -0.116"),
        "categories": {"side": ("l", "r")},
        "reading": {"decimal": ","},
    }


def ranges() -> dict[str, Any]:
    return {"input_mean": np.zeros(D), "input_scale": np.ones(D), "lowest": -np.ones(D), "highest": np.ones(D)}


def regression() -> SavedRegression:
    arrays = {
        "y": RNG.normal(size=N),
        **ranges(),
        "target_mean": np.zeros(1),
        "target_scale": np.ones(1),
        "judged_X": RNG.normal(size=(5, D)),
        "judged_lengthscales": np.ones(D),
        "judged_alpha": RNG.normal(size=5),
        "judged_changes": RNG.normal(size=(5, 2)),
        "judged_errors": np.array([0.1, 0.2]),
        "judged_input_mean": np.zeros(D),
        "judged_input_scale": np.ones(D),
        "judged_target_mean": np.zeros(1),
        "judged_target_scale": np.ones(1),
        "judged_posterior": RNG.normal(size=3),
        "judged_places": np.arange(2),
        "judged_lost": np.zeros(2, dtype=bool),
    }
    own = {"coverage": 0.9, "judged_variance": 1.0, "radius": 0.5}
    return SavedRegression(model=model(1, "gaussian"), arrays=arrays, **common(), **own)  # type: ignore[arg-type]


def classifier(classes: int) -> SavedClassifier:
    functions, likelihood = (1, "probit") if classes == 2 else (classes, "softmax")
    y = np.where(np.arange(N) % 2, 1.0, -1.0) if classes == 2 else np.arange(N) % classes * 1.0
    labels = tuple(f"c{number}" for number in range(classes))
    own = {"labels": labels, "operator_bound": 1.0}
    return SavedClassifier(model=model(functions, likelihood), arrays={"y": y, **ranges()}, **common(), **own)  # type: ignore[arg-type]


MODELS: dict[str, Callable[[], Any]] = {
    "regression": regression,
    "two classes": lambda: classifier(2),
    "three classes": lambda: classifier(3),
}
Predict = Callable[[], tuple[int, str]]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where every value of a description is, nested ones included."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(found: Any, path: tuple[Any, ...], other: Any) -> Any:
    """Return a description with another value at a place, or without the place if the value is `...`."""
    found = copy.deepcopy(found)
    inner = found
    for key in path[:-1]:
        inner = inner[key]
    if other is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = other
    return found


def small_changes(value: Any) -> tuple[Any, ...]:
    """Return values that look like one that a run wrote."""
    if isinstance(value, str):
        return (value.replace("83.5", "84.5").replace("-0.116", "-0.273") + " ", value.upper() + "x", f"{value}\x1b[2J")
    if isinstance(value, float):
        return (np.nextafter(value, 9.0), 1.01 * value + 0.01, -value - 1.0, int(value) + 1)
    return ([*value[::-1], 1], [*value, "x"]) if isinstance(value, list) else ()


def descriptions(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield damaged descriptions, none equal to the given one: every value deleted, replaced, and changed a little."""
    for path in places(found):
        value = found
        for key in path:
            value = value[key]
        for other in (..., *OTHERS, *small_changes(value)):
            if other is ... or json.dumps(other) != json.dumps(value):
                yield changed(found, path, other)
    yield {**found, "extra": 1}


def arrays_damaged(arrays: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield damaged arrays: each left out, cut, of another type, with a value changed or not finite, and one more."""
    for name, array in arrays.items():
        other = {key: each for key, each in arrays.items() if key != name}
        yield other
        flipped = array.copy()
        flipped.flat[0] = not flipped.flat[0] if array.dtype == bool else flipped.flat[0] + 1
        nines, narrow = np.full_like(array, 9), array.astype(np.float32)
        for damaged in (flipped, nines, narrow, array[:-1], array[None], np.array(["a"])):
            if damaged.dtype != array.dtype or not np.array_equal(damaged, array):
                yield {**other, name: damaged}
        if array.dtype == np.float64:
            for value in (np.nan, np.inf):
                yield {**other, name: np.where(np.arange(array.size).reshape(array.shape) == 0, value, array)}
    yield {**arrays, "extra": np.zeros(1)}


@pytest.fixture(params=list(MODELS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    write_model(MODELS[request.param](), tmp_path / "run/model")
    (tmp_path / "new.csv").write_text("a,b\n1,2\n0,0\n", encoding="utf-8")
    return tmp_path / "run"


@pytest.fixture
def predict(run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Predict:
    def asked() -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["gpsuite", "predict", str(run), str(run.parent / "new.csv")])
        code = cli.main()
        return code, capsys.readouterr().err

    return asked


def written(run: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    with np.load(run / "model/model.npz") as file:
        return json.loads((run / "model/model.json").read_text(encoding="utf-8")), dict(file)


def put(run: Path, description: Any, arrays: dict[str, Any] | None = None) -> None:
    (run / "model/model.json").write_text(json.dumps(description), encoding="utf-8")
    if arrays is not None:
        np.savez(run / "model/model.npz", **arrays)


def is_refused(predict: Predict) -> bool:
    code, said = predict()
    return code == 2 and said.startswith("gpsuite: ") and said.count("\n") == 1 and "\x1b" not in said


def test_what_was_written_predicts(predict: Predict) -> None:
    code, said = predict()
    assert code == 0 and "at most 83.5 %" in said


def test_no_change_of_the_description_is_accepted(run: Path, predict: Predict) -> None:
    damaged = list(descriptions(written(run)[0]))
    assert len(damaged) > 300
    for each in damaged:
        put(run, each)
        assert is_refused(predict), each


def test_no_change_of_the_arrays_is_accepted(run: Path, predict: Predict) -> None:
    found, arrays = written(run)
    damaged = list(arrays_damaged(arrays))
    assert len(damaged) > 60
    for each in damaged:
        put(run, found, each)
        assert is_refused(predict), {name: array.shape for name, array in each.items()}


def test_flipped_and_cut_bytes_are_refused(run: Path, predict: Predict) -> None:
    arrays = written(run)[1]
    for name in ("model.json", "model.npz"):
        path = run / "model" / name
        content = path.read_bytes().rstrip(b"\n")
        for place in np.linspace(0, len(content) - 1, 40).astype(int).tolist():
            path.write_bytes(content[:place])
            assert is_refused(predict), (name, place)
            path.write_bytes(content[:place] + bytes([content[place] ^ 0x10]) + content[place + 1 :])
            if not is_refused(predict):  # a byte of the zip that says nothing of the arrays, such as a date
                found = written(run)[1]
                assert name == "model.npz" and found.keys() == arrays.keys(), (name, place)
                assert all(np.array_equal(found[key], array) for key, array in arrays.items()), (name, place)
        path.write_bytes(content)


def test_a_change_with_its_checksum_made_again_is_a_model_or_is_refused(run: Path, predict: Predict) -> None:
    found, arrays = written(run)
    pairs = [(each, arrays) for each in descriptions(found)] + [(found, each) for each in arrays_damaged(arrays)]
    refused = 0
    for description, other in pairs:
        if isinstance(description.get("checksum"), str):
            description = {**description, "checksum": checksum(description, other)}
        put(run, description, other)
        code, said = predict()
        assert code in (0, 2) and "Traceback" not in said and "\x1b" not in said, description
        refused += code == 2
    assert refused > 0.6 * len(pairs)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": "gpsuite-guarantee-model", "version": 2}', "model of version 2, this gpsuite reads"),
        ('{"format": "gpsuite-certificate", "version": 3}', "model of version 3, this gpsuite reads"),
        ('{"format": "gpsuite-certificate", "version": 4, "kind": "regression"}', "not a model that a run"),
        ('{"format": "gpsuite-certificate", "version": 4, "kind": ["saved_regression"]}', "not a model that a run"),
        ('{"format": "another"}', "not a model"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not a JSON object"),
        ('{"format": 1, "format": 2}', "not JSON"),
        ("", "not JSON"),
    ],
)
def test_what_is_no_description_is_refused(run: Path, predict: Predict, text: str, said: str) -> None:
    (run / "model/model.json").write_text(text, encoding="utf-8")
    assert is_refused(predict)
    with pytest.raises(gpsuite.errors.UserError, match=said):
        gpsuite.load(run)


def test_an_old_model_is_shown_the_command_that_makes_it_again(run: Path, predict: Predict) -> None:
    (run / "model/model.json").write_text('{"format": "gpsuite-guarantee-model", "version": 2}', encoding="utf-8")
    assert "gpsuite run experiment=guarantee" in predict()[1]
    with pytest.raises(gpsuite.errors.UserError, match="gpsuite run experiment=guarantee"):
        unpacked({"model_description": np.array("{}")})


def test_arrays_of_another_run_are_refused(run: Path, predict: Predict) -> None:
    found: SavedModel = gpsuite.load(run)
    other = replace(found, model=replace(found.model, alpha=2.0 * found.model.alpha))
    write_model(other, run / "other")  # type: ignore[arg-type]
    (run / "model/model.npz").write_bytes((run / "other/model.npz").read_bytes())
    assert is_refused(predict)


def test_a_folder_without_a_model_is_shown_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(gpsuite.errors.UserError, match="no model of a run\ngive the folder"):
        gpsuite.load(tmp_path)
