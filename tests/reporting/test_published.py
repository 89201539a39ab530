from __future__ import annotations

import csv
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from gpsuite.reporting.published import SOURCES, Criterion, Kind, Published, read_published

CONF = Path(__file__).parents[2] / "conf"
REFERENCE = Path(os.environ.get("GPSUITE_REFERENCE_DIR") or Path(__file__).parents[1] / "reference")

NAMES = {
    "pac_bayes": "predictive_snelson epsilon_boston inducing_pol inducing_kin40k inducing_sarcos loss_exp "
    "kl_inverse rounding overfit_fitc coverage regression",
    "robustness": "bounds_1d safety_synthetic2d safety_spam safety_mnist38 distribution_synthetic2d "
    "distribution_spam distribution_mnist38 posterior_quality runtime_mnist38 explain_mnist358 "
    "explain_synthetic2d explain_spam safety explain",
    "perturbation": "lssvm_model_space lssvm_parameter_space klasso_band krr_region svr_region coverage "
    "band_comparison region",
    "active_learning": "toy gp_samples engine observation_ablation convolution convergence plan",
    "wasserstein": "digits mnist fashion_mnist regression toy_bands",
}
EXPERIMENTS = {f"{family}/{name}" for family, names in NAMES.items() for name in names.split()}

ENTRY: dict[str, Any] = {
    "id": "X1",
    "where": "Table 1",
    "experiment": "family/name",
    "dataset": "toy",
    "method": "m",
    "quantity": "risk",
    "published": "0.5",
    "unit": "risk",
    "source": "paper",
    "statistic": "risk[method=m,epsilon=0.2]",
    "test": {"kind": "equality", "value": 0.5, "tolerance": 0.1},
}


def write(folder: Path, *entries: Any, paper: str = "p1") -> Path:
    (folder / "paper").mkdir(exist_ok=True)
    text = yaml.safe_dump({"paper": paper, "entries": list(entries)})
    (folder / "paper" / f"{paper}.yaml").write_text(text)
    return folder


def test_shipped_entries_are_valid_with_unique_ids() -> None:
    entries = read_published(CONF)
    assert len(entries) > 60
    assert len({entry.id for entry in entries}) == len(entries)
    assert {entry.source for entry in entries} <= set(SOURCES)
    statistics = [(entry.experiment, entry.statistic, entry.test.of) for entry in entries]
    assert len(set(statistics)) == len(statistics)


def reference_rows(name: str) -> list[dict[str, str]]:
    path = REFERENCE / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@cache
def entries_by_row() -> dict[str, list[Published]]:
    found: dict[str, list[Published]] = {}
    for entry in read_published(CONF):
        found.setdefault(entry.id.rstrip("abcde"), []).append(entry)
    return found


def answered(row: dict[str, str]) -> list[Published]:
    """Return the entries of a row's id, or of its parts a, b, c."""
    return entries_by_row().get(row["id"], [])


def test_every_published_number_has_an_entry_of_its_paper() -> None:
    rows = [row for row in reference_rows("published.csv") if not row["quantity"].startswith("setting:")]
    assert len(rows) > 100
    for row in rows:
        entries = answered(row)
        assert entries, row["id"]
        for entry in entries:
            assert (entry.paper, entry.source) == (row["paper"], "paper"), entry.id
            # claims of one row may be printed in several places
            assert entry.where.split(",")[0] == row["where"].split(",")[0], entry.id


def test_every_finding_has_an_entry_of_its_paper() -> None:
    rows = reference_rows("findings.csv")
    assert len(rows) > 100
    for row in rows:
        entries = answered(row)
        assert entries, row["id"]
        assert {entry.paper for entry in entries} == {row["paper"]}, row["id"]
        assert all(entry.condition for entry in entries), f"{row['id']}: the decision rule is missing"


def test_equality_tests_ask_for_the_printed_number_within_its_standard_errors() -> None:
    by_id = {entry.id: entry for entry in read_published(CONF)}
    compared = 0
    for row in reference_rows("published.csv"):
        entry = by_id.get(row["id"])
        if entry is None or entry.test.kind != "equality" or not row["standard_error"]:
            continue
        assert entry.test.value == float(row["value"]), row["id"]
        assert entry.standard_error == float(row["standard_error"]), row["id"]
        suggested = re.match(r"\+-([\d.]+)", row["tolerance_suggestion"])
        assert suggested is not None and entry.test.tolerance == float(suggested.group(1).rstrip(".")), row[
            "id"
        ]
        compared += 1
    assert compared > 50


def test_every_entry_names_an_experiment_and_a_test_that_are_known() -> None:
    for entry in read_published(CONF):
        assert entry.experiment in EXPERIMENTS, entry.id
        assert entry.test.kind in get_args(Kind), entry.id
        assert re.fullmatch(r"[a-z]\w*(\[.+\])?", entry.statistic), entry.id


@pytest.mark.parametrize(
    ("test", "text"),
    [
        (Criterion("equality", value=0.5, tolerance=0.1), "0.5 ± 0.1"),
        (Criterion("equality", value=506.0), "506 exactly"),
        (Criterion("at_least", value=2.7), "at least 2.7"),
        (Criterion("at_most", value=0.0, tolerance=0.01), "at most 0 ± 0.01"),
        (Criterion("between", low=2.5, high=10.0), "2.5 to 10"),
        (Criterion("all_of", partly=0.6), "in all cells"),
        (Criterion("at_least", value=2.7, of="low"), "low end at least 2.7"),
        (Criterion("context"), "no test"),
    ],
)
def test_criterion_says_what_is_asked(test: Criterion, text: str) -> None:
    assert str(test) == text


def test_shipped_claims_of_epsilon_boston_are_all_there() -> None:
    entries = read_published(CONF, "pac_bayes/epsilon_boston")
    ids = {re.sub(r"[ab]$", "", entry.id) for entry in entries}
    assert ids >= {"R005", "R020", "RF36", "RF37", *(f"RF{number:02d}" for number in range(4, 12))}


def test_shipped_means_are_named_and_toleranced_as_the_header_says() -> None:
    measured = [entry for entry in read_published(CONF) if entry.source != "paper"]
    assert measured
    for entry in measured:
        assert re.fullmatch(
            r"(bound_kl|gibbs_risk_train|gibbs_risk_test|mse_test|kl_over_n|noise_variance)"
            r"\[method=(kl_pac_gp|sqrt_pac_gp|full_gp),epsilon=(0\.2|0\.6|1\.0)\]",
            entry.statistic,
        )
        assert f"method={entry.method}," in entry.statistic
        assert entry.condition.replace("eps = ", "epsilon=") in entry.statistic
        assert entry.standard_error is not None and entry.test.value is not None
        assert entry.test.tolerance == pytest.approx(3 * 2**0.5 * entry.standard_error, rel=1e-3)
        mean, error = (float(part) for part in entry.published.split(" ± "))
        assert mean == pytest.approx(entry.test.value, abs=0.5 * entry.standard_error)
        assert error == pytest.approx(entry.standard_error, rel=0.06)


def test_experiment_selects(tmp_path: Path) -> None:
    write(tmp_path, ENTRY, {**ENTRY, "id": "X2", "experiment": "other/name"})
    assert [entry.id for entry in read_published(tmp_path, "other/name")] == ["X2"]
    assert [entry.paper for entry in read_published(tmp_path)] == ["p1", "p1"]


def test_no_papers_is_no_error(tmp_path: Path) -> None:
    assert read_published(tmp_path) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": "red"}, "unknown key colour"),
        (
            {"test": {"kind": "at_least", "value": 1, "of": "middle"}},
            "of=middle: must be one of value, low, high",
        ),
        ({"test": {"kind": "all_of", "partly": 0.5, "of": "low"}}, "unknown key of"),
        ({"published": 0.5}, "published must be a text"),
        ({"unit": " "}, "unit must be a text"),
        ({"condition": 3}, "condition must be a text"),
        ({"source": "hearsay"}, "source=hearsay"),
        ({"statistic": "Risk [x]"}, "statistic=Risk"),
        ({"statistic": "risk[method=]"}, "statistic=risk"),
        ({"standard_error": -1.0}, "standard_error must not be negative"),
        ({"standard_error": "1e-3"}, "standard_error must be a finite number"),
        ({"test": None}, "test needs a kind"),
        ({"test": {"kind": "nearly"}}, "test needs a kind"),
        ({"test": {"kind": "equality", "value": 1.0}}, "needs tolerance"),
        ({"test": {"kind": "equality", "value": True, "tolerance": 0.1}}, "value must be a finite number"),
        ({"test": {"kind": "equality", "value": float("nan"), "tolerance": 0.1}}, "value must be a finite"),
        ({"test": {"kind": "equality", "value": 1.0, "tolerance": -0.1}}, "tolerance must not be negative"),
        (
            {"test": {"kind": "equality", "value": 1, "tolerance": 1, "partly": 0.5}},
            "partly must not be smaller",
        ),
        ({"test": {"kind": "between", "low": 2.0, "high": 1.0}}, "low must not exceed high"),
        ({"test": {"kind": "between", "low": 2.0}}, "needs high"),
        ({"test": {"kind": "all_of", "partly": 1.0}}, "partly must be a share"),
        ({"test": {"kind": "all_of", "partly": 0.5, "value": 1}}, "unknown key value"),
        ({"test": {"kind": "context", "tolerance": 0.1}}, "unknown key tolerance"),
    ],
)
def test_malformed_entry_is_named(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    write(tmp_path, {**ENTRY, **change})
    with pytest.raises(ValueError, match=rf"p1\.yaml: entry X1: .*{re.escape(message)}"):
        read_published(tmp_path)


def test_missing_key_and_entry_that_is_no_mapping(tmp_path: Path) -> None:
    write(tmp_path, {key: value for key, value in ENTRY.items() if key != "where"})
    with pytest.raises(ValueError, match="entry X1: where must be"):
        read_published(tmp_path)
    write(tmp_path, "just text")
    with pytest.raises(ValueError, match="entry number 1: must be a mapping"):
        read_published(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "not valid YAML"),
        ("- 1", "needs a key 'paper'"),
        ("paper: p2", "'p1'"),
        ("paper: p1", "'entries'"),
    ],
)
def test_malformed_file_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "p1.yaml").write_text(text)
    with pytest.raises(ValueError, match=rf"p1\.yaml: .*{message}"):
        read_published(tmp_path)


def test_same_id_in_two_papers_is_refused(tmp_path: Path) -> None:
    write(tmp_path, ENTRY)
    write(tmp_path, ENTRY, paper="p2")
    with pytest.raises(ValueError, match=r"p2\.yaml: id X1 is used twice"):
        read_published(tmp_path)
