"""Every mistake gets exit code 2, at most four lines naming key and fix, and leaves earlier results alone."""

from __future__ import annotations

import errno
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from gpsuite.config.request import read_request
from gpsuite.engine.folder import locked
from tests.commands.conftest import Gpsuite

RUN = ("run", "experiment=pac_bayes/regression")
CSV = (*RUN, "dataset=csv", "dataset.path=table.csv")
SEVERAL = ("run", "experiment=pac_bayes/loss_exp")
BOSTON = ("run", "experiment=pac_bayes/epsilon_boston")
ROWS = [f"{i},{(i * 7) % 11},{i * 0.5 + (i * 7) % 11}" for i in range(40)]


def table(*changed: tuple[int, str], header: str = "a,b,y") -> str:
    """Return a good table of 40 rows, with some lines replaced."""
    lines = list(ROWS)
    for number, line in changed:
        lines[number] = line
    return "\n".join([header, *lines]) + "\n"


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(autouse=True)
def earlier_results(workplace: Path) -> Path:
    results = workplace / "results"
    for name in ("pac_bayes/regression/quick/run.json", "pac_bayes/regression/quick/tables/regression.csv"):
        path = results / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"status": "done"}', encoding="utf-8")
    (workplace / "table.csv").write_text(table(), encoding="utf-8")
    return results


WORDS = [
    # (words, what the message must contain)
    (("runn",), ["command=runn", "did you mean 'run'"]),
    (("nosuch",), ["command=nosuch: unknown command\nvalid: bench"]),  # none is near
    (("run",), ["experiment: missing", "pac_bayes/regression"]),
    (("run", "experiment=pac_bayes/regresion"), ["did you mean 'pac_bayes/regression'"]),
    (("run", "experiment="), ["experiment="]),
    ((*RUN, "epsilonn=0.5"), ["epsilonn", "did you mean 'epsilon'"]),
    ((*RUN, "+epsilon=0.5"), ["cannot be added"]),
    ((*RUN, "+nonsense=1"), ["cannot be added"]),
    ((*RUN, "+foo"), ["+foo", "cannot be added", "foo=VALUE", "--help"]),
    ((*RUN, "~epsilon"), ["~epsilon", "leave epsilon out"]),
    ((*RUN, "foo=1"), ["parallel", "budget.seconds", "model.ard", "method.{objective,"]),
    ((*RUN, "epsilon="), ["epsilon=: no value", "a number"]),
    ((*RUN, "epsilon=null"), ["epsilon=null: must be a number"]),
    ((*RUN, "wait=3"), ["wait=3: must be true or false"]),
    ((*RUN, "budget.seconds=soon"), ["budget.seconds=soon: must be a number or null"]),
    ((*RUN, "method.inducing=10"), ["not an option of kl_pac_gp", "valid: fitc", "vfe"]),
    ((*RUN, "method=kl_pac_gp", "method.inducin=10"), ["did you mean", "valid: method.objective"]),
    (("run", "experiment=robustness/safety", "features=sift10"), ["for tables: all, first<N>"]),
    ((*BOSTON, "epsilons=0.1,0.2"), ["add -m", "epsilons=[0.1,0.2]"]),
    (("verify", "table.csv"), ["is not a certificate", "NAME.npz and NAME.json"]),
    (("verify", "nowhere.npz"), ["is not there", "NAME.npz and NAME.json"]),
    ((*RUN, "epsilon"), ["expected key=value"]),
    ((*RUN, "--epsilon", "0.5"), ["unknown option"]),
    ((*RUN, "method=kl_pac_pg"), ["did you mean 'kl_pac_gp'"]),
    ((*RUN, "methods=[kl_pac_gp,nope]"), ["method=nope", "valid:"]),
    ((*RUN, "methods=[kl_pac_gp,kl_pac_gp]"), ["named twice"]),
    ((*RUN, "methods=[]"), ["name at least one"]),
    ((*RUN, "method=full_gp", "methods=[full_gp]"), ["one of the two"]),
    (
        (*RUN, "method=kl_pac_gp", "method.objective=best"),
        ["method.objective=best", "valid: catoni, kl, lambda, quadratic, sqrt"],
    ),
    ((*RUN, "method=kl_pac_gp", "method.title=mine"), ["method.title"]),
    ((*RUN, "method=laplace"), ["method=laplace: not a method of pac_bayes/regression", "kl_pac_gp"]),
    ((*RUN, "dataset=bostn"), ["did you mean 'boston'"]),
    ((*RUN, "dataset=digits"), ["classification dataset cannot be used", "valid:"]),
    ((*RUN, "dataset.path=table.csv"), ["dataset.path", "dataset=csv"]),
    ((*RUN, "dataset=boston"), ["housing.data", "missing", "baadf72995", "GPSUITE_DATA_PATH"]),
    ((*BOSTON, "dataset=diabetes"), ["fixed dataset", "gpsuite data describe FILE"]),
    (("run", "experiment=perturbation"), ["a family; choose one of", "perturbation/region"]),
    (
        ("run", "experiment=active_learning/engine", "dataset=boston"),
        ["fixed dataset", "valid: gengine1, gengine1_co2_hc"],
    ),
    ((*RUN, "datasets=[diabetes]"), ["datasets", "did you mean 'dataset'"]),
    ((*SEVERAL, "datasets=[diabetes,kin40]"), ["dataset=kin40", "did you mean 'kin40k'"]),
    ((*SEVERAL, "datasets=[diabetes,diabetes]"), ["datasets=[diabetes,diabetes]", "named twice"]),
    ((*SEVERAL, "datasets=[]"), ["datasets=[]", "at least one"]),
    ((*SEVERAL, "datasets=null"), ["datasets=[]", "at least one"]),
    ((*SEVERAL, "datasets=[diabetes,7]"), ["dataset=7", "valid:"]),
    ((*SEVERAL, "datasets=[diabetes,digits]"), ["datasets=digits", "classification dataset", "valid:"]),
    ((*SEVERAL, "datasets=[csv]"), ["datasets=[csv]", "pac_bayes/regression dataset=csv"]),
    ((*SEVERAL, "datasets=diabetes,pol"), ["add -m", "datasets=[diabetes,pol]"]),
    ((*SEVERAL, "dataset=diabetes"), ["dataset=diabetes", "datasets=[A,B]"]),
    ((*SEVERAL, "dataset=csv"), ["dataset=csv", "pac_bayes/regression dataset=csv"]),
    ((*SEVERAL, "dataset.path=table.csv"), ["dataset.path", "pac_bayes/regression dataset=csv"]),
    ((*SEVERAL, "dataset=nope"), ["unknown dataset"]),
    ((*SEVERAL, "dataset=bostn"), ["did you mean 'boston'"]),
    ((*SEVERAL, "dataset"), ["expected key=value"]),
    ((*SEVERAL, "data_sets=[pol]"), ["data_sets", "did you mean 'datasets'"]),
    (
        SEVERAL,
        ["pol_train_data.asc", "missing", "GPSUITE_DATA_PATH", "leave it out: datasets=[kin40k,sarcos]"],
    ),
    ((*SEVERAL, "datasets=[diabetes]", "inducing=[]"), ["inducing=[]", "at least one"]),
    ((*SEVERAL, "datasets=[diabetes]", "inducing=[0,5]"), ["inducing=0", "1 or more"]),
    ((*SEVERAL, "datasets=[diabetes]", "inducing=[5,5]"), ["inducing=[5, 5]", "twice"]),
    ((*SEVERAL, "datasets=[diabetes]", "scale=paper"), ["inducing=500", "353 training rows of diabetes"]),
    ((*SEVERAL, "datasets=[diabetes]", "single_lengthscale=[sarcs]"), ["did you mean 'sarcos'"]),
    ((*SEVERAL, "datasets=[diabetes]", "method=kl_pac_gp"), ["not a method of pac_bayes/loss_exp"]),
    ((*SEVERAL, "datasets=[diabetes]", "epsilon=0"), ["epsilon=0"]),
    ((*RUN, "model=rbf"), ["unknown model", "se"]),
    ((*RUN, "model=matern32"), ["model=se"]),
    ((*RUN, "model.ard=perhaps"), ["model.ard=perhaps"]),
    ((*RUN, "scale=huge"), ["scale=huge", "smoke"]),
    ((*RUN, "epsilon=-0.1"), ["epsilon=-0.1", "above 0"]),
    ((*RUN, "epsilon=nan"), ["epsilon=nan"]),
    ((*RUN, "accuracy=0"), ["accuracy=0", "above 0"]),
    ((*RUN, "delta=1.5"), ["delta=1.5", "between 0 and 1"]),
    ((*RUN, "test_share=0"), ["test_share=0"]),
    ((*RUN, "test_share=0.9999"), ["test_share"]),
    ((*RUN, "repetitions=0"), ["repetitions=0", "1 or more"]),
    ((*RUN, "repetitions=2.5"), ["repetitions=2.5"]),
    ((*RUN, "repetitions=many"), ["repetitions=many"]),
    ((*RUN, "scaling=none"), ["scaling=none", "all, train"]),
    ((*RUN, "budget.seconds=inf"), ["budget.seconds=inf", "finite"]),
    ((*RUN, "seed=-1"), ["seed=-1"]),
    ((*RUN, "seed=0,1"), ["add -m", "gpsuite run -m ... seed=0,1"]),
    ((*RUN, "seed=1", "seed=2"), ["given twice"]),
    ((*RUN, "experiment=pac_bayes/regression"), ["given twice"]),
    ((*RUN, "parallel=cluster"), ["unknown parallel", "serial"]),
    ((*RUN, "parallel.workers=0"), ["parallel.workers=0"]),
    ((*RUN, "threads=0"), ["threads=0"]),
    ((*RUN, "threads=two"), ["threads=two"]),
    ((*RUN, "on_error=ignore"), ["continue, raise"]),
    ((*RUN, "run_name=a/b"), ["run_name=a/b"]),
    ((*RUN, "budget.seconds=-3"), ["budget.seconds=-3"]),
    ((*RUN, "budget=3"), ["did you mean 'budget.seconds'"]),
    ((*RUN, "epsilon=[1"), ["cannot be read"]),
    ((*RUN, "-m", "experiment=pac_bayes/epsilon_boston,nope"), ["given twice"]),
    (("run", "-m", "experiment=pac_bayes/regression,pac_bayes/nope"), ["unknown experiment"]),
    (("run", "-m", "experiment=glob(nothing*)"), ["no name matches"]),
    ((*RUN, "dataset=csv"), ["dataset.path: missing"]),
    ((*CSV,), ["dataset.target: missing"]),
    ((*RUN, "dataset=csv", "dataset.target=y", "dataset.path=tabel.csv"), ["tabel.csv", "table.csv"]),
    ((*RUN, "dataset=csv", "dataset.target=y", "dataset.path=."), ["dataset.path"]),
    ((*CSV, "dataset.target=z"), ["dataset.target=z"]),
    ((*CSV, "dataset.target=y", "dataset.inputs=[a,q]"), ["dataset.inputs"]),
    ((*CSV, "dataset.target=y", "dataset.inputs=y"), ["y"]),
    ((*CSV, "dataset.target=y", "dataset.separator=;"), ["dataset.separator"]),
    ((*CSV, "dataset.target=y", "dataset.task=ranking"), ["dataset.task=ranking"]),
    ((*CSV, "dataset.target=y", "dataset.sep=;"), ["did you mean 'separator'"]),
    ((*CSV, "dataset.target=y", "dataset.delimiter=;"), ["did you mean 'separator'"]),
    (("list", "experimnts"), ["did you mean 'experiments'"]),
    (("list", "nosuch"), ["gpsuite: nosuch: no experiment, dataset or method; gpsuite list shows all\n"]),
    (("status", "pac_bayes/nope"), ["unknown experiment"]),
    (("compare", "nope"), ["unknown experiment"]),
    (("publish",), ["name the experiments"]),
    (("publish", "pac_bayes/epsilon_boston"), ["no finished run"]),
    (("data",), ["list, fetch, verify, describe"]),
    (("data", "fech"), ["did you mean 'fetch'"]),
    (("data", "verify", "bostn"), ["did you mean 'boston'"]),
    (("bench", "nope"), ["family=nope"]),
    (("bench", "peers", "robustness"), ["alone"]),
    (("report", "nope"), ["takes no names"]),
    (("status", "outdir=x"), ["results_dir=DIR"]),
]


@pytest.mark.parametrize(("words", "parts"), WORDS, ids=[" ".join(words)[-60:] for words, _ in WORDS])
def test_a_wrong_word(
    gpsuite: Gpsuite, earlier_results: Path, words: tuple[str, ...], parts: list[str]
) -> None:
    refused(gpsuite, earlier_results, words, parts)


FILES = [
    (b"", ["empty"]),
    (b"a,b,y\n", ["row"]),
    (b"\x00\x01\x02\xff\xfe" * 50, ["not a text CSV"]),
    (table((4, "4,x,3")).encode(), ["line 6", "b", "x"]),
    (table((4, "4,inf,3")).encode(), ["line 6", "b"]),
    (table((4, "4,5")).encode(), ["line 6"]),
    (table((4, "4,5,6,7")).encode(), ["line 6"]),
    (table(header="a,y,y").encode(), ["'y'", "two columns"]),
    ("\n".join(table().splitlines()[:5]).encode(), ["row"]),
    ("b,y\n" + "".join(f"1,{i}\n" for i in range(40)), ["b", "constant"]),
    ("a,b,y\n" + "".join(f"{i},{i % 5},2\n" for i in range(40)), ["'y'", "constant"]),
]


@pytest.mark.parametrize(
    ("content", "parts"), FILES, ids=[f"{number}-{parts[-1]}" for number, (_, parts) in enumerate(FILES)]
)
def test_a_wrong_table(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, content: bytes | str, parts: list[str]
) -> None:
    (workplace / "table.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    # a constant column is the fault of what was chosen, anything else that of the file
    place = "dataset." if "constant" in parts else "table.csv"
    refused(gpsuite, earlier_results, (*CSV, "dataset.target=y"), [place, *parts])


STRICT = [
    (table((4, "4,,3")).encode(), ["line 6", "b", "missing=drop_rows"]),
    (table((4, "4,nan,3")).encode(), ["line 6", "b"]),
    (table(header="a,a,y").encode(), ["'a'", "two columns"]),
    (table().replace(",", ";").encode(), ["dataset.separator"]),
    (table().replace(",", "\t").encode(), ["dataset.separator"]),
    (table().encode("utf-16"), ["binary"]),
]


@pytest.mark.parametrize(("content", "parts"), STRICT, ids=[str(number) for number in range(len(STRICT))])
def test_nothing_is_guessed_where_strict(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, content: bytes, parts: list[str]
) -> None:
    (workplace / "table.csv").write_bytes(content)
    refused(gpsuite, earlier_results, (*CSV, "dataset.target=y", "dataset.strict=true"), parts)


def test_the_corrected_command_is_ready_to_paste_and_works(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path
) -> None:
    (workplace / "table.csv").write_text(table((4, "4,x,3"), (7, "oh,1,3,5")), encoding="utf-8")
    command = gpsuite(*CSV, "dataset.target=Y", "seed=3").err.splitlines()[-1]
    assert command == f"gpsuite {' '.join(CSV)} seed=3 dataset.target=y"
    ended = gpsuite(*shlex.split(command)[1:])
    assert (
        "2 faults: line 9 has 4 cells, the header has 3; line 6, column 'b': 'x' is not a number" in ended.err
    )
    command = ended.err.splitlines()[-1]
    assert command.endswith("dataset.missing=drop_rows")
    request, _ = read_request(shlex.split(command)[2:])
    assert request.require_dataset().rows == 38
    assert len(request.require_dataset().notes) == 2, "what was left out is said"


def test_one_target_where_one_is_learned(gpsuite: Gpsuite, earlier_results: Path) -> None:
    words = (*CSV, "dataset.target=[y,a]")
    refused(gpsuite, earlier_results, words, ["learns one target", "dataset.target=y"])


def test_a_table_is_described(gpsuite: Gpsuite, workplace: Path, earlier_results: Path) -> None:
    shown = gpsuite("data", "describe", "table.csv")
    assert shown.code == 0
    assert "b\tnumber" in shown.out
    assert "gpsuite run experiment=pac_bayes/regression dataset=csv dataset.path=table.csv" in shown.out
    for words, part in (
        (("data", "describe"), "name one file"),
        (("data", "describe", "tabel.csv"), "table.csv"),
        (("data", "describe", "table.csv", "dataset.seperator=;"), "dataset.separator"),
        (("data", "describe", "table.csv", "dataset.skip_rows=x"), "whole number"),
    ):
        refused(gpsuite, earlier_results, words, [part])


def refused(gpsuite: Gpsuite, results: Path, words: tuple[str, ...], parts: list[str]) -> None:
    before = snapshot(results)
    ended = gpsuite(*words)
    assert ended.code == 2, ended.err
    assert ended.out == ""
    assert ended.err.startswith("gpsuite: ")
    assert 1 <= len(ended.err.splitlines()) <= 4
    assert "Traceback" not in ended.err
    for part in parts:
        assert part in ended.err
    assert snapshot(results) == before


def test_an_unreadable_file(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Permissions do not stop the superuser, so the refusal of the system is simulated."""
    real = Path.read_bytes

    def denied(path: Path) -> bytes:
        if path.name == "table.csv":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path)

    before = snapshot(earlier_results)
    monkeypatch.setattr(Path, "read_bytes", denied)
    ended = gpsuite(*CSV, "dataset.target=y")
    monkeypatch.undo()
    assert ended.code == 2
    assert "ermission denied" in ended.err
    assert snapshot(earlier_results) == before


def test_a_corrupted_dataset_file(
    gpsuite: Gpsuite, workplace: Path, earlier_results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "stock" / "boston").mkdir(parents=True)
    (workplace / "stock" / "boston" / "housing.data").write_bytes(b" 0.1 2 3\n")
    monkeypatch.setenv("GPSUITE_DATA_PATH", str(workplace / "stock"))
    for scale in (
        "quick",
        "smoke",
    ):  # a changed file is an error even where a stand-in would do for a missing one
        words = (*RUN, "dataset=boston", f"scale={scale}")
        refused(gpsuite, earlier_results, words, ["housing.data", "baadf72995", "found"])


def test_read_only_results(gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.mkdir

    def read_only(path: Path, *args: Any, **kwargs: Any) -> None:
        if "frozen" in path.parts:
            raise OSError(errno.EROFS, "Read-only file system", str(path))
        real(path, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", read_only)
    ended = gpsuite(*RUN, "results_dir=frozen/results")
    assert ended.code == 2
    assert "Read-only file system" in ended.err
    assert "results_dir=" in ended.err


def test_results_dir_is_a_file(gpsuite: Gpsuite, workplace: Path) -> None:
    (workplace / "taken").write_text("mine", encoding="utf-8")
    ended = gpsuite(*RUN, "results_dir=taken")
    assert ended.code == 2
    assert "results_dir" in ended.err
    assert (workplace / "taken").read_text(encoding="utf-8") == "mine"


def test_two_runs_at_once(gpsuite: Gpsuite, earlier_results: Path) -> None:
    folder = earlier_results / "pac_bayes" / "regression" / "smoke"
    with locked(folder, wait=False):
        refused(gpsuite, earlier_results, (*RUN, "scale=smoke"), ["another run", "wait=true", "run_name="])


def test_debug_shows_the_traceback(gpsuite: Gpsuite) -> None:
    ended = gpsuite(*RUN, "epsilon=-1", "debug=true")
    assert ended.code == 2
    assert ended.err.startswith("Traceback") and "\ngpsuite: epsilon=-1" in ended.err


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("my data, v=2 [final] ~ü.csv", ("a b", "c,d", "y[1]")),
        ("x.csv", ("=a", "~b", "ζ target")),
        ("it's.csv", ('say "hi"', "${b}", "y'")),
    ],
)
def test_odd_file_and_column_names_work(
    gpsuite: Gpsuite, workplace: Path, name: str, columns: tuple[str, str, str]
) -> None:
    import csv
    import io

    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(columns)
    writer.writerows([row.split(",") for row in ROWS])
    (workplace / name).write_text(buffer.getvalue(), encoding="utf-8")
    words = (
        *RUN,
        "scale=smoke",
        "method=kl_pac_gp",
        "dataset=csv",
        f"dataset.path={name}",
        f"dataset.target={columns[2]}",
    )
    ended = gpsuite(*words)
    assert ended.code == 0, ended.err
    assert os.listdir(workplace / "results" / "pac_bayes" / "regression")


def test_a_full_disk_while_computing_keeps_what_was_stored(
    gpsuite: Gpsuite, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, [0]

    def full(descriptor: int) -> None:
        calls[0] += 1
        if calls[0] > 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    ended = gpsuite(*RUN, "scale=smoke", "method=kl_pac_gp")
    monkeypatch.undo()
    assert ended.code == 2
    assert "No space left on device" in ended.err
    stored = snapshot(workplace / "results" / ".records")
    assert len(stored) >= 2  # at least one record with its arrays was complete
    assert gpsuite(*RUN, "scale=smoke", "method=kl_pac_gp").code == 0
    assert stored.items() <= snapshot(workplace / "results" / ".records").items()
