from pathlib import Path

import pytest

from worker_app import errors, settings
from worker_app.cli import roles


def load(**environ: str) -> settings.Settings:
    return settings.load({"DEV_HOPS_DIR": "/nonexistent", **environ})


def test_children_of_prefork_count_in_a_folder_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = (roles._children_environment(load(CELERY_POOL="prefork")) for _ in range(2))
    assert first != second
    assert {Path(found["PROMETHEUS_MULTIPROC_DIR"]) for found in (first, second)} == set(tmp_path.iterdir())


def test_folder_that_was_given_is_emptied_of_what_an_earlier_worker_counted(tmp_path: Path) -> None:
    (tmp_path / "counter_17.db").touch()
    (tmp_path / "notes").touch()
    found = roles._children_environment(load(CELERY_POOL="prefork", PROMETHEUS_MULTIPROC_DIR=str(tmp_path)))
    assert found == {"PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_pool_without_children_needs_no_folder() -> None:
    assert roles._children_environment(load()) == {}


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.touch()
    with pytest.raises(errors.SettingsError, match="PROMETHEUS_MULTIPROC_DIR is "):
        roles._children_environment(load(CELERY_POOL="prefork", PROMETHEUS_MULTIPROC_DIR=str(taken)))
