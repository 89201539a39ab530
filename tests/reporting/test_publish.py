from __future__ import annotations

import errno
from pathlib import Path

import pytest

from gpsuite.errors import ResultsError
from gpsuite.reporting import publish as module
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


def test_full_disk_keeps_the_earlier_copy(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
