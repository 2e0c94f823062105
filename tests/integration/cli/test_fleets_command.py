"""`dev-hops fleets` and what `queues` and the doctor say of fleets, as programs read it."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.command_line import Ended, dev_hops
from tests.integration.api.visitors import NOWHERE
from tests.processes import DEV_HOPS, Service
from worker_app import fleets, queues
from worker_app.store.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]
FIVE = f"{fleets.text_of(fleets.BUILT_IN)};spare=webhooks"


def run(service: Service, *arguments: str, **changes: str) -> Ended:
    return dev_hops(*arguments, environment=service.environment("c", **changes))


def document(service: Service, *arguments: str, **changes: str) -> Any:
    done = run(service, *arguments, "--json", **changes)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def service(tmp_path: Path, database_url: str, redis_url: str) -> Service:
    return Service(tmp_path, database_url, redis_url)


def test_fleets_are_one_document(service: Service, redis_client: redis.Redis, postgres: Postgres) -> None:
    redis_client.lpush("webhooks", json.dumps({"headers": {"enqueued_at": time.time()}}))
    presence = {"fleet": "worker", "queues": list(fleets.BUILT_IN["worker"]), "slots": 20, "running": {"sync": 3}}
    redis_client.set(f"{queues.PRESENCE_PREFIX}worker@a", json.dumps(presence), ex=60)
    found = document(service, "fleets", DEV_HOPS_FLEETS=FIVE)
    assert [item["fleet"] for item in found] == ["worker", "worker-ingest", "worker-heavy", "spare"]
    first = found[0]
    assert first.pop("oldest_age_seconds") < 60
    assert first == {"fleet": "worker", "work": 4, "ready": 1, "held": 0, "running": 3, "slots": 20, "workers": 1}
    assert (found[3]["work"], found[3]["workers"]) == (1, 0)


def test_document_of_the_queues_keeps_its_keys_and_people_see_the_fleets_below(
    service: Service, redis_client: redis.Redis, postgres: Postgres
) -> None:
    found = document(service, "queues")
    keys = ["queue", "ready", "oldest_age_seconds", "running", "held", "consumers"]
    assert [list(item) for item in found] == [keys] * len(queues.ALL_QUEUES)
    shown = run(service, "queues").stdout
    assert "worker-heavy" in shown
    assert "OLDEST s" in shown


def test_fleets_without_a_store_are_told_as_nothing(service: Service, postgres: Postgres) -> None:
    done = run(service, "fleets", "--json", REDIS_URL=f"redis://{NOWHERE}/0")
    assert (done.returncode, done.stdout) == (75, "")


def test_doctor_reports_stray_priorities_eviction_and_a_fleet_of_the_map(
    service: Service, redis_client: redis.Redis, postgres: Postgres
) -> None:
    redis_client.lpush("sync\x06\x163", "a", "b")
    redis_client.config_set("maxmemory-policy", "volatile-lru")
    try:
        found = {item["check"]: item for item in document(service, "doctor", DEV_HOPS_FLEETS=FIVE)["checks"]}
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")
    assert not found["priorities"]["ok"]
    assert "2 of sync" in found["priorities"]["detail"]
    assert found["redis eviction"]["detail"].startswith("volatile-lru: a broker that evicts loses messages")
    assert "start a worker of fleet spare, worker, worker-heavy, worker-ingest" in found["queues"]["detail"]


def test_map_that_is_wrong_stops_every_command_with_one_message(service: Service) -> None:
    environment = service.environment("c", DEV_HOPS_FLEETS="worker=sync")
    done = subprocess.run([DEV_HOPS, "fleets"], env=environment, capture_output=True, timeout=40, check=False)
    assert done.returncode == 78
    assert b"DEV_HOPS_FLEETS is 'worker=sync': " in done.stderr
