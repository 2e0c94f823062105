import json
from uuid import UUID

import click.testing
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests import seed
from worker_app.cli.main import cli
from worker_app.store import sources
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration


def detail(answer: TestResponse) -> str:
    assert answer.mimetype == "application/problem+json"
    assert answer.json is not None
    return str(answer.json["detail"])


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/queues", ["queues"]),
        ("/runs", ["runs", "list"]),
        ("/schedules", ["schedules", "list"]),
        ("/sources", ["sources", "list"]),
    ],
)
def test_resource_is_what_the_command_line_prints(
    friend: FlaskClient,
    postgres: Postgres,
    database_url: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    command: list[str],
) -> None:
    made = seed.seed(postgres)
    seed.schedule(postgres, made)
    seed.manual_run(postgres, made)
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("REDIS_URL", redis_url)
    printed = click.testing.CliRunner().invoke(cli, [*command, "--json"], catch_exceptions=False).stdout
    answer = friend.get(path)
    assert answer.status_code == 200
    assert json.loads(answer.text) == json.loads(printed)
    assert list(json.loads(answer.text)[0]) == list(json.loads(printed)[0])


def test_runs_are_limited_and_of_one_organisation(friend: FlaskClient, postgres: Postgres) -> None:
    acme, orbit = seed.seed(postgres), seed.seed(postgres, "orbit")
    seed.manual_run(postgres, acme)
    newest = seed.manual_run(postgres, orbit)
    assert [run["id"] for run in friend.get("/runs?limit=1").json or ()] == [str(newest)]
    assert [run["org"] for run in friend.get("/runs?org=acme").json or ()] == ["acme"]
    assert [run["org"] for run in friend.get(f"/runs?org={acme.org.id}").json or ()] == ["acme"]


def test_run_is_found_by_its_id(friend: FlaskClient, postgres: Postgres) -> None:
    run_id = seed.manual_run(postgres, seed.seed(postgres))
    answer = friend.get(f"/runs/{run_id}")
    assert answer.json is not None
    assert (answer.json["id"], answer.json["state"]) == (str(run_id), "queued")


@pytest.mark.parametrize("run_id", ["7891b252-7fcd-4a32-9708-618ec5b068ae", "latest", "0"])
def test_unknown_run_is_a_404(friend: FlaskClient, run_id: str) -> None:
    answer = friend.get(f"/runs/{run_id}")
    assert answer.status_code == 404
    assert run_id in detail(answer)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/runs?limit=0", "limit is '0': give a whole number from 1 to 1000"),
        ("/runs?limit=1001", "limit is '1001'"),
        ("/runs?limit=-1", "limit is '-1'"),
        ("/runs?limit=%D9%A3", "limit is '٣'"),
        ("/runs?limit=" + "9" * 5000, "limit is '999"),
        ("/runs?limit=", "limit is ''"),
        ("/runs?org=whose", "org is 'whose': there is no organisation"),
        ("/schedules?org=%00", "org is '\\x00'"),
        ("/sources?org=", "org is ''"),
        ("/runs?limt=3", "limt is no parameter here: there are limit, cursor, state, org, source"),
        ("/queues?org=acme", "org is no parameter here: there are none"),
        ("/status?format=yaml", "format is 'yaml': give html or json"),
    ],
)
def test_wrong_parameter_is_a_400_that_names_it(friend: FlaskClient, path: str, words: str) -> None:
    answer = friend.get(path)
    assert answer.status_code == 400
    assert words in detail(answer)


def test_sync_makes_a_run(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    answer = friend.post("/syncs", json={"source": made.source.external_name})
    assert answer.status_code == 202
    assert answer.json is not None
    assert answer.headers["Location"] == f"/runs/{answer.json['run_id']}"
    assert seed.column(postgres, "SELECT id FROM sync_runs") == [UUID(answer.json["run_id"])]
    assert seed.column(postgres, "SELECT task FROM task_outbox") == ["dispatch_sync_run"]


def test_sync_of_a_busy_source_names_the_active_run(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    active = seed.manual_run(postgres, made)
    answer = friend.post("/syncs", json={"source": str(made.source.id), "org": "acme"})
    assert answer.status_code == 409
    assert f"GET /runs/{active}" in detail(answer)
    assert answer.json is not None
    assert answer.json["active_run_id"] == str(active)


def test_sync_with_the_same_key_is_the_same_run(friend: FlaskClient, postgres: Postgres) -> None:
    made = seed.seed(postgres)
    answers = [
        friend.post("/syncs", json={"source": str(made.source.id)}, headers={"Idempotency-Key": "deploy-7"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json == answers[1].json
    assert seed.column(postgres, "SELECT count(*) FROM sync_runs") == [1]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, "source is None: give the name or the id of a source"),
        ({"source": ""}, "source is ''"),
        ({"source": 7}, "source is 7"),
        ({"source": "nope"}, "source is 'nope': there is no source"),
        ({"source": "\ud800\u0000"}, "source is"),
        ({"source": "app", "org": ["acme"]}, "org is ['acme']"),
        ({"source": "app", "org": "whose"}, "org is 'whose'"),
        ({"source": "app", "dataset": "x"}, "dataset is no field here: there are source, org"),
        ([], "the body is no object"),
        (None, "the body is no object"),
    ],
)
def test_wrong_order_is_a_400_that_names_the_field(
    friend: FlaskClient, postgres: Postgres, body: object, words: str
) -> None:
    seed.seed(postgres)
    answer = friend.post("/syncs", data=json.dumps(body), content_type="application/json")
    assert answer.status_code == 400
    assert words in detail(answer)


def test_order_that_is_no_json_is_refused(friend: FlaskClient) -> None:
    assert friend.post("/syncs", data="{", content_type="application/json").status_code == 400
    assert friend.post("/syncs", data={"source": "app"}).status_code == 415


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_key_of_a_wrong_length_is_a_400(friend: FlaskClient, postgres: Postgres, key: str) -> None:
    made = seed.seed(postgres)
    answer = friend.post("/syncs", json={"source": str(made.source.id)}, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert "Idempotency-Key" in detail(answer)


def test_source_of_two_organisations_is_chosen_by_org(friend: FlaskClient, postgres: Postgres) -> None:
    seed.seed(postgres)
    orbit = seed.seed(postgres, "orbit")
    assert friend.post("/syncs", json={"source": "/srv/app"}).status_code == 400
    answer = friend.post("/syncs", json={"source": "/srv/app", "org": "orbit"})
    assert answer.status_code == 202
    assert seed.column(postgres, "SELECT org_id FROM sync_runs") == [orbit.org.id]


def test_names_of_every_script_survive(friend: FlaskClient, postgres: Postgres) -> None:
    with postgres.transaction() as tx:
        org = sources.add_org(tx, "ærø", "UTC")
        sources.add_source(tx, org.id, "git", "localhost", "/srv/地図", "/srv/地図")
    found = friend.get("/sources?org=ærø").json
    assert found is not None
    assert [source["external_name"] for source in found] == ["/srv/地図"]
