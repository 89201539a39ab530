"""pac_bayes/regression and wasserstein/regression, and what verify says, where rows are few or copies of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.commands.conftest import Gpsuite

PAC = ("run", "experiment=pac_bayes/regression", "scale=smoke", "method=kl_pac_gp", "max_evaluations=3", "run_name=r")
FOLDER = "results/pac_bayes/regression/smoke~r"
CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=y")


def write_copies(different: int, times: int) -> None:
    table = pd.DataFrame(np.random.default_rng(5).normal(size=(different, 3)), columns=["a", "b", "y"])
    pd.concat([table] * times).to_csv("t.csv", index=False)


def test_a_certificate_is_confirmed_though_the_settings_do_not_name_the_target(gpsuite: Gpsuite) -> None:
    """Its content hash says which values it has."""
    assert gpsuite(*PAC, "repetitions=1").code == 0
    certificate = f"{FOLDER}/certificates/kl_pac_gp_split_0.npz"
    confirmed = gpsuite("verify", certificate, "dataset=diabetes")
    assert confirmed.code == 0 and "confirmed" in confirmed.out
    unnamed = gpsuite("verify", certificate)
    assert unnamed.code == 2 and unnamed.err.endswith("add dataset=diabetes\n")


def test_another_target_of_a_table_is_refused(gpsuite: Gpsuite) -> None:
    write_copies(40, 1)
    assert gpsuite(*PAC, "repetitions=1", *CSV).code == 0
    certificate = f"{FOLDER}/certificates/kl_pac_gp_split_0.npz"
    assert gpsuite("verify", certificate, "dataset.path=t.csv", "dataset.target=y").code == 0
    assert gpsuite("verify", certificate, "dataset.path=t.csv", "dataset.target=a").code != 0
    assert "dataset.path=FILE.csv dataset.target=y" in gpsuite("verify", certificate).err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((*PAC, "repetitions=2"), 0),  # the first split can be used
        (("run", "experiment=pac_bayes/rounding", "scale=smoke", "max_evaluations=3", "seed=1"), 0),
        (("run", "experiment=wasserstein/regression", "scale=smoke", "methods=[exact_gp]", "used_folds=2"), 3),
    ],
)
def test_a_split_of_copies_alone_is_infeasible(gpsuite: Gpsuite, words: tuple[str, ...], code: int) -> None:
    write_copies(5, 20)
    ended = gpsuite(*words, *CSV)
    said = ended.out + ended.err
    assert "traceback" not in said and "Error" not in said
    assert "add different rows" in said
    assert ended.code == code


def test_what_copies_count_for_is_said(gpsuite: Gpsuite) -> None:
    write_copies(30, 4)
    ended = gpsuite(*PAC, "repetitions=1", "accuracy=5.1234549", *CSV)
    assert "trained on the 96 rows of split 0" in ended.out
    shown = float(ended.out.split("off by more than ")[1].split(" (")[0])
    assert 5.1234549 <= shown < 5.1235
    assert "A test row that training has seen counts as an error" in Path(FOLDER, "tables/regression.md").read_text()
    write_copies(120, 1)
    assert gpsuite(*PAC[:-1], "run_name=s", "repetitions=1", *CSV).code == 0
    assert "counts as an error" not in Path(FOLDER[:-1] + "s", "tables/regression.md").read_text()


def test_a_caption_names_the_file(gpsuite: Gpsuite) -> None:
    write_copies(40, 1)
    words = ("experiment=wasserstein/regression", "scale=smoke", "methods=[exact_gp]", "used_folds=2", "run_name=c")
    assert gpsuite("run", *words, *CSV).code == 0
    assert Path("results/wasserstein/regression/smoke~c/tables/regression.md").read_text().startswith("t.csv:")


@pytest.mark.parametrize("experiment", ["rounding", "inducing_pol"])
def test_a_study_of_the_paper_runs_on_a_table_of_ones_own(gpsuite: Gpsuite, experiment: str) -> None:
    write_copies(60, 1)
    small = () if experiment == "rounding" else ("inducing=[4]", "other_kernel=[]", "other_kernel_inducing=[]")
    words = (f"experiment=pac_bayes/{experiment}", "scale=smoke", "repetitions=1", "max_evaluations=3")
    ended = gpsuite("run", *words, *small, *CSV)
    assert ended.code == 0, ended.err
    [folder] = Path("results/pac_bayes", experiment).iterdir()
    assert (folder / "comparison.csv").is_file()


@pytest.mark.parametrize("method", ["gpr", "sgpr"])
def test_a_table_without_noise_has_proved_ranges(gpsuite: Gpsuite, method: str) -> None:
    """Training ends at the lowest noise variance that a model takes."""
    u, v = np.random.default_rng(0).random((2, 70))
    pd.DataFrame({"u": u, "v": v, "y": np.sin(3.0 * u) + v}).to_csv("t.csv", index=False)
    words = ("scale=smoke", f"methods=[{method}]", "count=1", "evaluations=200", "run_name=n", *CSV)
    ended = gpsuite("run", "experiment=robustness/regression", *words)
    assert ended.code == 0, ended.err
    assert "Proved: inputs that are off" in ended.out


def test_a_table_of_another_kind_is_reported_without_a_command_that_cannot_work(gpsuite: Gpsuite) -> None:
    assert gpsuite(*PAC, "repetitions=1").code == 0
    pd.DataFrame({"a": range(10), "site": list("xy") * 5}).to_csv("t.csv", index=False)
    certificate = f"{FOLDER}/certificates/kl_pac_gp_split_0.npz"
    ended = gpsuite("verify", certificate, "dataset.path=t.csv", "dataset.target=site")
    assert ended.code == 2
    assert ended.err.splitlines()[-1] == "the certificate is about a regression: give its dataset"
    assert "site" in ended.err and "robustness" not in ended.err
