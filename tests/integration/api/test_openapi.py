import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import redis
import schemathesis
from flask import Flask
from flask.testing import FlaskClient

from tests import seed
from tests.integration.api import test_server
from tests.integration.api.test_server import Door
from tests.integration.api.test_status import fail, present, start
from tests.integration.api.visitors import TOKEN
from tests.waiting import deferred, github
from worker_app import queues
from worker_app.api import auth, openapi, routes
from worker_app.api.operation import Access
from worker_app.embedded.stores import StoreAddresses
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration
SEED = 20261130
EXAMPLES = 12  # requests that are made up for each operation, beside those at the bounds of every field
CHECKS = (
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection", "unsupported_method", "allow_header_conformance",
)  # fmt: skip
# A source or an organisation that nobody has is a 400 that names the field, although the schema takes the text.


def document(client: FlaskClient) -> dict[str, Any]:
    answer = client.get("/openapi.json")
    assert (answer.status_code, answer.mimetype) == (200, "application/json")
    found: dict[str, Any] = answer.json or {}
    return found


def operations(found: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def test_document_has_every_route_and_no_other(app: Flask, friend: FlaskClient) -> None:
    served = {
        (re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule), method)
        for rule in app.url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert {(path, method) for path, method, _ in operations(document(friend))} == served


def test_document_is_valid_openapi(friend: FlaskClient) -> None:
    found = document(friend)
    schemathesis.openapi.from_dict(found).validate()
    for schema in found["components"]["schemas"].values():
        jsonschema_rs.meta.validate({**schema, "$schema": "https://json-schema.org/draft/2020-12/schema"})
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(found)))
    assert named == set(found["components"]["schemas"])
    names = [operation["operationId"] for _, _, operation in operations(found)]
    assert len(set(names)) == len(names)


def test_document_needs_the_token(stranger: FlaskClient) -> None:
    assert stranger.get("/openapi.json").status_code == 401


def test_every_operation_that_names_a_scheme_is_closed_to_strangers(stranger: FlaskClient, friend: FlaskClient) -> None:
    closed = [(path, method) for path, method, operation in operations(document(friend)) if operation["security"]]
    assert len(closed) > 20
    for path, method in closed:
        filled = re.sub(r"\{\w+_id\}", "7891b252-7fcd-4a32-9708-618ec5b068ae", path)
        answer = stranger.open(re.sub(r"\{\w+\}", "x", filled), method=method)
        assert (path, method, answer.status_code) == (path, method, 401)
        assert answer.mimetype == "application/problem+json"


def test_guard_opens_what_the_table_calls_open() -> None:
    by_access = {access: {item.name for item in routes.OPERATIONS if item.access is access} for access in Access}
    assert by_access[Access.OPEN] == auth.OPEN_ENDPOINTS
    assert by_access[Access.AUTOSCALE] == {auth.AUTOSCALE_ENDPOINT}


def test_cookie_may_read_and_nothing_else(stranger: FlaskClient, friend: FlaskClient) -> None:
    stranger.post("/login", data={"token": TOKEN})
    for path, method, operation in operations(document(friend)):
        if method == "GET" or not operation["security"]:
            continue
        assert {"cookie": []} not in operation["security"]
        filled = re.sub(r"\{\w+_id\}", "7891b252-7fcd-4a32-9708-618ec5b068ae", path)
        answer = stranger.open(re.sub(r"\{\w+\}", "x", filled), method=method)
        assert (path, answer.status_code) == (path, 401)
        assert "the cookie of a browser may read and nothing else" in answer.text
    assert stranger.get("/runs").status_code == 200


def test_schema_of_a_run_has_the_fields_of_the_answer(friend: FlaskClient, postgres: Postgres) -> None:
    seed.manual_run(postgres, seed.seed(postgres))
    schemas = document(friend)["components"]["schemas"]
    assert list(schemas["RunView"]["properties"]) == list((friend.get("/runs").json or [{}])[0])
    assert schemas["RunView"]["required"] == list(schemas["RunView"]["properties"])
    assert schemas["RunView"]["properties"]["error"] == {"type": ["string", "null"]}
    assert schemas["RunView"]["properties"]["id"] == {"type": "string", "format": "uuid"}


def test_parameters_are_those_that_are_checked() -> None:
    found = openapi.document(routes.OPERATIONS, routes.PLACES, "1")
    parameters = {item["name"]: item for item in found["paths"]["/runs"]["get"]["parameters"]}
    assert list(parameters) == ["limit", "cursor", "state", "org", "source"]
    assert parameters["limit"]["schema"] == {"type": "integer", "default": 20, "minimum": 1, "maximum": 1000}
    assert "deferred" in parameters["state"]["schema"]["enum"]


@pytest.fixture
def filled(postgres: Postgres, redis_url: str, redis_client: redis.Redis) -> None:
    """Two organisations with every sort of row that an answer may show, and a worker of each fleet."""
    for fleet in queues.FLEETS:
        present(redis_client, f"{fleet}@a", fleet, 4, {})
        redis_client.persist(f"{queues.PRESENCE_PREFIX}{fleet}@a")  # as if its heartbeat went on
    acme, orbit = seed.seed(postgres), github(postgres, "orbit")
    seed.seed(postgres, "idle", path="/srv/idle")
    seed.schedule(postgres, acme)
    seed.schedule(postgres, acme, cron="0 3 * * *", due=timedelta(0))
    fail(postgres, start(postgres, seed.seed(postgres, "ended"), total=10, records=3), "the remote said no")
    start(postgres, acme, total=100, records=40)
    deferred(postgres, orbit, "commits", "work_items")
    gate = Gate.from_url(redis_url)
    gate.backoff(
        GateKey("github", str(orbit.org.id), "github.com"), 600.0, bucket="core", reason="primary", detail="limit"
    )
    gate.close()


def order_of_requests(friend: FlaskClient, postgres: Postgres) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """A request that succeeds for each operation, in an order in which each can: name, path, what it brings."""
    for name in (
        "livez",
        "readyz",
        "metrics",
        "root",
        "status",
        "openapi",
        "queues",
        "gates",
        "runs",
        "schedules",
        "sources",
    ):
        yield name, f"/{'' if name == 'root' else 'openapi.json' if name == 'openapi' else name}", {}
    yield "login", "/login", {"data": {"token": TOKEN}}
    yield "autoscale", "/autoscale/worker", {}
    yield "workers_health", "/healthz/workers", {}
    states = {run["state"]: f"/runs/{run['id']}" for run in friend.get("/runs").json or ()}
    yield "run", states["running"], {}
    yield "run_batches", f"{states['deferred']}/batches", {}
    yield "explain_run", f"{states['deferred']}/explain", {}
    yield "clear_gate", "/gates/github/orbit/github.com", {}
    yield "retry_run", f"{states['failed']}/retry", {}
    yield "cancel_run", f"{states['deferred']}/cancel", {}
    (idle,) = seed.column(postgres, "SELECT id FROM sources WHERE external_name = '/srv/idle'")
    yield "sync", "/syncs", {"json": {"source": str(idle)}}
    yield "add_schedule", "/schedules", {"json": {"source": str(idle), "cron": "@daily"}}
    path = f"/schedules/{(friend.get('/schedules').json or [{}])[0]['id']}"
    yield "schedule", path, {}
    yield "next_slots", f"{path}/next", {}
    for name in ("pause", "resume"):
        yield f"{name}_schedule", f"{path}/{name}", {}
    yield "remove_schedule", path, {}


def test_every_answer_is_as_described(friend: FlaskClient, postgres: Postgres, filled: None) -> None:
    found = document(friend)
    described = {operation["operationId"]: (method, operation) for _, method, operation in operations(found)}
    seen = set()
    for name, path, brings in order_of_requests(friend, postgres):
        method, operation = described[name]
        answer = friend.open(path, method=method, headers={"Accept": "application/json"}, **brings)
        assert (name, answer.status_code < 400) == (name, True), answer.text
        expected = operation["responses"][str(answer.status_code)]
        assert set(expected.get("headers", ())) - {"Link"} <= set(answer.headers.keys())
        if answer.mimetype == "application/json":
            schema = {**expected["content"]["application/json"]["schema"], "components": found["components"]}
            jsonschema_rs.Draft202012Validator(schema, validate_formats=True).validate(answer.json)
        seen.add(name)
    assert seen == set(described)


@pytest.fixture
def door(
    tmp_path: Path, stores: StoreAddresses, door_database_url: str, database_url: str, filled: None
) -> Iterator[Door]:
    """A process of the API over what was filled in."""
    started = test_server.start(tmp_path, door_database_url, stores.redis_url)
    yield started
    assert started.stop()[0] == 0


@pytest.mark.timeout(240)  # about 20 s of a free core
def test_answers_to_made_up_requests_are_as_described(door: Door, tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "schemathesis"), "run", f"http://127.0.0.1:{door.port}/openapi.json",
        "--header", f"Authorization: Bearer {TOKEN}", "--checks", ",".join(CHECKS), "--mode", "all",
        "--max-examples", str(EXAMPLES), "--seed", str(SEED), "--continue-on-failure", "--no-shrink",
        "--exclude-path", "/login",  # a made-up token waits half a second
        "--suppress-health-check", "all", "--request-timeout", "15", "--warnings", "off", "--no-color",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout[-20000:] + done.stderr[-2000:]
    log = door.log.read_text()
    assert '"status": 500' not in log
    assert log.count("http.request") > 500
