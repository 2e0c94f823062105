import json
import re
from collections.abc import Callable
from datetime import timedelta
from uuid import uuid4

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import text

from tests import seed
from tests.integration.api.visitors import NOWHERE, TOKEN, with_token
from tests.waiting import deferred, github
from worker_app import jobs, queues
from worker_app.jobs import BatchEnd, BatchState, NewBatch
from worker_app.records import Page, Source
from worker_app.runtime import Runtime
from worker_app.store import batches, overview, runs, schedules, sources
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration


def start(postgres: Postgres, made: seed.Seed, *, total: int, records: int) -> jobs.Batch:
    """A run of the source whose one batch has read `records` of `total`."""
    run_id, owner = seed.manual_run(postgres, made), uuid4()
    with postgres.transaction() as tx:
        run = runs.claim(tx, run_id, owner, "plan", 300)
        assert run is not None
        new = NewBatch(jobs.batch_id(run_id, made.source.id, "commits"), made.source.id, "commits", "sync.git")
        runs.plan(tx, run, owner, [new], cap=8)
        batch = batches.claim(tx, new.id, owner, lease_seconds=300, cap=8)
        assert batch is not None
        batches.begin(tx, batch, {"total": total})
        batches.checkpoint(
            tx, batch, Page(tuple(seed.commit(f"{number:040x}") for number in range(records)), next="1"), 300
        )
    return batch


def fail(postgres: Postgres, batch: jobs.Batch, error: str) -> None:
    """Close the batch and its run as failed."""
    owner = uuid4()
    with postgres.transaction() as tx:
        batches.close(tx, batch.id, batch.owner, BatchEnd(BatchState.FAILED, error=error))
        run = runs.claim(tx, batch.run_id, owner, "finish", 300)
        assert run is not None
        runs.finish(tx, run, owner)


def present(client: redis.Redis, node: str, fleet: str, slots: int, running: dict[str, int]) -> None:
    """A worker that consumes its fleet's queues."""
    presence = {"fleet": fleet, "queues": list(queues.FLEETS[fleet]), "slots": slots, "running": running}
    client.set(f"{queues.PRESENCE_PREFIX}{node}", json.dumps(presence), ex=30)


def test_status_shows_a_run_with_its_bar(friend: FlaskClient, postgres: Postgres) -> None:
    start(postgres, seed.seed(postgres, path="/home/ana/code/rocket"), total=48000, records=31000)
    page = friend.get("/status").text
    assert 'title="/home/ana/code/rocket">code/rocket<' in page
    assert '<progress max="48000" value="31000" aria-label="records read of code/rocket">' in page


def test_status_shows_the_state_and_the_error_of_an_ended_run(friend: FlaskClient, postgres: Postgres) -> None:
    fail(postgres, start(postgres, seed.seed(postgres), total=10, records=0), "the remote said no")
    page = friend.get("/status").text
    assert '<span class="chip bad">failed</span>' in page
    assert "the remote said no" in page


def test_status_shows_failed_batches_with_a_redacted_error(friend: FlaskClient, postgres: Postgres) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    batch = start(postgres, seed.seed(postgres), total=10, records=4)
    fail(postgres, batch, f"https://x:{secret}@git.example.org said no")
    page = friend.get("/status").text
    assert "Failed batches" in page
    assert page.count("git.example.org said no") == 2  # of the batch, and of its run
    assert (
        secret not in page + friend.get("/status?format=json").text + friend.get(f"/runs/{batch.run_id}/batches").text
    )
    (failed,) = (friend.get("/status?format=json").json or {})["work"]["failed_batches"]
    assert (failed["id"], failed["run_id"], failed["dataset"]) == (str(batch.id), str(batch.run_id), "commits")


def test_status_keeps_a_failed_batch_until_its_dataset_is_read(friend: FlaskClient, postgres: Postgres) -> None:
    def shown() -> list[str]:
        document = friend.get("/status?format=json").json or {}
        return [item["id"] for item in document["work"]["failed_batches"]]

    made = seed.seed(postgres)
    batch = start(postgres, made, total=10, records=4)
    fail(postgres, batch, "the remote said no")
    with postgres.transaction() as tx:  # more runs than the page shows
        tx.execute(
            text(
                "INSERT INTO sync_runs (id, org_id, kind, trigger, state, deadline_at, finished_at) "
                "SELECT gen_random_uuid(), :org, 'metrics', 'schedule', 'succeeded', now(), now() FROM generate_series(1, :n)"
            ),
            {"org": made.org.id, "n": overview.SHOWN + 1},
        )
    assert shown() == [str(batch.id)]
    with postgres.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO sync_cursors (org_id, source_id, dataset, last_complete_start) "
                "VALUES (:org, :source, 'commits', now() + interval '1 second')"
            ),
            {"org": made.org.id, "source": made.source.id},
        )
    assert shown() == []


def test_status_tells_what_the_batches_of_a_run_wait_for(friend: FlaskClient, postgres: Postgres) -> None:
    deferred(postgres, github(postgres), "commits", "work_items", seconds=600)
    said = r"2 batches wait for the gate of github on github\.com \(core\), on again in (10|9) min"
    assert re.search(said, friend.get("/status").text)
    (progress,) = (friend.get("/status?format=json").json or {})["progress"]
    assert re.match(said, progress["waits"][0])
    assert (progress["share"], progress["eta_seconds"]) == (0.0, None)


def test_status_counts_workers_by_fleet_and_marks_queues_without_one(
    friend: FlaskClient, redis_client: redis.Redis
) -> None:
    present(redis_client, "worker@a", "worker", 20, {"sync.git": 3})
    present(redis_client, "worker@b", "worker", 20, {"sync": 1})
    document = friend.get("/status?format=json").json
    assert document is not None
    counted = {"fleet": "worker", "workers": 2, "slots": 40, "running": 4, "work": 4, "oldest_age_seconds": 0.0}
    assert document["fleets"][0] == counted | {"unserved": []}
    assert [fleet["workers"] for fleet in document["fleets"]] == [2, 0, 0]
    assert document["fleets"][2]["unserved"] == ["metrics", "backfill"]
    assert len(re.findall("<tr class=alone>", friend.get("/status").text)) == 3
    assert any("--fleet worker-heavy" in warning for warning in document["warnings"])


def test_status_raises_no_alarm_for_a_fleet_whose_queues_another_consumes(
    friend: FlaskClient, redis_client: redis.Redis
) -> None:
    presence = {"fleet": "worker", "queues": list(queues.ALL_QUEUES), "slots": 4, "running": {}}
    redis_client.set(f"{queues.PRESENCE_PREFIX}worker@a", json.dumps(presence), ex=30)
    redis_client.set("dev-hops/beat", "somebody", ex=30)
    answer = friend.get("/status")
    assert "alone" not in answer.text.partition("</style>")[2]
    assert "Warnings" not in answer.text


def test_status_shows_sources_and_schedules_with_their_reasons(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    seed.schedule(postgres, made, due=timedelta(0), cron="*/5 * * * *")
    broken = seed.schedule(postgres, made, cron="0 2 30 2 *")
    with postgres.transaction() as tx:
        sources.set_state(tx, made.org.id, made.source.id, "inaccessible", "publickey denied")
        schedules.quarantine(tx, broken, "no slot within 5 years")
    page = friend.get("/status").text
    for words in ("publickey denied", "no slot within 5 years", "inaccessible 1", "enabled 1, faulted 1"):
        assert words in page


def test_status_escapes_what_people_named(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres, name="<i>acme</i>", path='"><script>alert(1)</script>')
    fail(postgres, start(postgres, made, total=1, records=0), "<img src=x onerror=alert(1)>")
    seed.schedule(postgres, made)
    page = friend.get("/status").text
    for raw in ("<script", "<img", "<i>acme"):
        assert raw not in page
    assert "&lt;script&gt;" in page


def test_status_page_runs_no_script_and_loads_nothing(friend: FlaskClient) -> None:
    answer = friend.get("/status")
    assert "<script" not in answer.text
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', answer.text)
    assert not re.findall(r' style="| on\w+="', answer.text)
    (nonce,) = re.findall(r'<style nonce="([^"]+)">', answer.text)
    assert f"'nonce-{nonce}'" in answer.headers["Content-Security-Policy"]
    assert friend.get("/status").headers["Content-Security-Policy"] != answer.headers["Content-Security-Policy"]


def test_status_loads_itself_again_unless_it_is_held(friend: FlaskClient) -> None:
    assert '<meta http-equiv="refresh" content="5">' in friend.get("/status").text
    assert 'http-equiv="refresh"' not in friend.get("/status?refresh=off").text


@pytest.mark.parametrize(
    ("path", "accept", "mimetype"),
    [
        ("/status", "*/*", "text/html"),
        ("/status", "application/json", "application/json"),
        ("/status", "text/html;q=0.9,application/json;q=0.5", "text/html"),
        ("/status", "image/png", "text/html"),
        ("/status?format=json", "text/html", "application/json"),
        ("/status?format=html", "application/json", "text/html"),
    ],
)
def test_status_takes_the_form_that_is_asked_for(friend: FlaskClient, path: str, accept: str, mimetype: str) -> None:
    answer = friend.get(path, headers={"Accept": accept})
    assert (answer.status_code, answer.mimetype) == (200, mimetype)


def test_status_document_holds_what_the_page_shows(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    seed.schedule(postgres, made)
    start(postgres, made, total=10, records=4)
    document = friend.get("/status?format=json").json
    assert document is not None
    assert (document["postgres"], document["redis"], document["schema"]["state"]) == ("ok", "ok", "current")
    work = document["work"]
    assert (work["open_runs"][0]["records"], work["open_runs"][0]["expected"]) == (4, 10)
    assert (work["run_states"], work["source_states"]) == ({"running": 1}, {"active": 1})
    assert work["schedules"][0]["sources"] == ["/srv/app"]
    assert work["outbox"]["rows"] == 2
    assert document["at"].endswith("Z")


def test_status_of_an_empty_service_says_how_to_begin(friend: FlaskClient) -> None:
    page = friend.get("/status").text
    assert "dev-hops sources add ADDRESS" in page
    assert "No schedule yet" in page


def test_status_goes_on_without_stores(build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask]) -> None:
    over = build(DATABASE_URL=f"postgresql://u:pw@{NOWHERE}/d", REDIS_URL=f"redis://{NOWHERE}", API_TOKEN=TOKEN)
    client = with_token(app_of(over))
    page = client.get("/status")
    assert page.status_code == 200
    assert "Postgres away" in page.text
    assert "Redis away" in page.text
    document = client.get("/status?format=json").json
    assert document is not None
    assert [document[name] for name in ("schema", "fleets", "queues", "work")] == [None] * 4
    assert len(document["warnings"]) == 2


def test_status_on_an_old_schema_names_the_remedy(
    build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask], empty_database_url: str, redis_url: str
) -> None:
    over = build(DATABASE_URL=empty_database_url, REDIS_URL=redis_url, API_TOKEN=TOKEN)
    page = with_token(app_of(over)).get("/status").text
    assert "<code>dev-hops migrate postgres</code>" in page


def test_overview_shows_a_bounded_part_and_counts_all(postgres: Postgres) -> None:
    made = seed.seed(postgres)
    many: list[Source] = []
    with postgres.transaction() as tx:
        for number in range(20):
            many.append(
                sources.add_source(tx, made.org.id, "git", "localhost", f"/srv/{number:02}", f"/srv/{number:02}")
            )
            runs.add_manual(tx, made.org.id, "git", many[-1].id, uuid4())
        sources.set_state(tx, made.org.id, many[-1].id, "gone", "404")
    with postgres.transaction() as tx:
        seen = overview.read(tx, shown=5)
    assert [source.external_name for source in seen.sources] == ["/srv/19", "/srv/00", "/srv/01", "/srv/02", "/srv/03"]
    assert seen.source_states == {"active": 20, "gone": 1}
    assert len(seen.open_runs) == 5
    assert seen.run_states == {"queued": 20}


def test_overview_puts_runs_that_run_before_those_that_wait(postgres: Postgres) -> None:
    waiting = seed.manual_run(postgres, seed.seed(postgres))
    running = start(postgres, seed.seed(postgres, "orbit"), total=1, records=0).run_id
    with postgres.transaction() as tx:
        assert [run.id for run in overview.read(tx).open_runs] == [running, waiting]
