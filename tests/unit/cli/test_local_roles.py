import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from worker_app import key_ring
from worker_app.cli import local_roles
from worker_app.embedded.folder import Folder, Secrets
from worker_app.embedded.ports import Ports
from worker_app.embedded.stores import StoreAddresses, Stores

OURS = key_ring.generate()


@pytest.fixture
def environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, str]]:
    """The environment of each role of an `up` in a shell that names a key ring of its own."""
    monkeypatch.setenv("CREDENTIAL_KEYS", key_ring.generate())
    public = {"DATABASE_URL": "postgresql://u@h/n", "REDIS_URL": "redis://h/0", "CREDENTIAL_KEYS": OURS}
    with contextlib.closing(Ports()) as ports:
        found = local_roles.roles_of(Folder(tmp_path), public, Secrets(credential_keys=OURS), ports, 8000, 5555)
    return {role.name: dict(role.environment) for role in found}


def test_workers_alone_get_the_key_ring_of_the_folder(environments: dict[str, dict[str, str]]) -> None:
    rings = {name: environment["CREDENTIAL_KEYS"] for name, environment in environments.items()}
    workers = dict.fromkeys(("worker", "worker-ingest", "worker-heavy"), OURS)
    assert rings == {**workers, "beat": "", "api": "", "flower": ""}


@pytest.mark.parametrize("name", ["SYNC_CONCURRENCY_PER_PROVIDER", "OUTBOX_MAX_DEPTH", "RESCUE_INTERVAL_SECONDS"])
def test_verbs_of_another_shell_reckon_with_what_the_roles_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "12")
    folder = Folder(tmp_path)
    folder.prepare()
    addresses = StoreAddresses(database_url="postgresql+psycopg2://u@h/n", redis_url="redis://h/0")
    stores = cast("Stores", SimpleNamespace(valkey=SimpleNamespace(port=1)))
    assert local_roles.public_environment(folder, addresses, stores, {})[name] == "12"
