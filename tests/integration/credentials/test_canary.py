"""The key ring that a process is started with, beside the rows of a real Postgres."""

import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from bench import credentials_rows
from tests.command_line import dev_hops
from tests.processes import Service
from tests.seed import column, execute, seed
from worker_app import errors, key_ring, settings
from worker_app.credentials import canary
from worker_app.settings import Settings
from worker_app.store.postgres import Postgres
from worker_app.vault import RingKeys, Vault

pytestmark = pytest.mark.integration
K1, K2 = key_ring.generate("k1"), key_ring.generate("k2")
KEYS_OF_THE_VAULT = "SELECT purpose FROM vault_keys"


def settings_of(ring: str) -> Settings:
    return settings.load({"CREDENTIAL_KEYS": ring, "DATABASE_URL": "postgresql://x/y", "DEV_HOPS_DIR": "/nonexistent"})


def refusal(postgres: Postgres, ring: str) -> str:
    with pytest.raises(errors.SettingsError) as caught:
        canary.require(postgres, settings_of(ring))
    text = str(caught.value)
    assert not [entry for entry in ring.split(",") if entry and entry.partition(":")[2] in text]
    return text


def fill(postgres: Postgres, ring: str, count: int = 3) -> UUID:
    org_id = seed(postgres).org.id
    credentials_rows.fill(postgres, Vault(RingKeys(key_ring.parse(ring))), org_id, count)
    return org_id


def test_first_process_makes_the_key_that_the_next_ones_open(postgres: Postgres) -> None:
    canary.require(postgres, settings_of(K1))
    wrapped = "SELECT wrapped FROM vault_keys"
    (first,) = column(postgres, wrapped)
    for ring in (K1, f"{K1},{K2}", f"{K2},{K1}"):
        canary.require(postgres, settings_of(ring))
    assert [bytes(item) for item in column(postgres, wrapped)] == [bytes(first)]  # type: ignore[call-overload]


def test_processes_that_start_at_once_make_one_key(postgres: Postgres) -> None:
    met, ended = threading.Barrier(8), []

    def begin() -> None:
        met.wait(5)
        canary.require(postgres, settings_of(K1))
        ended.append(True)

    processes = [threading.Thread(target=begin) for _ in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(10)
    assert len(ended) == 8
    assert column(postgres, KEYS_OF_THE_VAULT) == ["fingerprint"]


def test_ring_of_another_database_is_refused(postgres: Postgres) -> None:
    canary.require(postgres, settings_of(K1))
    for ring in (key_ring.generate("k1"), K2):
        assert "it does not open what this database keeps under key k1" in refusal(postgres, ring)


def test_key_of_a_row_that_the_ring_lacks_is_told_with_its_count(postgres: Postgres) -> None:
    canary.require(postgres, settings_of(K2))
    fill(postgres, f"{K1},{K2}")
    text = refusal(postgres, K2)
    assert text.startswith("CREDENTIAL_KEYS has no key k1, by which 3 rows are wrapped: put it back")
    canary.require(postgres, settings_of(f"{K2},{K1}"))


def test_every_fault_stands_in_one_message(postgres: Postgres) -> None:
    org_id = fill(postgres, K1)
    credentials_rows.fill(postgres, Vault(RingKeys(key_ring.parse(f"{K2},{K1}"))), org_id, 1)
    lines = refusal(postgres, key_ring.generate("k3")).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "CREDENTIAL_KEYS has no key k1, by which 3 rows are wrapped",
        "CREDENTIAL_KEYS has no key k2, by which 1 rows are wrapped",
        "CREDENTIAL_KEYS is ***",
    ]


def test_versions_that_were_superseded_count_and_revoked_ones_do_not(postgres: Postgres) -> None:
    canary.require(postgres, settings_of(K2))
    fill(postgres, f"{K1},{K2}")
    execute(postgres, "UPDATE org_credentials SET state = 'superseded'")
    assert "3 rows" in refusal(postgres, K2)
    execute(
        postgres,
        "UPDATE org_credentials SET state = 'revoked', revoked_at = now(), wrapped_dek = '', ciphertext = ''",
    )
    canary.require(postgres, settings_of(K2))


def test_ring_that_is_not_set_is_missed_only_where_something_is_sealed(postgres: Postgres) -> None:
    canary.require(postgres, settings_of(""))
    assert column(postgres, KEYS_OF_THE_VAULT) == []
    canary.require(postgres, settings_of(K1))
    canary.require(postgres, settings_of(""))
    fill(postgres, K1)
    assert refusal(postgres, "").startswith(
        "CREDENTIAL_KEYS is not set, and 3 rows are wrapped by k1: give the key ring"
    )


def test_process_that_opens_nothing_may_be_without_a_ring_and_not_with_a_wrong_one(postgres: Postgres) -> None:
    fill(postgres, K1)
    canary.require_of_given(postgres, settings_of(""))
    with pytest.raises(errors.SettingsError, match="has no key k1"):
        canary.require_of_given(postgres, settings_of(K2))


def test_looking_for_faults_makes_no_key(postgres: Postgres) -> None:
    with postgres.transaction() as tx:
        assert canary.faults(tx, settings_of(K1)) == []
    assert column(postgres, KEYS_OF_THE_VAULT) == []


@pytest.fixture
def ended(tmp_path: Path, postgres: Postgres, database_url: str, redis_url: str) -> Callable[..., tuple[int, str]]:
    """Starts a role on a database with three rows on k1; its exit code and what it wrote."""
    fill(postgres, K1)
    service = Service(tmp_path, database_url, redis_url)

    def start(*arguments: str, ring: str) -> tuple[int, str]:
        command, environment = service.command("w", *arguments, CREDENTIAL_KEYS=ring, API_HOST="127.0.0.1")
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=25, check=False)
        return done.returncode, done.stdout + done.stderr

    return start


@pytest.mark.parametrize("pool", ["gevent", "prefork"])
def test_worker_with_a_wrong_ring_ends_with_78_and_takes_nothing(
    ended: Callable[..., tuple[int, str]], pool: str
) -> None:
    for ring, words in (("", "CREDENTIAL_KEYS is not set, and 3 rows"), (K2, "has no key k1, by which 3 rows")):
        code, text = ended("worker", "--pool", pool, ring=ring)
        assert (code, words in text) == (78, True), text
        assert K2.partition(":")[2] not in text


def test_api_with_a_wrong_ring_ends_with_78(ended: Callable[..., tuple[int, str]]) -> None:
    code, text = ended("api", ring=K2)
    assert (code, "has no key k1, by which 3 rows" in text) == (78, True), text


def test_doctor_holds_the_ring_against_the_rows(
    tmp_path: Path, postgres: Postgres, database_url: str, redis_url: str
) -> None:
    fill(postgres, K1)
    service = Service(tmp_path, database_url, redis_url)
    for ring, words in ((K1, '"detail": "3 rows on k1"'), (K2, "CREDENTIAL_KEYS has no key k1, by which 3 rows")):
        assert words in dev_hops("doctor", "--json", environment=service.environment("d", CREDENTIAL_KEYS=ring)).stdout


def test_worker_that_opens_nothing_starts_without_a_ring(
    tmp_path: Path, postgres: Postgres, database_url: str, redis_url: str
) -> None:
    fill(postgres, K1)
    service = Service(tmp_path, database_url, redis_url)
    with service.running("h", "worker", "--fleet", "worker-heavy", "--concurrency", "1") as worker:
        service.wait_ready("h", worker)


def test_worker_that_opens_nothing_refuses_a_wrong_ring_all_the_same(ended: Callable[..., tuple[int, str]]) -> None:
    code, text = ended("worker", "--fleet", "worker-heavy", ring=K2)
    assert (code, "has no key k1, by which 3 rows" in text) == (78, True), text
