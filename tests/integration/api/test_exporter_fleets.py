"""What the exporter tells of fleets, of what waits and of the broker itself."""

import json
import time
from pathlib import Path

import pytest
import redis
from structlog.testing import capture_logs

from tests.integration.api.test_exporter import WANTED, Clock, samples
from tests.integration.api.visitors import NOWHERE
from tests.seed import execute, schedule, seed
from tests.waiting import deferred, github, published, queued
from worker_app import fleets, queues, runtime
from worker_app.api.exporter import CACHE_SECONDS, Exporter
from worker_app.embedded.valkey import EmbeddedValkey
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration


@pytest.fixture
def exporter(postgres: Postgres, redis_client: redis.Redis, gate: Gate) -> Exporter:
    return Exporter(postgres, redis_client, gate, WANTED)


def test_exporter_tells_work_slots_and_age_of_each_fleet(exporter: Exporter, redis_client: redis.Redis) -> None:
    redis_client.lpush("sync", json.dumps({"headers": {"enqueued_at": time.time() - 30}}))
    redis_client.lpush("celery", json.dumps({"headers": {}}))
    presence = {"fleet": "worker", "queues": ["sync"], "slots": 20, "running": {"sync": 3}}
    redis_client.set(f"{queues.PRESENCE_PREFIX}worker@a", json.dumps(presence), ex=30)
    found = samples(exporter.text())
    assert (found["fleet_work/worker"], found["fleet_slots/worker"]) == (5, 20)
    assert found["fleet_oldest_age_seconds/worker"] == pytest.approx(30, abs=1)
    assert (found["fleet_work/worker-heavy"], found["fleet_slots/worker-heavy"]) == (0, 0)
    assert found["fleet_oldest_age_seconds/worker-heavy"] == 0


def test_exporter_tells_the_fleets_of_the_map(postgres: Postgres, redis_client: redis.Redis, gate: Gate) -> None:
    known = fleets.parse(f"{fleets.text_of(fleets.BUILT_IN)};worker-webhooks=webhooks")
    found = samples(Exporter(postgres, redis_client, gate, WANTED, known).text())
    told = {name for name in found if name.startswith("fleet_work/")}
    assert told == {
        "fleet_work/worker",
        "fleet_work/worker-ingest",
        "fleet_work/worker-heavy",
        "fleet_work/worker-webhooks",
    }


def test_exporter_leaves_out_of_the_work_what_a_gate_holds_back(
    exporter: Exporter, postgres: Postgres, redis_client: redis.Redis, gate: Gate
) -> None:
    made = github(postgres)
    queued(postgres, made, "commits", "work_items")
    execute(postgres, "DELETE FROM task_outbox WHERE task <> 'run_sync_batch'")
    published(postgres, redis_client)
    gate.backoff(GateKey("github", str(made.org.id), "github.com"), 60.0, reason="secondary")
    found = samples(exporter.text())
    assert (found["queue_ready/sync.github"], found["queue_held/sync.github"]) == (2, 2)
    assert (found["fleet_work/worker"], found["queue_held/sync.git"]) == (0, 0)


@pytest.mark.parametrize("away", ["redis", "gate", "postgres"])
def test_exporter_tells_no_work_where_one_of_its_sources_is_away(
    postgres: Postgres, redis_client: redis.Redis, gate: Gate, away: str
) -> None:
    absent_gate = Gate.from_url(f"redis://{NOWHERE}")
    absent_redis = runtime.redis_client(f"redis://{NOWHERE}", connections=1)
    absent_postgres = Postgres(f"postgresql+psycopg2://u@{NOWHERE}/d", pool_size=1)
    found = samples(
        Exporter(
            absent_postgres if away == "postgres" else postgres,
            absent_redis if away == "redis" else redis_client,
            absent_gate if away == "gate" else gate,
            WANTED,
        ).text()
    )
    absent_gate.close()
    absent_redis.close()
    absent_postgres.close()
    assert found[f"exporter_up/{away}"] == 0
    assert not [name for name in found if name.startswith(("fleet_", "queue_held"))]
    assert ("queue_ready/sync" in found) is (away != "redis")


def test_exporter_tells_what_is_taken_and_not_settled(exporter: Exporter, redis_client: redis.Redis) -> None:
    redis_client.hset("unacked", mapping={"a": "[]", "b": "[]"})
    redis_client.zadd("unacked_index", {"a": time.time() - 50, "b": time.time()})
    found = samples(exporter.text())
    assert found["unacked_messages"] == 2
    assert found["unacked_oldest_age_seconds"] == pytest.approx(50, abs=1)


def test_exporter_tells_of_the_broker_whether_it_evicts_and_how_full_it_is(
    exporter: Exporter, postgres: Postgres, redis_client: redis.Redis, gate: Gate
) -> None:
    found = samples(exporter.text())
    assert found["redis_maxmemory_policy_ok"] == 1
    assert 0 < found["redis_connected_clients_ratio"] < 1
    redis_client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        assert samples(Exporter(postgres, redis_client, gate, WANTED).text())["redis_maxmemory_policy_ok"] == 0
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")


def test_managed_redis_takes_its_gauges_away_and_is_told_of_once(
    postgres: Postgres, redis_client: redis.Redis, redis_url: str, gate: Gate
) -> None:
    redis_client.acl_setuser("managed", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config", "-info"])
    managed, clock = redis.Redis.from_url(redis_url, username="managed", password="x"), Clock()
    told = Exporter(postgres, managed, gate, WANTED, clock=clock)
    try:
        with capture_logs() as logs:
            first = samples(told.text())
            clock.now += CACHE_SECONDS + 1
            told.text()
    finally:
        managed.close()
        redis_client.acl_deluser("managed")
    assert not [name for name in first if name.startswith("redis_")]
    assert (first["exporter_up/redis"], first["fleet_work/worker"], first["unacked_messages"]) == (1, 0, 0)
    assert [line["event"] for line in logs].count("exporter.redis_tells_little") == 1


def test_exporter_tells_the_batches_that_wait_by_provider(exporter: Exporter, postgres: Postgres) -> None:
    deferred(postgres, github(postgres), "commits", "work_items")
    queued(postgres, github(postgres, "orbit"), "commits")
    found = samples(exporter.text())
    assert (found["deferred_batches/github"], found["deferred_batches/jira"]) == (2, 0)


LEDGER = (
    "INSERT INTO schedule_occurrences (job_id, scheduled_for, org_id, dispatcher, outcome) "
    "VALUES (:job, now() - make_interval(secs => :age), :org, 'test', 'minted')"
)


def test_exporter_tells_how_far_the_records_are_behind_where_a_schedule_reads_them(
    exporter: Exporter, postgres: Postgres, redis_client: redis.Redis, gate: Gate
) -> None:
    made, unread = seed(postgres), github(postgres, "orbit")
    job_id = schedule(postgres, made)
    cursor = (
        "INSERT INTO sync_cursors (org_id, source_id, dataset, cursor_at, last_complete_start) "
        "VALUES (:org, :source, 'commits', now(), now() - make_interval(secs => :age))"
    )
    for one, age in ((made, 500), (unread, 9000)):
        execute(postgres, cursor, org=one.org.id, source=one.source.id, age=age)
    found = samples(exporter.text())
    assert found["sync_watermark_age_seconds/commits/git"] == pytest.approx(500, abs=3)
    assert found["sync_slots_behind/commits/git"] == 0
    assert "sync_watermark_age_seconds/commits/github" not in found  # nothing syncs it
    execute(postgres, "UPDATE scheduled_jobs SET params = '{}' WHERE id = :id", id=job_id)
    for slot in (100, 300, 499, 501):
        execute(postgres, LEDGER, job=job_id, org=made.org.id, age=slot)
    every = samples(Exporter(postgres, redis_client, gate, WANTED).text())
    assert every["sync_slots_behind/commits/git"] == 3
    assert every["sync_watermark_age_seconds/commits/git"] == pytest.approx(500, abs=3)
    execute(postgres, "UPDATE scheduled_jobs SET enabled = false")
    later = samples(Exporter(postgres, redis_client, gate, WANTED).text())
    assert not [name for name in later if name.startswith(("sync_watermark", "sync_slots"))]


def test_exporter_recovers_after_its_redis_was_away(postgres: Postgres, tmp_path: Path) -> None:
    valkey, clock = EmbeddedValkey(tmp_path, password=None), Clock()
    valkey.start()
    client, own_gate = runtime.redis_client(valkey.url, connections=2), Gate.from_url(valkey.url)
    told = Exporter(postgres, client, own_gate, WANTED, clock=clock)
    try:
        client.lpush("sync", "{}")
        assert samples(told.text())["fleet_work/worker"] == 1
        valkey.stop()
        clock.now += CACHE_SECONDS + 1
        away = samples(told.text())
        assert (away["exporter_up/redis"], away["exporter_up/postgres"]) == (0, 1)
        assert not [name for name in away if name.startswith(("fleet_", "queue_", "unacked_", "redis_"))]
        valkey.start()
        clock.now += CACHE_SECONDS + 1
        back = samples(told.text())
        assert (back["exporter_up/redis"], back["fleet_work/worker"]) == (1, 1)
    finally:
        client.close()
        own_gate.close()
        valkey.stop()


def test_no_organisation_run_or_task_is_in_any_label(
    exporter: Exporter, postgres: Postgres, redis_client: redis.Redis
) -> None:
    made = github(postgres, "acme-secret-org")
    deferred(postgres, made, "commits")
    presence = {"fleet": "made-up-fleet", "queues": ["made-up-queue"], "slots": 1, "running": {"made-up-queue": 1}}
    redis_client.set(f"{queues.PRESENCE_PREFIX}node-of-somebody@a", json.dumps(presence), ex=30)
    text = exporter.text().decode()
    for word in ("acme-secret-org", str(made.org.id), str(made.source.id), "made-up", "node-of-somebody"):
        assert word not in text
