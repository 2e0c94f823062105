import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.seed import manual_run, schedule, seed
from worker_app import errors
from worker_app.cli.main import cli
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, plan

pytestmark = pytest.mark.integration
FINDING = ["code", "text", "since", "until", "remedy"]
LINE = ["scheduled_for", "outcome", "reason", "skipped_slots", "observed_at", "run_id", "run_state"]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, database_url: str, redis_url: str) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", redis_url)


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["explain", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def json_of(*arguments: object) -> Any:
    return json.loads(invoke(*arguments, "--json").stdout)


def test_json_is_one_document_with_public_keys_and_times_in_utc(postgres: Postgres) -> None:
    job_id = schedule(postgres, seed(postgres))
    assert dispatch.tick(postgres, "test").minted == 1
    found = json_of(job_id)
    assert list(found) == ["what", "id", "org", "state", "answer", "findings", "ledger", "batches"]
    assert (found["what"], found["id"], found["org"], found["state"]) == ("job", str(job_id), "acme", "waiting")
    assert found["answer"].endswith(found["findings"][0]["text"])
    assert [list(item) for item in found["findings"]] == [FINDING] * len(found["findings"])
    (line,) = found["ledger"]
    assert list(line) == LINE
    assert all(line[name].endswith("Z") for name in ("scheduled_for", "observed_at"))
    run = json_of(line["run_id"])
    assert (run["what"], run["state"], run["ledger"], run["batches"]) == ("run", "queued", [], {})
    plan.run(postgres, line["run_id"], lease_seconds=60, cap=8, max_batches=10)
    assert json_of(line["run_id"])["batches"] == {"queued": 1}


def test_person_reads_the_answer_first_then_a_table_and_the_ledger(postgres: Postgres) -> None:
    job_id = schedule(postgres, seed(postgres))
    dispatch.tick(postgres, "test")
    first, blank, head, *rest = invoke("app").stdout.splitlines()
    assert first.startswith(f"job {str(job_id)[:8]} is waiting: run ")
    assert blank == ""
    assert head.split() == ["CODE", "SINCE", "UNTIL", "FOUND", "DO"]
    assert any(line.startswith("not_due") for line in rest)
    assert any(line.split() == ["SLOT", "OUTCOME", "REASON", "SKIPPED", "RUN", "STATE"] for line in rest)
    assert "became run" in rest[-1]


def test_redis_that_is_away_leaves_what_postgres_knows(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:canary-5a1@127.0.0.1:1/0")
    run_id = manual_run(postgres, seed(postgres))
    found = json_of(run_id)
    assert [item["code"] for item in found["findings"]] == ["redis_away", "outbox", "deadline"]
    assert "canary" not in json.dumps(found)


def test_what_fits_nothing_or_too_much_is_wrong_usage(postgres: Postgres) -> None:
    made = seed(postgres)
    with pytest.raises(errors.UsageError, match="no job, run or batch"):
        invoke("zzz")
    for _ in range(2):
        schedule(postgres, made)
    with pytest.raises(errors.UsageError, match="several things fit"):
        invoke("app")
