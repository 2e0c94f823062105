import encodings.idna  # noqa: F401 - looked up late, when the forked child can no longer read a Python below /root
import multiprocessing
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import psycopg2
import pytest
import redis

from worker_app.embedded.folder import EmbeddedStoreError, Folder
from worker_app.embedded.stores import StoreAddresses, Stores

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def first_start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Folder, StoreAddresses, float]]:
    """A folder whose stores were started once and stopped, what they said, and the seconds it took."""
    folder = Folder(tmp_path_factory.mktemp("stores") / "up")
    stores = Stores(folder, durable=False)
    began = time.monotonic()
    addresses = stores.start()
    seconds = time.monotonic() - began
    stores.stop()
    yield folder, addresses, seconds
    stores.delete_data()


@pytest.fixture
def stores(first_start: tuple[Folder, StoreAddresses, float]) -> Iterator[Stores]:
    made = Stores(first_start[0], durable=False)
    yield made
    made.stop()


def start_and_stop(folder: Path) -> None:
    os.setgroups([])
    os.setgid(pwd.getpwnam("nobody").pw_gid)
    os.setuid(pwd.getpwnam("nobody").pw_uid)
    stores = Stores(Folder(folder), durable=False)
    stores.start()
    assert psutil.Process(stores.postgres.pid).uids() == psutil.Process().uids()
    stores.stop()


def test_stores_start_on_an_empty_folder_within_four_seconds(
    first_start: tuple[Folder, StoreAddresses, float],
) -> None:
    assert first_start[2] < 4


def test_stores_answer_at_their_addresses(stores: Stores) -> None:
    addresses = stores.start()
    with closing(psycopg2.connect(addresses.database_url.replace("+psycopg2", ""))) as connection:
        assert connection.info.dbname == "devhops"
    with redis.Redis.from_url(addresses.redis_url) as client:
        assert client.ping()


def test_stores_are_out_of_reach_of_ctrl_c(stores: Stores) -> None:
    stores.start()
    assert os.getsid(0) not in {os.getsid(stores.postgres.pid), os.getsid(stores.valkey.pid)}


def test_stores_show_no_password_in_the_repr(first_start: tuple[Folder, StoreAddresses, float]) -> None:
    folder, addresses, _ = first_start
    assert folder.secrets().postgres in addresses.database_url
    assert folder.secrets().valkey in addresses.redis_url
    assert repr(addresses) == "StoreAddresses()"


def test_stores_leave_none_running_when_one_fails(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = []

    def fail() -> None:
        pids.append(stores.postgres.pid)
        raise EmbeddedStoreError("no Valkey here")

    monkeypatch.setattr(stores.valkey, "start", fail)
    with pytest.raises(EmbeddedStoreError, match="no Valkey"):
        stores.start()
    assert [psutil.pid_exists(pid) for pid in pids] == [False]


def test_stores_of_an_ordinary_user_run_as_that_user(open_folder: Path, need_root: None) -> None:
    folder = open_folder / "mine"
    folder.mkdir()
    os.chown(folder, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    user = multiprocessing.get_context("fork").Process(target=start_and_stop, args=(folder,))
    user.start()
    user.join(timeout=25)
    assert user.exitcode == 0
    assert not (folder / "postgres").is_symlink()
    assert (folder / "postgres" / "data").owner() == "nobody"
