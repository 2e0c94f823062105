from pathlib import Path

import pytest

from worker_app.embedded.folder import Folder
from worker_app.embedded.stores import Stores
from worker_app.embedded.supervisor import Supervisor

pytestmark = pytest.mark.integration


def supervisor_of(path: Path) -> tuple[Supervisor, Stores]:
    stores = Stores(Folder(path), durable=False)
    return Supervisor(Folder(path), stores, lambda _: None), stores


def test_supervisor_that_is_stopped_before_it_adopted_anything_leaves_nothing_running(tmp_path: Path) -> None:
    killed, stores = supervisor_of(tmp_path / "up")
    killed.start_stores()
    try:
        following, _ = supervisor_of(tmp_path / "up")
        following.stop()
        assert not stores.postgres.is_running()
        assert not stores.valkey.is_running()
        assert Folder(tmp_path / "up").read_state() is None
    finally:
        stores.stop()
        stores.delete_data()


def test_following_supervisor_adopts_the_stores_at_their_addresses(tmp_path: Path) -> None:
    killed, stores = supervisor_of(tmp_path / "up")
    before = killed.start_stores()
    try:
        following, _ = supervisor_of(tmp_path / "up")
        assert following.start_stores() == before
        following.stop()
        assert not stores.postgres.is_running()
    finally:
        stores.stop()
        stores.delete_data()
