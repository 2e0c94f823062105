import json
import threading
import time
from collections.abc import Iterator

import pytest
import redis
from prometheus_client.parser import text_string_to_metric_families

from tests import seed
from tests.integration.api.visitors import NOWHERE
from worker_app import errors, queue_depth, queues, runtime
from worker_app.api.exporter import CACHE_SECONDS, Exporter
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.gate.signals import Kind, Quota, RateSignal
from worker_app.migrate import steps
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
WANTED = (steps.postgres(),)


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def absent_gate() -> Iterator[Gate]:
    opened = Gate.from_url(f"redis://{NOWHERE}")
    yield opened
    opened.close()


@pytest.fixture
def exporter(postgres: Postgres, redis_client: redis.Redis, gate: Gate, clock: Clock) -> Exporter:
    return Exporter(postgres, redis_client, gate, WANTED, clock=clock)


@pytest.fixture
def absent_redis() -> Iterator[redis.Redis]:
    client = runtime.redis_client(f"redis://{NOWHERE}", connections=1)
    yield client
    client.close()


@pytest.fixture
def absent_postgres() -> Iterator[Postgres]:
    pool = Postgres(f"postgresql+psycopg2://u@{NOWHERE}/d", pool_size=1)
    yield pool
    pool.close()


def samples(text: bytes) -> dict[str, float]:
    """name{label} -> value, of our own names."""
    return {
        sample.name.removeprefix("dev_hops_") + "".join(f"/{value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def push(client: redis.Redis, queue: str, headers: dict[str, object]) -> None:
    client.lpush(queue, json.dumps({"headers": headers}))


def test_exporter_tells_the_queues(exporter: Exporter, redis_client: redis.Redis) -> None:
    push(redis_client, "sync", {"enqueued_at": time.time() - 30})
    push(redis_client, "sync", {"enqueued_at": time.time()})
    presence = {"fleet": "worker", "queues": ["sync", "default"], "slots": 20, "running": {"sync": 3}}
    redis_client.set(f"{queues.PRESENCE_PREFIX}worker@a", json.dumps(presence), ex=30)
    found = samples(exporter.text())
    assert (found["queue_ready/sync"], found["queue_running/sync"], found["queue_consumers/sync"]) == (2, 3, 1)
    assert found["queue_oldest_age_seconds/sync"] == pytest.approx(30, abs=2)
    assert (found["queue_ready/metrics"], found["queue_oldest_age_seconds/metrics"]) == (0, 0)
    assert found["queue_consumers/metrics"] == 0
    assert found["exporter_up/redis"] == 1


def test_exporter_knows_no_age_of_a_foreign_message(exporter: Exporter, redis_client: redis.Redis) -> None:
    push(redis_client, "celery", {})
    found = samples(exporter.text())
    assert found["queue_ready/celery"] == 1
    assert "queue_oldest_age_seconds/celery" not in found


def test_exporter_tells_what_postgres_owes(exporter: Exporter, postgres: Postgres, gate: Gate) -> None:
    made = seed.seed(postgres)
    job_id = seed.schedule(postgres, made)
    seed.manual_run(postgres, made)
    seed.execute(postgres, "UPDATE task_outbox SET available_at = now() - interval '90 seconds'")
    seed.execute(postgres, "UPDATE scheduled_jobs SET next_run_at = now() - interval '8 minutes'")
    paused = seed.schedule(postgres, made)
    seed.execute(postgres, "UPDATE scheduled_jobs SET enabled = false WHERE id = :id", id=paused)
    found = samples(exporter.text())
    assert found["outbox_rows"] == 1
    assert found["outbox_oldest_age_seconds"] == pytest.approx(90, abs=3)
    assert found["schedule_lag_seconds"] == pytest.approx(480, abs=3)
    assert (found["runs_stuck"], found["schedules_quarantined"]) == (0, 0)
    seed.execute(
        postgres, "UPDATE scheduled_jobs SET quarantined_until = now() + interval '1 hour' WHERE id = :id", id=job_id
    )
    seed.execute(postgres, "UPDATE sync_runs SET deadline_at = now() - interval '1 minute'")
    later = samples(Exporter(postgres, redis.Redis(port=1), gate, WANTED).text())
    assert (later["runs_stuck"], later["schedules_quarantined"]) == (1, 1)
    assert (found["schema_version/postgres"], found["schema_current"], found["exporter_up/postgres"]) == (
        steps.postgres().newest,
        1,
        1,
    )
    assert job_id != paused


def test_exporter_does_not_count_the_slots_of_a_job_set_aside(exporter: Exporter, postgres: Postgres) -> None:
    seed.schedule(postgres, seed.seed(postgres))
    seed.execute(postgres, "UPDATE scheduled_jobs SET quarantined_until = now() + interval '5 minutes', fault = 'x'")
    assert samples(exporter.text())["schedule_lag_seconds"] == 0


def test_exporter_reads_again_after_its_cache_only(exporter: Exporter, redis_client: redis.Redis, clock: Clock) -> None:
    exporter.text()
    push(redis_client, "sync", {})
    clock.now += CACHE_SECONDS - 0.1
    assert samples(exporter.text())["queue_ready/sync"] == 0
    clock.now += 0.2
    assert samples(exporter.text())["queue_ready/sync"] == 1


def test_exporter_takes_the_gauges_of_an_absent_source_away(
    exporter: Exporter, postgres: Postgres, gate: Gate, absent_redis: redis.Redis, absent_postgres: Postgres
) -> None:
    exporter.text()
    without_redis = samples(Exporter(postgres, absent_redis, gate, WANTED).text())
    assert without_redis["exporter_up/redis"] == 0
    assert not [name for name in without_redis if name.startswith("queue_")]
    assert without_redis["outbox_rows"] == 0
    without_both = samples(Exporter(absent_postgres, absent_redis, gate, WANTED).text())
    assert without_both["exporter_up/postgres"] == 0
    assert not [name for name in without_both if name.startswith(("outbox_", "schedule_lag", "schema_"))]
    assert samples(exporter.text())["outbox_rows"] == 0


def test_exporter_shows_a_schema_that_is_behind(empty_database_url: str, redis_client: redis.Redis, gate: Gate) -> None:
    postgres = Postgres(empty_database_url, pool_size=1)
    found = samples(Exporter(postgres, redis_client, gate, WANTED).text())
    postgres.close()
    assert (found["schema_version/postgres"], found["schema_current"], found["exporter_up/postgres"]) == (0, 0, 1)
    assert "outbox_rows" not in found


def test_exporter_tells_the_gates_and_no_organisation(exporter: Exporter, gate: Gate) -> None:
    keys = [GateKey("github", name, "github.com") for name in ("acme", "orbit", "initech")]
    for key, left in zip(keys, (4200, 17, 900), strict=True):
        with gate.slot(key, "repos.get") as permit:
            permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, left, 1800.0),)))
    gate.backoff(keys[0], 60.0, reason="secondary")
    gate.backoff(keys[1], 600.0, bucket="graphql", reason="primary")
    text = exporter.text()
    found = samples(text)
    assert found["gate_closed/github.com/github"] == 2
    assert found["gate_resume_timestamp_seconds/github.com/github"] == pytest.approx(time.time() + 600, abs=5)
    assert found["gate_budget_remaining/core/github.com/github"] == 17
    assert found["exporter_up/gate"] == 1
    assert b"acme" not in text


def test_exporter_tells_of_no_end_where_no_gate_is_closed(exporter: Exporter, gate: Gate, clock: Clock) -> None:
    key = GateKey("github", "acme", "github.com")
    gate.backoff(key, 60.0, reason="secondary")
    exporter.text()
    gate.clear(key, by="a test")
    clock.now += CACHE_SECONDS + 1
    found = samples(exporter.text())
    assert not found.get("gate_closed/github.com/github")
    assert not [name for name in found if name.startswith(("gate_resume", "gate_budget"))]


def test_exporter_takes_the_gauges_of_an_absent_gate_away_and_no_others(
    exporter: Exporter, postgres: Postgres, redis_client: redis.Redis, gate: Gate, absent_gate: Gate
) -> None:
    gate.backoff(GateKey("github", "acme", "github.com"), 60.0, reason="secondary")
    assert "gate_closed/github.com/github" in samples(exporter.text())
    found = samples(Exporter(postgres, redis_client, absent_gate, WANTED).text())
    assert not [name for name in found if name.startswith("gate_")]
    assert (found["exporter_up/gate"], found["exporter_up/redis"], found["queue_ready/sync"]) == (0, 1, 0)


def test_many_scrapes_at_once_read_once(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    reads, met = [], threading.Barrier(8)

    def depths(client: redis.Redis, **_: object) -> list[queue_depth.QueueDepth]:
        reads.append(client)
        time.sleep(0.05)
        raise errors.StoreAway("Redis does not answer")

    def scrape() -> None:
        met.wait(5)
        exporter.text()

    monkeypatch.setattr(queue_depth, "depths", depths)
    scrapes = [threading.Thread(target=scrape) for _ in range(8)]
    for one in scrapes:
        one.start()
    for one in scrapes:
        one.join(10)
    assert len(reads) == 1


def test_exporter_shows_the_schema_of_each_store_and_says_current_only_of_both(
    postgres: Postgres, redis_client: redis.Redis, gate: Gate
) -> None:
    both = (steps.postgres(), steps.clickhouse())
    found = samples(Exporter(postgres, redis_client, gate, both).text())
    assert found["schema_version/postgres"] == steps.postgres().newest
    assert (found["schema_version/clickhouse"], found["schema_current"]) == (0, 0)
    assert "outbox_rows" in found  # the tables of Postgres are there, whatever ClickHouse lacks
