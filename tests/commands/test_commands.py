"""What the commands print, on a small finished run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpsuite.commands import COMMANDS, run
from gpsuite.commands.tables import show_table
from gpsuite.engine.folder import locked
from gpsuite.errors import UserError
from tests.commands.conftest import Gpsuite

SMOKE = ("run", "experiment=pac_bayes/regression", "scale=smoke", "method=kl_pac_gp")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(gpsuite: Gpsuite, command: str) -> None:
    ended = gpsuite(command, "--help")
    assert ended.code == 0
    assert f"gpsuite {command}" in ended.out


def test_lists_are_complete_and_tab_separated(gpsuite: Gpsuite) -> None:
    ended = gpsuite("list")
    assert ended.code == 0
    for name in ("pac_bayes/epsilon_boston", "diabetes", "kl_pac_gp"):
        assert any(line.split("\t")[0] == name for line in ended.out.splitlines())


def test_a_run_prints_its_paths_and_status_counts_its_tasks(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite(*SMOKE)
    assert ended.code == 0
    lines = ended.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("results/"))
    answer, paths = lines[:start], lines[start:]
    assert answer and all(line.endswith((".", ".)")) for line in answer)
    assert (workplace / paths[0] / "run.json").exists()
    assert all((workplace / line.strip()).exists() for line in paths)
    rows = [line.split("\t") for line in gpsuite("status").out.splitlines()]
    status = dict(zip(rows[0], rows[1], strict=True))
    assert (status["experiment"], status["tasks"], status["missing"]) == ("pac_bayes/regression", "2", "0")
    assert status["tables"] == "complete"


def test_a_run_whose_tasks_failed_is_not_called_complete(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    gpsuite(*SMOKE)
    monkeypatch.setattr("gpsuite.commands.status._state", lambda *_: "error")
    rows = [line.split("\t") for line in gpsuite("status").out.splitlines()]
    status = dict(zip(rows[0], rows[1], strict=True))
    assert (status["tasks"], status["error"], status["tables"]) == ("2", "2", "failed: run again")


def test_status_sees_what_is_missing(gpsuite: Gpsuite, workplace: Path) -> None:
    gpsuite(*SMOKE)
    next((workplace / "results/.records/pac_bayes").glob("*.json")).unlink()
    rows = [line.split("\t") for line in gpsuite("status", "pac_bayes").out.splitlines()]
    status = dict(zip(rows[0], rows[1], strict=True))
    assert (status["missing"], int(status["done"]) + int(status["budget"])) == ("1", 1)


def test_four_kinds_of_variation_never_meet(gpsuite: Gpsuite, workplace: Path) -> None:
    for name, shift in (("a.csv", 0), ("b.csv", 1)):
        rows = "\n".join(f"{i},{i * 0.5 + (i * 7) % 11 + shift}" for i in range(40))
        (workplace / name).write_text(f"x,y\n{rows}\n", encoding="utf-8")
    csv = ("dataset=csv", "dataset.target=y")
    for words in (
        (*csv, "dataset.path=a.csv"),
        (*csv, "dataset.path=b.csv"),
        ("dataset=boston",),
        ("dataset=diabetes",),
        ("method=sqrt_pac_gp",),
        ("seed=1",),
        ("seed=2",),
    ):
        method = () if words[0].startswith("method") else ("method=kl_pac_gp",)
        assert gpsuite(*SMOKE[:3], *method, *words).code == 0
    folders = [path for path in (workplace / "results/pac_bayes/regression").iterdir() if path.is_dir()]
    assert len(folders) == 7
    assert all((folder / "run.json").exists() for folder in folders)


def test_a_multirun_runs_every_combination(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite("run", "-m", *SMOKE[1:], "seed=0,1", "epsilon=0.5,0.7")
    assert ended.code == 0
    assert len(list((workplace / "results/pac_bayes/regression").iterdir())) == 4


def test_a_multirun_with_a_mistake_runs_nothing(gpsuite: Gpsuite, workplace: Path) -> None:
    assert gpsuite("run", "-m", *SMOKE[1:], "epsilon=0.5,-1").code == 2
    assert not (workplace / "results").exists()


def test_a_run_of_a_multirun_that_cannot_start_does_not_stop_the_others(gpsuite: Gpsuite, workplace: Path) -> None:
    gpsuite("run", "-m", *SMOKE[1:], "seed=0,1")
    held, free = sorted((workplace / "results/pac_bayes/regression").iterdir())
    (free / "run.json").unlink()
    with locked(held, wait=False):
        ended = gpsuite("run", "-m", *SMOKE[1:], "seed=0,1")
    assert ended.code == 2
    assert "another run" in ended.err
    assert (free / "run.json").exists()


@pytest.mark.parametrize(
    ("ends", "code"),
    [([3, 2], 2), ([2, 3], 2), ([1, 3], 1), ([3, 1], 1), ([2, 1], 1), ([0, 3], 3), ([3, 0], 3), ([0, 0], 0)],
)
def test_the_worst_end_of_several_runs_is_reported(monkeypatch: pytest.MonkeyPatch, ends: list[int], code: int) -> None:
    coming = iter(ends)

    def ended(*_: object) -> SimpleNamespace:
        exit_code = next(coming)
        if exit_code == 2:
            raise UserError("held")
        return SimpleNamespace(exit_code=exit_code, failures=[], answer=[])

    monkeypatch.setattr("gpsuite.engine.runner.run_experiment", ended)
    monkeypatch.setattr("gpsuite.commands.run._tell", lambda *_: None)
    assert run.main(["-m", *SMOKE[1:], "seed=0,1"]) == code


def test_a_stand_in_is_marked_everywhere(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite("run", "experiment=pac_bayes/epsilon_boston", "scale=smoke", "method=kl_pac_gp")
    assert ended.code == 0
    [folder] = (workplace / "results/pac_bayes/epsilon_boston").iterdir()
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert run["dataset"]["stand_in"] is True
    assert "stand-in data" in run["notes"][0]
    assert "stand-in" in (folder / "tables/epsilon_boston.md").read_text(encoding="utf-8")
    compared = gpsuite("compare", "pac_bayes/epsilon_boston").out.splitlines()[1:]
    assert {line.split("\t")[10] for line in compared} == {"not run"}
    assert all("stand-in data" in line for line in compared)


def test_the_tour_ends_with_the_page(gpsuite: Gpsuite, workplace: Path) -> None:
    ended = gpsuite("run", "experiment=tour", "scale=smoke", "stops=2")
    assert ended.code == 0
    assert ended.out.splitlines()[-1] == "results/report.html"
    assert "pac_bayes/regression" in (workplace / "results/report.html").read_text(encoding="utf-8")


def test_publish_leaves_rows_behind(gpsuite: Gpsuite, workplace: Path) -> None:
    gpsuite(*SMOKE)
    ended = gpsuite("publish", "pac_bayes/regression")
    assert ended.code == 0
    published = workplace / ended.out.strip()
    names = {path.name for path in published.rglob("*")}
    assert {"run.json", "config.yaml", "comparison.csv", "regression.csv", "regression.png"} <= names
    assert not names & {"records.csv", "artifacts"}


def test_doctor_finds_this_machine_in_order(gpsuite: Gpsuite) -> None:
    ended = gpsuite("doctor")
    assert ended.code == 0, ended.out
    assert "numpy\t1.26" in ended.out


def test_doctor_lists_the_datasets_of_a_state_in_one_line(gpsuite: Gpsuite) -> None:
    rows = [line.split("\t") for line in gpsuite("doctor").out.splitlines()]
    named = {what: (state, found.split(", "), fix) for state, what, found, fix in rows if "datasets" in what}
    assert set(named) == {"datasets: embedded", "datasets: missing", "datasets: user file"}
    state, found, fix = named["datasets: missing"]
    assert (state, {"boston", "pol"} <= set(found), "data fetch" in fix) == ("note", True, True)
    assert named["datasets: embedded"][0] == "ok" and "diabetes" in named["datasets: embedded"][1]


def test_doctor_says_what_to_fix(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "999")
    ended = gpsuite("doctor")
    assert ended.code == 1
    assert any(line.startswith("problem\tthreads") and "at most" in line for line in ended.out.splitlines())


def test_a_changed_file_is_not_fetched(gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workplace / "stock/boston").mkdir(parents=True)
    (workplace / "stock/boston/housing.data").write_bytes(b"0")
    monkeypatch.setenv("GPSUITE_DATA_PATH", str(workplace / "stock"))
    ended = gpsuite("data", "fetch", "boston", "diabetes")
    assert (ended.code, ended.out) == (2, "diabetes: embedded, nothing to fetch\n")
    assert "stock/boston/housing.data is not the expected file" in ended.err
    assert "expected sha256 baadf729" in ended.err and ", found 5feceb66" in ended.err
    monkeypatch.delenv("GPSUITE_DATA_PATH")
    assert gpsuite("data", "fetch", "boston").code == 2  # not to be had


def test_doctor_finds_a_data_path_that_is_no_folder(gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPSUITE_DATA_PATH", f"{Path.home()}:/nowhere")
    lines = gpsuite("doctor").out.splitlines()
    assert "problem\tGPSUITE_DATA_PATH\t/nowhere: no such folder\tcorrect or unset it" in lines
    monkeypatch.setenv("GPSUITE_DATA_PATH", str(Path.home()))
    assert f"ok\tGPSUITE_DATA_PATH\t{Path.home()}" in "\n".join(gpsuite("doctor").out.splitlines())


def test_the_tour_is_no_experiment_with_results(gpsuite: Gpsuite) -> None:
    for command in ("status", "compare", "publish", "recheck"):
        ended = gpsuite(command, "tour")
        assert (ended.code, ended.err) == (2, "gpsuite: tour: several runs. Name their experiments\n")
    assert gpsuite("status", "nothing").err.count("guarantee") == 1


def test_an_experiment_is_listed_with_its_figures(gpsuite: Gpsuite) -> None:
    lines = gpsuite("list", "pac_bayes/epsilon_boston").out.splitlines()
    start = lines.index("figure\tof\tshows")
    assert lines[start + 1].startswith("epsilon_boston") and "…" not in "".join(lines)


def test_data_verify_fails_for_missing_files_only_if_asked_for_them(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "diabetes" in gpsuite("data", "list").out
    assert gpsuite("data", "verify").code == 0  # missing is reported, not an error
    assert gpsuite("data", "verify", "boston").code == 2  # unless that one was asked for
    (workplace / "stock/boston").mkdir(parents=True)
    (workplace / "stock/boston/housing.data").write_bytes(b"0")
    monkeypatch.setenv("GPSUITE_DATA_PATH", str(workplace / "stock"))
    for names in (("boston",), ()):
        ended = gpsuite("data", "verify", *names)
        assert ended.code == 2
        assert "changed" in ended.out
    assert gpsuite("data", "fetch", "diabetes").out == "diabetes: embedded, nothing to fetch\n"


def test_doctor_finds_two_tensorflows_numpy_two_and_a_full_disk(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpsuite.commands import doctor

    real = doctor.importlib.metadata.distributions  # type: ignore[attr-defined]

    class Second:
        name = "tensorflow-cpu"

    monkeypatch.setattr(doctor.importlib.metadata, "distributions", lambda: [*real(), Second()])  # type: ignore[attr-defined]
    monkeypatch.setattr(doctor, "versions", lambda: {"python": "3.11.7", "numpy": "2.1.0", "gpflow": "not installed"})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1e6})())  # type: ignore[attr-defined]
    ended = gpsuite("doctor")
    assert ended.code == 1
    problems = {line.split("\t")[1]: line for line in ended.out.splitlines() if line.startswith("problem")}
    assert {"TensorFlow", "numpy", "gpflow", "results_dir"} <= set(problems)
    assert "uninstall tensorflow-cpu" in problems["TensorFlow"]
    assert "numpy<2" in problems["numpy"]
    assert "results_dir=DIR" in problems["results_dir"]


def test_bench_writes_the_fixed_columns_and_the_machine(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpsuite.bench import pac_bayes
    from gpsuite.bench.timing import BenchCase

    case = BenchCase("nothing", "nothing else", lambda: (lambda: sum(range(9)), lambda: sum(range(9))), 3.0)
    monkeypatch.setattr(pac_bayes, "cases", lambda: [case])
    ended = gpsuite("bench", "pac_bayes")
    assert ended.code == 0
    header = (workplace / "results/bench/bench.csv").read_text(encoding="utf-8").splitlines()[0]
    assert header == "family,case,seconds,reference,reference_seconds,ratio,goal"
    described = json.loads((workplace / "results/bench/machine.json").read_text(encoding="utf-8"))
    assert {"processor", "cores", "blas", "versions", "pairs"} <= set(described)
    assert described["pairs"] >= 7


def test_peers_that_are_not_installed_are_one_message(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpsuite.bench.peers.ROOT", tmp_path)
    ended = gpsuite("bench", "peers")
    assert ended.code == 2
    assert "make peers" in ended.err and len(ended.err.strip().splitlines()) <= 4


@pytest.mark.parametrize(("kernels", "avx512", "noted"), [("Haswell", True, True), ("SkylakeX", True, False)])
def test_doctor_points_out_slow_blas_kernels(
    gpsuite: Gpsuite, monkeypatch: pytest.MonkeyPatch, kernels: str, avx512: bool, noted: bool
) -> None:
    import threadpoolctl

    from gpsuite.commands import doctor

    monkeypatch.setattr(threadpoolctl, "threadpool_info", lambda: [{"user_api": "blas", "architecture": kernels}])
    monkeypatch.setattr(doctor, "has_avx512", lambda: avx512)
    [line] = [line for line in gpsuite("doctor").out.splitlines() if line.split("\t")[1] == "BLAS kernels"]
    assert ("OPENBLAS_CORETYPE=SkylakeX" in line) is noted
    assert line.startswith("note" if noted else "ok")


def test_a_family_means_its_experiments(gpsuite: Gpsuite, workplace: Path) -> None:
    names = [
        line.split("\t")[0] for line in gpsuite("list", "perturbation/").out.splitlines() if "perturbation/" in line
    ]
    assert len(names) == 8 and gpsuite("status", "perturbation/").code == 0
    assert gpsuite("list", "experiments", "methods").code == gpsuite("list", "boston", "kl_pac_gp").code == 0
    assert gpsuite("help", "status").out == gpsuite("status", "--help").out


ROWS = [{"name": "first", "what": "a few words", "n": 1}, {"name": "second", "what": "x" * 90, "n": None}]


def test_off_a_terminal_cells_are_whole_and_tab_separated(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("t", ROWS)  # type: ignore[arg-type]
    assert capsys.readouterr().out == f"name\twhat\tn\nfirst\ta few words\t1\nsecond\t{'x' * 90}\t\n"


@pytest.mark.parametrize(("columns", "drawn"), [("200", True), ("40", False)])
def test_on_a_terminal_a_table_is_drawn_where_it_fits(
    columns: str, drawn: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table("t", ROWS)  # type: ignore[arg-type]
    printed = capsys.readouterr().out
    assert (sum("a few words" in line and "first" in line for line in printed.splitlines()) == 1) is drawn
    assert "x" * 90 in printed
    assert "first" in printed


def test_a_table_without_rows_is_reported_as_none(capsys: pytest.CaptureFixture[str]) -> None:
    show_table("runs", [])
    assert capsys.readouterr().out == "runs: none\n"


def test_a_command_that_would_be_refused_is_not_recommended(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rare.csv").write_text("a,label\n" + "".join(f"{row},{'B' if row == 7 else 'A'}\n" for row in range(40)))
    shown = gpsuite("data", "describe", "rare.csv")
    assert shown.code == 0
    assert "- not for perturbation/region: scaling_share=" in shown.out
    assert "gpsuite run perturbation/region" not in shown.out
    assert "gpsuite run robustness/safety" in shown.out


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("dataset.target=bb", "no column 'bb'. Did you mean 'b'?"),
        ("dataset.ignore=[a, c]", "no column 'c'"),
        ("target=b", "target: unknown setting. Did you mean 'dataset.target'?"),
        ("output=json", "output: unknown setting"),
    ],
)
def test_a_setting_of_no_effect_is_refused(
    gpsuite: Gpsuite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text("a,b\n" + "".join(f"{row},{row % 7}.5\n" for row in range(40)))
    ended = gpsuite("data", "describe", "table.csv", word)
    assert ended.code == 2 and said in ended.err and "Traceback" not in ended.err
    assert gpsuite("data", "describe", "table.csv", "dataset.target=b").code == 0


PROGRAM = """
import sys
from gpsuite import cli
csv = ["scale=smoke", "dataset=csv", "dataset.path=t.csv", "format=quiet"]
for words in (
    ["experiment=pac_bayes/regression", "dataset.target=y"],
    ["experiment=perturbation/region", "dataset.target=y"],
    ["experiment=active_learning/plan", "dataset.target=y", "particles=4", "dataset.inputs=x",
     "dataset.safety=z", "dataset.limit=<=9", "dataset.candidates=c.csv"],
):
    sys.argv = ["gpsuite", "run", *csv, *words]
    code = cli.main()
    print(words[0], code, [name for name in ("tensorflow", "gpflow", "sklearn") if name in sys.modules])
"""


def test_a_small_table_is_answered_without_tensorflow_in_three_families(tmp_path: Path) -> None:
    rows = "\n".join(f"{i / 7:.3f},{(i * 5) % 11},{i % 5},{(i * 3) % 7}" for i in range(30))
    (tmp_path / "t.csv").write_text(f"x,w,z,y\n{rows}\n", encoding="utf-8")
    (tmp_path / "c.csv").write_text("x\n0.05\n1.55\n", encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True)
    told = [line for line in ended.stdout.splitlines() if line.startswith("experiment=")]
    assert told == [
        f"experiment={name} 0 []" for name in ("pac_bayes/regression", "perturbation/region", "active_learning/plan")
    ], ended.stderr
