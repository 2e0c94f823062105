"""What an autoscaler reads: a number that is true, or none."""

import json
import threading
import time
from collections.abc import Callable

import pytest
import redis
from flask import Flask
from flask.testing import FlaskClient

from tests.integration.api.visitors import NOWHERE, TOKEN
from worker_app import fleets, queue_depth, queues
from worker_app.api import auth
from worker_app.api.autoscale import KEPT
from worker_app.api.fresh import Fresh, Spans
from worker_app.errors import StoreAway
from worker_app.queue_depth import FleetDepth
from worker_app.runtime import Runtime

pytestmark = pytest.mark.integration
SCALER = "patient-heron-of-the-southern-marsh"
FIVE = f"{fleets.text_of(fleets.BUILT_IN)};worker-webhooks=webhooks"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def door(
    build: Callable[..., Runtime], app_of: Callable[[Runtime], Flask], database_url: str, redis_url: str
) -> Callable[..., FlaskClient]:
    """A door with a cache of its own, and these settings."""

    def opened(**changes: str) -> FlaskClient:
        tokens = {"API_TOKEN": TOKEN, "AUTOSCALE_TOKEN": SCALER}
        return app_of(
            build(**{"DATABASE_URL": database_url, "REDIS_URL": redis_url, **tokens, **changes})
        ).test_client()

    return opened


@pytest.fixture
def served(redis_client: redis.Redis) -> redis.Redis:
    """A Redis in which every built-in fleet has one worker."""
    for fleet, consumed in fleets.BUILT_IN.items():
        content = {"fleet": fleet, "queues": list(consumed), "slots": 4, "running": {consumed[0]: 1}}
        redis_client.set(f"{queues.PRESENCE_PREFIX}{fleet}@a", json.dumps(content), ex=30)
    return redis_client


def test_autoscaler_reads_work_and_age(door: Callable[..., FlaskClient], served: redis.Redis) -> None:
    served.lpush("sync", json.dumps({"headers": {"enqueued_at": time.time() - 12}}))
    answer = door().get("/autoscale/worker", headers=bearer(SCALER))
    assert answer.status_code == 200
    assert answer.json == {"work": 2, "oldest_age_seconds": pytest.approx(12, abs=1)}


def test_empty_fleet_has_no_work_and_an_age_of_zero(door: Callable[..., FlaskClient]) -> None:
    assert door().get("/autoscale/worker-heavy", headers=bearer(SCALER)).json == {"work": 0, "oldest_age_seconds": 0.0}


def test_map_of_the_settings_is_the_map_of_the_autoscaler(
    door: Callable[..., FlaskClient], served: redis.Redis
) -> None:
    served.lpush("webhooks", json.dumps({"headers": {}}))
    found = door(DEV_HOPS_FLEETS=FIVE).get("/autoscale/worker-webhooks", headers=bearer(SCALER))
    assert found.json == {"work": 1, "oldest_age_seconds": None}


@pytest.mark.parametrize("fleet", ["nope", "worker-webhooks", "Worker", "%20"])
def test_unknown_fleet_is_not_found_and_the_known_ones_are_named(door: Callable[..., FlaskClient], fleet: str) -> None:
    answer = door().get(f"/autoscale/{fleet}", headers=bearer(SCALER))
    assert (answer.status_code, answer.mimetype) == (404, "application/problem+json")
    assert "there are worker, worker-ingest, worker-heavy" in answer.text


@pytest.mark.parametrize("away", ["REDIS_URL", "DATABASE_URL", "CELERY_BROKER_URL"])
def test_store_that_is_away_gives_no_number(door: Callable[..., FlaskClient], away: str) -> None:
    absent = f"postgresql://u@{NOWHERE}/d" if away == "DATABASE_URL" else f"redis://{NOWHERE}/0"
    answer = door(**{away: absent}).get("/autoscale/worker", headers=bearer(SCALER))
    assert (answer.status_code, answer.mimetype) == (503, "application/problem+json")
    assert int(answer.headers["Retry-After"]) > 0
    assert "work" not in (answer.json or {})


def test_schema_that_is_behind_gives_no_number(door: Callable[..., FlaskClient], empty_database_url: str) -> None:
    answer = door(DATABASE_URL=empty_database_url).get("/autoscale/worker", headers=bearer(SCALER))
    assert answer.status_code == 503
    assert "dev-hops migrate" in answer.text


def test_token_of_the_api_opens_it_too(door: Callable[..., FlaskClient]) -> None:
    assert door().get("/autoscale/worker", headers=bearer(TOKEN)).status_code == 200


@pytest.mark.parametrize("path", ["/status", "/queues", "/healthz/workers", "/runs", "/autoscale", "/autoscale/a/b"])
def test_token_of_the_autoscaler_opens_nothing_else(
    door: Callable[..., FlaskClient], path: str, naps: list[float]
) -> None:
    assert door().get(path, headers=bearer(SCALER)).status_code == 401
    assert naps == [auth.GUESS_SECONDS]


def test_token_of_the_autoscaler_is_no_cookie(door: Callable[..., FlaskClient]) -> None:
    client = door()
    assert client.post("/login", data={"token": SCALER}).status_code == 401
    assert client.post("/syncs", json={"source": "x"}, headers=bearer(SCALER)).status_code == 401


@pytest.mark.parametrize("token", ["", "x", SCALER[:-1], f"{SCALER}x", SCALER.upper()])
def test_wrong_token_of_an_autoscaler_is_refused(door: Callable[..., FlaskClient], token: str) -> None:
    client = door()
    assert client.get("/autoscale/worker", headers=bearer(token)).status_code == 401
    assert client.get("/autoscale/worker").status_code == 401


def test_autoscaler_alone_comes_in_where_no_other_token_is_set(door: Callable[..., FlaskClient]) -> None:
    client = door(API_TOKEN="")
    assert client.get("/autoscale/worker", headers=bearer(SCALER)).status_code == 200
    assert "API_TOKEN is not set" in client.get("/queues", headers=bearer(SCALER)).text
    client.set_cookie(
        auth.COOKIE, auth.Guard(None)._signer.sign("read").decode()
    )  # what anybody could make without a token
    assert client.get("/autoscale/worker").status_code == 401


def test_no_token_at_all_is_told(door: Callable[..., FlaskClient]) -> None:
    answer = door(API_TOKEN="", AUTOSCALE_TOKEN="").get("/autoscale/worker", headers=bearer(SCALER))
    assert answer.status_code == 401
    assert "neither AUTOSCALE_TOKEN nor API_TOKEN is set" in answer.text


def test_stores_are_read_once_for_requests_of_a_moment(
    door: Callable[..., FlaskClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, reads, real = door(), [], queue_depth.fleet_depths

    def counted(*given: object) -> list[FleetDepth]:
        reads.append(given)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(queue_depth, "fleet_depths", counted)
    answers = [client.get(f"/autoscale/{name}", headers=bearer(SCALER)) for name in (*fleets.BUILT_IN, "worker")]
    assert {answer.status_code for answer in answers} == {200}
    assert len(reads) == 1


def test_fleets_with_a_worker_each_are_healthy(door: Callable[..., FlaskClient], served: redis.Redis) -> None:
    answer = door().get("/healthz/workers", headers=bearer(TOKEN))
    assert answer.status_code == 200
    assert answer.json == {
        "status": "ok",
        "fleets": [{"fleet": name, "workers": 1, "slots": 4} for name in fleets.BUILT_IN],
    }


def test_fleet_without_a_live_worker_is_unhealthy(door: Callable[..., FlaskClient], served: redis.Redis) -> None:
    served.delete(f"{queues.PRESENCE_PREFIX}worker-heavy@a")
    answer = door().get("/healthz/workers", headers=bearer(TOKEN))
    assert answer.status_code == 503
    assert answer.json is not None
    assert answer.json["status"] == "unavailable"
    assert answer.json["fleets"][2] == {"fleet": "worker-heavy", "workers": 0, "slots": 0}


def test_health_of_workers_is_for_those_with_the_token(door: Callable[..., FlaskClient]) -> None:
    assert door().get("/healthz/workers").status_code == 401


def test_health_of_workers_is_unknown_without_redis(door: Callable[..., FlaskClient]) -> None:
    answer = door(REDIS_URL=f"redis://{NOWHERE}/0").get("/healthz/workers", headers=bearer(TOKEN))
    assert (answer.status_code, answer.mimetype) == (503, "application/problem+json")


class Source:
    """What is read, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0
        self.fault: StoreAway | None = None
        self.fresh = Fresh(self.read, Spans(value=5.0, fault=1.0, patience=10.0), lambda: self.now)

    def read(self) -> int:
        self.reads += 1
        if self.fault is not None:
            raise self.fault
        return self.reads


def test_value_is_kept_for_five_seconds_and_no_longer() -> None:
    source = Source()
    assert KEPT.value <= 5.0
    assert source.fresh.get() == 1
    source.now += 4.9
    assert source.fresh.get() == 1
    source.now += 0.2
    assert source.fresh.get() == 2


def test_old_value_is_not_given_out_for_a_store_that_is_away() -> None:
    source = Source()
    source.fresh.get()
    source.now, source.fault = 106.0, StoreAway("gone")
    for _ in range(2):
        with pytest.raises(StoreAway, match="gone"):
            source.fresh.get()
    assert source.reads == 2
    source.now, source.fault = 107.5, None
    assert source.fresh.get() == 3


def test_those_who_wait_for_a_reader_share_what_it_finds() -> None:
    source, met, found = Source(), threading.Barrier(9), []
    begun, go_on = threading.Event(), threading.Event()
    real = source.read

    def slow() -> int:
        begun.set()
        go_on.wait(10)
        return real()

    source.fresh = Fresh(slow, Spans(value=5.0, fault=1.0, patience=10.0), lambda: source.now)

    def ask() -> None:
        met.wait(5)
        found.append(source.fresh.get())

    askers = [threading.Thread(target=ask) for _ in range(8)]
    for one in askers:
        one.start()
    met.wait(5)
    assert begun.wait(5)
    go_on.set()
    for one in askers:
        one.join(10)
    assert found == [1] * 8


def test_who_waits_too_long_for_a_reader_gets_no_number() -> None:
    go_on = threading.Event()
    fresh = Fresh(lambda: go_on.wait(10), Spans(value=5.0, fault=1.0, patience=0.05), time.monotonic)
    reader = threading.Thread(target=fresh.get)
    reader.start()
    try:
        while not fresh._lock.locked():
            pass
        with pytest.raises(StoreAway, match="did not answer in time"):
            fresh.get()
    finally:
        go_on.set()
        reader.join(10)
