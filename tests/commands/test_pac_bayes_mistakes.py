"""The family's own mistakes end with exit code 2 and say what to do; odd but sound data give sound results."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pytest

from gpsuite.methods.pac_bayes import cost
from tests.commands.conftest import Gpsuite
from tests.commands.test_user_mistakes import refused

REGRESSION = ("run", "experiment=pac_bayes/regression", "scale=smoke")
CSV = (*REGRESSION, "dataset=csv", "dataset.path=table.csv", "dataset.target=y")
BOSTON = ("run", "experiment=pac_bayes/epsilon_boston", "scale=smoke")
KIN = ("run", "experiment=pac_bayes/inducing_kin40k", "scale=smoke")
COVERAGE = ("run", "experiment=pac_bayes/coverage", "scale=smoke")

WORDS = [
    (("epsilon=0",), REGRESSION, ["epsilon=0", "above 0"]),
    (("epsilon=inf",), REGRESSION, ["epsilon=inf", "above 0"]),
    (("epsilon=nan",), REGRESSION, ["epsilon=nan", "above 0"]),
    (("accuracy=-2",), REGRESSION, ["accuracy=-2", "above 0"]),
    (("accuracy=nan",), REGRESSION, ["accuracy=nan", "above 0"]),
    *[
        ((f"delta={value}",), REGRESSION, ["delta=", "between 0 and 1"])
        for value in ("0", "1", "-0.1", "1.5", "nan", "1e-400")
    ],
    (("max_evaluations=0",), REGRESSION, ["max_evaluations=0", "1 or more"]),
    (("method=kl_pac_sgp", "method.inducing=0"), REGRESSION, ["method.inducing=0", "1 or more"]),
    (("method=vfe", "method.inducing=400"), REGRESSION, ["method.inducing=400", "at most the 353 training rows"]),
    (("method=kl_pac_gp", "method.starts=0"), REGRESSION, ["method.starts=0", "1 or more"]),
    (("method=kl_pac_gp", "method.inducing=5"), REGRESSION, ["method.inducing"]),
    (("epsilons=[0.2,0]",), BOSTON, ["epsilons=0", "above 0"]),
    (("epsilons=[nan]",), BOSTON, ["epsilons=nan", "above 0"]),
    (("epsilons=[]",), BOSTON, ["epsilons=[]", "at least one"]),
    (("method=vfe",), BOSTON, ["method=vfe", "valid:", "full_gp"]),
    (("epsilon=-1",), KIN, ["epsilon=-1", "above 0"]),
    (("inducing=[0,5]",), KIN, ["inducing=0", "1 or more"]),
    (("inducing=[]",), KIN, ["inducing=[]", "at least one"]),
    (("inducing=[5,100000]",), KIN, ["inducing=100000", "at most", "training rows of kin40k"]),
    (("methods=[kl_pac_sgp,full_gp]",), KIN, ["method=full_gp", "valid:", "kl_pac_sgp"]),
    (("methods=[vfe,kl_pac_gp]", "other_kernel=[]"), KIN, ["method=kl_pac_gp", "valid:", "fitc"]),
    (("other_kernel=[kl_pac_spg]",), KIN, ["other_kernel=kl_pac_spg", "valid: other_kernel=[]", "kl_pac_sgp"]),
    (("methods=[vfe]",), KIN, ["other_kernel=kl_pac_sgp", "not a method of this run", "other_kernel=[]", "vfe"]),
    (("epsilon=nan",), COVERAGE, ["epsilon=nan", "above 0"]),
    (("deltas=[0.1,0]",), COVERAGE, ["deltas", "between 0 and 1"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "run", "parts"), WORDS, ids=[f"{run[1].split('/')[1]} {' '.join(words)}" for words, run, _ in WORDS]
)  # fmt: skip
def test_a_wrong_word(
    gpsuite: Gpsuite, workplace: Path, words: tuple[str, ...], run: tuple[str, ...], parts: list[str]
) -> None:
    refused(gpsuite, workplace, (*run, *words), parts)


def write(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    lines = ["a,b,y", *(",".join(str(cell) for cell in row) for row in rows)]
    (folder / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


FILES = {
    "constant target": (
        [(i, i % 5, 2) for i in range(40)],
        ["dataset.target=y", "'y' is constant", "varies"],
    ),
    "not a number": ([(i, i % 5, "3x" if i == 3 else i) for i in range(40)], ["line 5", "y"]),
    "infinite input": ([(i, "-inf" if i == 3 else i % 5, i) for i in range(40)], ["line 5", "b"]),
    "overflow": ([(i, i % 5, f"{i}e300") for i in range(40)], ["column 'y'", "variance", "unit"]),
    "underflow": ([(f"{i}e-300", i % 5, i) for i in range(40)], ["column 'a'", "variance", "unit"]),
}


@pytest.mark.parametrize("name", FILES)
def test_a_table_that_cannot_be_fitted(gpsuite: Gpsuite, workplace: Path, name: str) -> None:
    rows, parts = FILES[name]
    write(workplace, rows)  # type: ignore[arg-type]
    refused(gpsuite, workplace, CSV, parts)


def test_fewer_training_rows_than_the_theorem_asks_for(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, [(i, i % 3, i * i % 7) for i in range(10)])
    told = ["test_share=0.3", "leaves 7 training rows of 10", "need 8 or more"]
    refused(gpsuite, workplace, (*CSV, "test_share=0.3"), told)
    ended = gpsuite(*CSV, "test_share=0.2", "method=kl_pac_gp")
    assert ended.code == 0, ended.err
    assert {row["n_train"] for row in records(workplace)} == {"8"}


def records(folder: Path) -> list[dict[str, str]]:
    [path] = (folder / "results").glob("pac_bayes/regression/*/records.csv")
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("method", ["kl_pac_gp", "kl_pac_sgp", "vfe", "fitc"])
def test_duplicate_rows_work(gpsuite: Gpsuite, workplace: Path, method: str) -> None:
    """Ten different rows, each several times, some with another target; M exceeds the number of different rows."""
    write(workplace, [(i % 10, (i * 7) % 10, (i % 10) * 0.5 + (i > 50)) for i in range(60)])
    sparse = () if method == "kl_pac_gp" else ("method.inducing=20",)
    ended = gpsuite(*CSV, f"method={method}", *sparse)
    assert ended.code == 0, ended.err
    for row in records(workplace):
        assert row["status"] in ("done", "budget")
        assert 0.0 < float(row["gibbs_risk_train"]) < float(row["bound_kl"]) < 1.0
        assert all(
            math.isfinite(float(row[name])) for name in ("kl", "mse_test", "nll_test", "noise_variance")
        )


def test_a_vacuous_bound_says_so(gpsuite: Gpsuite, workplace: Path) -> None:
    write(workplace, [(i, (i * 17) % 13, (i * 29) % 31) for i in range(31)])
    ended = gpsuite(*CSV, "method=kl_pac_gp", "epsilon=0.001", "max_evaluations=200")
    assert ended.code == 0, ended.err
    assert "vacuous" in ended.err
    for row in records(workplace):
        assert row["status"] == "done"
        assert row["reason"].startswith("the bound is vacuous: ")
        assert 0.99 <= float(row["bound_kl"]) <= 1.0


def test_equal_training_targets_leave_epsilon_without_a_unit(gpsuite: Gpsuite, workplace: Path) -> None:
    """One row differs: where it is a test row, training rows have no standard deviation."""
    write(workplace, [(i, i % 5, 3 if i == 17 else 2) for i in range(40)])
    words = (*CSV, "method=kl_pac_gp", "repetitions=12")
    ended = gpsuite(*words)
    assert ended.code == 0, ended.err
    found = {row["status"]: row["reason"] for row in records(workplace)}
    assert found.keys() <= {"infeasible", "done", "budget"}
    assert len(found) > 1
    assert "scaling=all" in found["infeasible"]
    assert "infeasible" in ended.err
    for fix in ("scaling=all", "accuracy=0.4"):
        ended = gpsuite(*words, fix, f"results_dir={fix[:3]}")
        assert ended.code == 0, ended.err
        assert "infeasible" not in ended.err


def test_a_budget_too_short_for_all_is_told_and_is_no_success(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "flops_per_second", lambda: 1e5)
    ended = gpsuite(
        "run", "experiment=pac_bayes/regression", "scale=smoke", "budget.seconds=9", "parallel=serial"
    )
    assert ended.code == 3
    assert "budget.seconds=9 is too short" in ended.out
