"""Metrics in ClickHouse as an operator meets them: set the name, migrate, recompute, look; and a ClickHouse that goes away."""

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.clickhouse.address import PASSWORD
from tests.clickhouse.running import ClickHouse
from tests.command_line import dev_hops
from tests.processes import Service, wait_for
from tests.seed import NOON, Seed, column, commit, execute, seed
from worker_app.metrics import daily
from worker_app.store import records, runs
from worker_app.store.postgres import Postgres
from worker_app.store.postgres_metrics import PostgresMetrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(90)]
SUCCEEDED = "SELECT count(*) FROM sync_runs WHERE kind = 'metrics' AND state = 'succeeded'"


@pytest.fixture
def service(tmp_path: Path, database_url: str, redis_url: str) -> Service:
    return Service(tmp_path, database_url, redis_url)


@pytest.fixture
def made(postgres: Postgres) -> Seed:
    """An organisation whose metrics are in Postgres."""
    organisation = seed(postgres)
    with postgres.transaction() as tx:
        records.write(tx, organisation.source, [commit("a"), commit("b")], NOON)
    run_id = uuid4()
    with postgres.transaction() as tx:
        runs.add_metrics(tx, organisation.org.id, run_id, "manual")
    daily.run(postgres, PostgresMetrics(), run_id, lease_seconds=60)
    execute(postgres, "DELETE FROM task_outbox")
    return organisation


def ask(service: Service, *words: str, expect: int = 0, clickhouse_url: str = "") -> Any:
    done = dev_hops(*words, "--json", environment=service.environment("cli", CLICKHOUSE_URL=clickhouse_url))
    assert done.returncode == expect, done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def test_metrics_move_to_clickhouse_by_recomputing(
    service: Service, postgres: Postgres, made: Seed, clickhouse_url: str
) -> None:
    here = {"CLICKHOUSE_URL": clickhouse_url}
    before = ask(service, "metrics", "show")
    assert before != []
    assert ask(service, "metrics", "show", clickhouse_url=clickhouse_url) == []
    with (
        service.running("h", "worker", "--fleet", "worker-heavy", "--concurrency", "2", **here),
        service.running("w", "worker", "--concurrency", "2", **here),
    ):
        (ordered,) = ask(service, "metrics", "recompute", clickhouse_url=clickhouse_url)
        assert (ordered["org"], ordered["days"]) == ("acme", 1)
        wait_for(lambda: column(postgres, SUCCEEDED) == [2], "the days are computed", 40)
    after = ask(service, "metrics", "show", clickhouse_url=clickhouse_url)
    moments = [{row.pop("computed_at") for row in rows} for rows in (before, after)]
    assert after == before
    assert max(moments[0]) < min(moments[1])


def test_clickhouse_that_goes_away_costs_time_and_loses_nothing(
    service: Service, postgres: Postgres, made: Seed, clickhouse: ClickHouse, clickhouse_url: str
) -> None:
    here = {"CLICKHOUSE_URL": clickhouse_url, "BATCH_LEASE_SECONDS": "2"}
    with (
        clickhouse.failing("unavailable", matching="metric_daily", times=2),
        service.running("h", "worker", "--fleet", "worker-heavy", "--concurrency", "2", **here),
        service.running("w", "worker", "--concurrency", "2", **here),
        service.running("b", "beat", **here),
    ):
        ask(service, "metrics", "recompute", clickhouse_url=clickhouse_url)
        wait_for(lambda: column(postgres, SUCCEEDED) == [2], "the days are computed after all", 60)
    found = ask(service, "metrics", "show", "--metric", "commits", "--grain", "org", clickhouse_url=clickhouse_url)
    assert [row["value"] for row in found] == [2]
    assert column(postgres, "SELECT count(*) FROM touched_days") == [0]


def test_recompute_takes_a_span_and_refuses_one_that_runs_backwards(
    service: Service, postgres: Postgres, made: Seed
) -> None:
    for outside in (["--from", "2026-06-02"], ["--to", "2026-05-31"]):
        (ordered,) = ask(service, "metrics", "recompute", *outside)
        assert (ordered["days"], ordered["run"]) == (0, None)
    (ordered,) = ask(service, "metrics", "recompute", "--from", "2026-06-01", "--to", "2026-06-01")
    assert ordered["days"] == 1
    assert column(postgres, "SELECT kwargs ->> 'run_id' FROM task_outbox") == [ordered["run"]]
    said = ask(service, "metrics", "recompute", "--from", "2026-06-02", "--to", "2026-06-01", expect=2)
    assert "--from is 2026-06-02 and --to is 2026-06-01" in said
    assert "no organisation" in ask(service, "metrics", "recompute", "--org", "unheard", expect=2)
    assert "2026-13-01" in ask(service, "metrics", "recompute", "--from", "2026-13-01", expect=2)


def test_recompute_orders_nothing_where_there_is_nothing(service: Service, postgres: Postgres) -> None:
    assert ask(service, "metrics", "recompute") == []
    seed(postgres)
    (ordered,) = ask(service, "metrics", "recompute")
    assert (ordered["days"], ordered["run"]) == (0, None)
    assert column(postgres, "SELECT count(*) FROM task_outbox") == [0]


def test_doctor_says_whether_clickhouse_answers_and_is_current(
    service: Service, postgres: Postgres, clickhouse: ClickHouse, clickhouse_url: str
) -> None:
    def said() -> tuple[bool, str]:
        answer = ask(service, "doctor", expect=1, clickhouse_url=clickhouse_url)
        (found,) = [item for item in answer["checks"] if item["check"] == "clickhouse"]
        return found["ok"], found["detail"]

    assert said() == (True, "clickhouse: schema 1 is current")
    with clickhouse.failing("unavailable", matching="schema_steps", times=9):
        is_ok, detail = said()
    assert (is_ok, "does not answer" in detail) == (False, True), detail
    clickhouse.query("DROP TABLE schema_steps", clickhouse_url.rpartition("/")[2])
    is_ok, detail = said()
    assert (is_ok, "run `dev-hops migrate clickhouse`" in detail) == (False, True), detail
    execute(postgres, "DELETE FROM schema_ledger WHERE store = 'clickhouse'")
    is_ok, detail = said()
    assert (is_ok, "schema 0 is behind 1" in detail) == (False, True), detail
