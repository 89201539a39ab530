from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from gpsuite.errors import ResultsError
from gpsuite.reporting import publish as module
from gpsuite.reporting.files import write_bytes, write_text
from gpsuite.reporting.publish import publish


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "results/family/name/quick~tag"
    for name in ("tables/a.csv", "tables/a.md", "figures/f.png", "artifacts/k.npz", "figures/.tmp-1-ab",
                 "certificates/laplace_point_0.npz", "certificates/laplace_point_0.json"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    for name in ("config.yaml", "comparison.csv", "run.json", "records.csv", "plan.json"):
        (folder / name).write_text(name)
    (folder / "run.json").write_text("{}")
    return folder


def contents(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_copies_results_but_no_rows_of_data(run_folder: Path, tmp_path: Path) -> None:
    target = publish(run_folder, tmp_path / "results", dict)
    assert target == tmp_path / "results/published/family/name/quick~tag"
    assert contents(target) == [
        *("comparison.csv", "config.yaml", "figures/f.png", "run.json", "tables/a.csv", "tables/a.md")
    ]
    assert [path.name for path in target.parent.iterdir()] == ["quick~tag"]


def test_second_copy_replaces_the_first_whole(run_folder: Path, tmp_path: Path) -> None:
    publish(run_folder, tmp_path / "results", dict)
    (run_folder / "tables/a.md").unlink()
    (run_folder / "tables/a.csv").write_text("new")
    target = publish(run_folder, tmp_path / "results", dict)
    assert (target / "tables/a.csv").read_text() == "new"
    assert "tables/a.md" not in contents(target)
    assert [path.name for path in target.parent.iterdir()] == ["quick~tag"]


def test_full_disk_keeps_the_earlier_copy(run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = publish(run_folder, tmp_path / "results", dict)
    before = contents(target)
    real = module.write_bytes  # type: ignore[attr-defined]

    def full(path: Path, data: bytes) -> None:
        if path.name == "f.png":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(module, "write_bytes", full)
    (run_folder / "tables/a.csv").write_text("new")
    with pytest.raises(ResultsError, match="No space left"):
        publish(run_folder, tmp_path / "results", dict)
    assert contents(target) == before and (target / "tables/a.csv").read_text() == "tables/a.csv"
    assert [path.name for path in target.parent.iterdir()] == ["quick~tag"]


def test_failed_swap_puts_the_earlier_copy_back(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = publish(run_folder, tmp_path / "results", dict)
    real = Path.rename

    def refuse(self: Path, other: Path) -> Path:
        if self.name.startswith(".new-"):
            raise OSError(errno.EACCES, "Permission denied")
        return real(self, other)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(ResultsError, match="Permission denied"):
        publish(run_folder, tmp_path / "results", dict)
    assert (target / "tables/a.csv").is_file()


def test_copy_put_aside_by_a_killed_publish_is_recovered(run_folder: Path, tmp_path: Path) -> None:
    target = publish(run_folder, tmp_path / "results", dict)
    target.rename(target.with_name(".old-quick~tag"))
    (target.with_name(".new-quick~tag") / "tables").mkdir(parents=True)
    publish(run_folder, tmp_path / "results", dict)
    assert [path.name for path in target.parent.iterdir()] == ["quick~tag"]
    assert (target / "run.json").is_file()


def test_unfinished_or_foreign_run_is_refused(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="not inside"):
        publish(run_folder, tmp_path / "elsewhere", dict)
    (run_folder / "run.json").unlink()
    with pytest.raises(ResultsError, match="no finished run"):
        publish(run_folder, tmp_path / "results", dict)


def test_writes_and_replaces_exactly(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "table.csv"
    write_text(path, "a\r\nε\n")
    assert path.read_bytes() == "a\r\nε\n".encode()
    write_bytes(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(path.parent.iterdir()) == [path]


def test_file_is_as_readable_as_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    write_text(tmp_path / "ours", "x")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_full_disk_leaves_the_old_file_and_nothing_else(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, full)
    with pytest.raises(ResultsError, match=r"cannot write .*table\.csv: No space left on device"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_interrupt_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_folder_that_cannot_be_made_is_a_results_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultsError, match="cannot write"):
        write_text(tmp_path / "file" / "table.csv", "x")
