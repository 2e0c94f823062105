import re
from collections.abc import Callable

import pytest
import redis
import structlog
from flask import Flask
from flask.testing import FlaskClient

from tests.integration.api.visitors import NOWHERE, TOKEN, with_token
from tests.seed import column, execute
from tests.waiting import deferred, github, published, queued
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.gate.signals import Kind, Quota, RateSignal
from worker_app.runtime import Runtime
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
SAID = "You have exceeded a secondary rate limit"


def key_of(postgres: Postgres, name: str = "acme") -> GateKey:
    return GateKey("github", str(github(postgres, name).org.id), "github.com")


def ask(gate: Gate, key: GateKey, left: int) -> None:
    """One request, after which the provider says what is left of core."""
    with gate.slot(key, "repos.get") as permit:
        permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, left, 1800.0),)))


def test_gates_are_what_the_command_line_prints(friend: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    acme, orbit = key_of(postgres), key_of(postgres, "orbit")
    ask(gate, acme, 4200)
    gate.backoff(orbit, 60.0, bucket="graphql", reason="primary", detail="API rate limit exceeded")
    found = friend.get("/gates").json
    assert found is not None
    assert [(item["org"], item["bucket"]) for item in found] == [
        ("orbit", "graphql"), ("acme", "*"), ("acme", "core"), ("orbit", "*"),
    ]  # fmt: skip
    assert list(found[0]) == [
        "provider", "org", "org_id", "host", "bucket", "reason", "detail", "retry_in", "limit", "remaining", "reset_in", "conc",
        "live",
    ]  # fmt: skip
    assert (found[0]["reason"], found[0]["detail"]) == ("primary", "API rate limit exceeded")
    assert 50 < found[0]["retry_in"] <= 60


def test_delete_opens_a_gate_and_lets_its_batches_go_on(friend: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    made = github(postgres)
    key = GateKey("github", str(made.org.id), "github.com")
    deferred(postgres, made, "commits", "work_items")
    gate.backoff(key, 3600.0, reason="secondary", detail=SAID)
    with structlog.testing.capture_logs() as lines:
        answer = friend.delete("/gates/github/acme/github.com")
    assert answer.status_code == 200
    assert answer.json == {"gate": "github/acme/github.com", "bucket": "*", "windows": 1, "batches": 2}
    assert column(postgres, "SELECT not_before <= now() + interval '30 seconds' FROM sync_batches") == [True, True]
    assert [line["by"] for line in lines if line["event"] == "gate.cleared_by_hand"] == ["HTTP from 127.0.0.1"]
    again = friend.delete(f"/gates/github/{made.org.id}/github.com")
    assert (again.status_code, again.json and again.json["windows"]) == (200, 0)


def test_delete_of_one_bucket_leaves_the_others_closed(friend: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    key = key_of(postgres)
    for bucket in ("core", "graphql"):
        gate.backoff(key, 600.0, bucket=bucket, reason="primary")
    assert friend.delete("/gates/github/acme/github.com?bucket=core").status_code == 200
    assert [item["bucket"] for item in friend.get("/gates").json or () if item["retry_in"]] == ["graphql"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/gates/gitea/acme/github.com", "provider is 'gitea'"),
        ("/gates/github/whose/github.com", "there is no organisation 'whose'"),
        ("/gates/github/acme/GitHub.com", "host is 'GitHub.com'"),
        ("/gates/github/acme/github.com?bucket=cor", "bucket is 'cor'"),
        ("/gates/github/acme/github.com?buckets=core", "buckets is no parameter here: there are bucket"),
    ],
)
def test_delete_of_what_cannot_be_is_a_400_that_names_it(
    friend: FlaskClient, postgres: Postgres, path: str, words: str
) -> None:
    github(postgres)
    answer = friend.delete(path)
    assert answer.status_code == 400
    assert answer.json is not None
    assert words in answer.json["detail"]


def test_nobody_opens_a_gate_without_the_token(stranger: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    key = key_of(postgres)
    gate.backoff(key, 600.0, reason="secondary")
    assert stranger.delete("/gates/github/acme/github.com").status_code == 401
    assert stranger.get("/gates").status_code == 401
    assert not gate.check(key).allowed


def test_queues_tell_what_a_closed_gate_holds_back(
    friend: FlaskClient, postgres: Postgres, gate: Gate, redis_client: redis.Redis
) -> None:
    made = github(postgres)
    queued(postgres, made, "commits", "work_items")
    execute(postgres, "DELETE FROM task_outbox WHERE task <> 'run_sync_batch'")
    assert published(postgres, redis_client) == 2
    gate.backoff(GateKey("github", str(made.org.id), "github.com"), 600.0, reason="secondary")
    found = {item["queue"]: (item["ready"], item["held"]) for item in friend.get("/queues").json or ()}
    assert found["sync.github"] == (2, 2)
    assert found["sync.git"] == (0, 0)
    page = friend.get("/status").text
    assert 'title="Their gate is closed">2<' in page


def test_queues_know_of_none_where_postgres_does_not_tell(
    build: Callable[..., Runtime],
    app_of: Callable[[Runtime], Flask],
    gate: Gate,
    redis_url: str,
    redis_client: redis.Redis,
) -> None:
    over = build(DATABASE_URL=f"postgresql://u:pw@{NOWHERE}/d", REDIS_URL=redis_url, API_TOKEN=TOKEN)
    gate.backoff(GateKey("github", "00000000-0000-0000-0000-000000000001", "github.com"), 600.0, reason="secondary")
    redis_client.lpush("sync.github", "{}")
    found = {
        item["queue"]: (item["ready"], item["held"]) for item in with_token(app_of(over)).get("/queues").json or ()
    }
    assert found["sync.github"] == (1, None)


def test_status_shows_gates_with_their_countdown(friend: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    acme, orbit = key_of(postgres), key_of(postgres, "orbit")
    ask(gate, acme, 4200)
    gate.backoff(orbit, 125.0, reason="secondary", detail=SAID)
    page = friend.get("/status").text
    assert "1 closed of 2" in page
    assert re.search(r'<time class="chip bad" datetime="[^"]+" title="[^"]+Z">2 min 5 s</time>', page)
    assert f"secondary: {SAID}" in page
    assert "4\N{NARROW NO-BREAK SPACE}200" in page
    document = friend.get("/status?format=json").json
    assert document is not None
    assert (document["gates"]["known"], document["gates"]["closed"]) == (2, 1)
    assert [(item["org"], item["bucket"]) for item in document["gates"]["shown"]] == [("orbit", "*"), ("acme", "core")]


def test_status_escapes_what_a_provider_said(friend: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    gate.backoff(key_of(postgres, "<i>acme"), 60.0, reason="secondary", detail="<script>alert(1)</script>")
    page = friend.get("/status").text
    assert "<script" not in page
    assert "<i>acme" not in page


def test_status_says_when_no_gate_is_known(friend: FlaskClient, postgres: Postgres, gate: Gate) -> None:
    key = key_of(postgres)
    gate.check(key)
    assert "no provider with a limit was asked yet" in friend.get("/status").text
    with gate.slot(key, "repos.get") as permit:
        permit.observe(RateSignal(Kind.OK, bucket="core", quotas=(Quota("core", 5000, 4990, 3000.0),)))
    assert "no provider with a limit was asked yet" not in friend.get("/status").text


def test_gate_whose_redis_is_away_breaks_neither_page_nor_metrics(
    build: Callable[..., Runtime],
    app_of: Callable[[Runtime], Flask],
    postgres: Postgres,
    database_url: str,
    redis_url: str,
) -> None:
    over = build(
        DATABASE_URL=database_url, REDIS_URL=f"redis://{NOWHERE}", CELERY_BROKER_URL=redis_url, API_TOKEN=TOKEN
    )
    client = with_token(app_of(over))
    page = client.get("/status")
    assert page.status_code == 200
    assert "each worker keeps to its share of the limits" in page.text
    document = client.get("/status?format=json").json
    assert document is not None
    assert (document["gates"], document["queues"][0]["held"]) == (None, None)
    assert 'exporter_up{source="gate"} 0.0' in client.get("/metrics").text
    github(postgres)
    for answer in (client.get("/gates"), client.delete("/gates/github/acme/github.com")):
        assert answer.json is not None
        assert (answer.status_code, answer.json["type"]) == (503, "urn:dev-hops:store-away")
