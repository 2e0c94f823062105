"""The canary scan: real processes sync with a planted secret, batches and tasks fail in every way that shows one, and afterwards
the secret is nowhere but in the one row where it is sealed.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
from celery import Celery

from tests.canary import Canary, postgres_places, process_places, redis_places
from tests.integration.worker.limited import QUEUE, Stage
from tests.integration.worker.test_redaction import LEAKING, LEAKS, SMALL, captured, results, send
from tests.processes import Service, wait_for
from tests.seed import column, execute
from tests.waiting import queued
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.messages import Request, Response
from worker_app.store.postgres import Postgres

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

CANARY = Canary("Zq8f3a+kn4ry/41~7kxOp")
AUTH, API_TOKEN = ("people", "flowers-of-a-test"), "a-token-for-the-door-of-a-test"
REFUSED, FORBIDDEN, BROKEN = r".*/pulls/comments.*", r".*/deployments.*", r".*/actions/runs.*"
PATHS = ("/status", "/queues", "/gates", "/runs", "/schedules", "/sources", "/metrics", "/nothing-here")


def echo(status: int) -> Callable[[Request, Response], Response]:
    """A change by which the fake answers with the headers that it was sent."""

    def change(request: Request, _: Response) -> Response:
        said = f"you sent Authorization: {request.headers['authorization']} and that is wrong"
        document = {"message": said, "documentation_url": "https://docs.github.com", "sent": dict(request.headers)}
        return Response(status, document, {"X-Echo": request.headers["authorization"]}, is_misbehaviour=True)

    return change


@pytest.fixture
def service(tmp_path: Path, database_url: str, redis_url: str) -> Service:
    return Service(tmp_path, database_url, redis_url)


@pytest.fixture
def stage(service: Service, postgres: Postgres) -> Iterator[Stage]:
    with FakeGitHub(generate(SMALL), tokens={"demo": CANARY.value}) as fake:
        yield Stage(replace(service, program=LEAKING), postgres, fake)


@pytest.fixture
def client_app(redis_url: str) -> Iterator[Celery]:
    made = Celery("t", broker=redis_url, backend=redis_url)
    yield made
    made.close()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


@contextmanager
def doors(service: Service, pids: list[int]) -> Iterator[dict[str, str]]:
    """Flower, the API and beat beside the worker; gives the addresses of the first two."""
    ports = {"flower": free_port(), "api": free_port()}
    changes = {
        "flower": {
            "FLOWER_HOST": "127.0.0.1",
            "FLOWER_PORT": str(ports["flower"]),
            "FLOWER_BASIC_AUTH": ":".join(AUTH),
        },
        "api": {"API_HOST": "127.0.0.1", "API_PORT": str(ports["api"]), "API_TOKEN": API_TOKEN},
        "beat": {},
    }
    with ExitStack() as running:
        for role, given in changes.items():
            process = running.enter_context(service.running(role, role, **given))
            pids.append(process.pid)
        yield {role: f"http://127.0.0.1:{port}" for role, port in ports.items()}


def get(url: str, **options: Any) -> requests.Response:
    return requests.get(url, timeout=10, **options)


def has_seen(flower: str, *words: str) -> bool:
    try:
        reply = get(f"{flower}/api/tasks", auth=AUTH)
    except requests.ConnectionError:
        return False
    return reply.ok and all(word in reply.text for word in words)


def test_c4_c5_c6_canary_is_found_nowhere_but_sealed(
    stage: Stage, service: Service, postgres: Postgres, client_app: Celery, redis_client: redis.Redis, redis_url: str
) -> None:
    stage.fake.faults.add(echo(401), path=REFUSED, times=None)
    stage.fake.faults.add(echo(403), path=FORBIDDEN, times=None)
    stage.fake.faults.add(echo(500), path=BROKEN, times=None)
    (made,) = stage.org("acme", CANARY.value)
    ids = queued(postgres, made, "review_comments", "pipeline_runs", "deployments", "commits", queue=QUEUE)
    execute(
        postgres, "UPDATE sync_batches SET attempt = 4 WHERE dataset = 'pipeline_runs'"
    )  # the next fault is the last
    changes = {"WORKER_SEND_TASK_EVENTS": "true", "CELERY_QUEUES": f"default,scheduler,sync,metrics,{QUEUE}"}
    pids: list[int] = []
    with captured(client_app) as events, doors(service, pids) as at:
        wait_for(lambda: has_seen(at["flower"]), "Flower listens", 30)
        with stage.worker("w", slots=4, **changes) as worker:
            pids.append(worker.process.pid)
            tasks = send(client_app, postgres, made, *LEAKS)
            results(redis_client, tasks)
            wait_for(lambda: stage.states(ids) == {"failed", "succeeded"}, "the batches have ended", 40)
            wait_for(lambda: has_seen(at["flower"], "tests.leak", "FAILURE"), "Flower knows of the faults", 20)
            known = {"Authorization": f"Bearer {API_TOKEN}"}
            bodies = [get(at["api"] + path, headers=known) for path in PATHS]
            (run_id,) = column(postgres, "SELECT DISTINCT run_id FROM sync_batches")
            bodies += [get(f"{at['api']}/runs/{run_id}", headers=known)]
            named = ("workers", "tasks", *(f"task/info/{task}" for task in tasks))
            bodies += [get(f"{at['flower']}/api/{name}", auth=AUTH) for name in named]
            assert {body.status_code for body in bodies} <= {200, 404}
            with redis.Redis.from_url(redis_url) as raw:
                places = [*redis_places(raw), *process_places(pids)]
    places += postgres_places(postgres)
    places += [(f"body {body.url}", body.content + repr(body.headers).encode()) for body in bodies]
    places += [("events", repr(events).encode())]
    places += [(f"log {path.name}", path.read_bytes()) for path in service.folder.rglob("*") if path.is_file()]
    _require_all_kinds(places)
    stored = {row["dataset"]: row for row in stage.rows(ids)}
    assert stored["commits"]["state"] == "succeeded"
    assert [stored[name]["state"] for name in ("review_comments", "pipeline_runs", "deployments")] == ["failed"] * 3
    assert "you sent Authorization: ***" in stored["deployments"]["error"]
    assert CANARY.found_in(places) == []
    _require_that_the_scan_finds_what_is_planted(postgres, redis_url)


def _require_all_kinds(places: list[tuple[str, bytes]]) -> None:
    """The scan looked at something of every kind, and at the one row that holds the sealed secret."""
    names = {name.split()[0] for name, _ in places}
    assert names == {"redis", "process", "table", "body", "events", "log"}
    assert {"table org_credentials", "table sync_batches", "events"} <= {name for name, _ in places}
    assert {"log w.log", "log flower.log", "log api.log", "log beat.log"} <= {name for name, _ in places}
    assert any(name.startswith("redis celery-task-meta-") for name, _ in places)


def _require_that_the_scan_finds_what_is_planted(postgres: Postgres, redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as raw:
        raw.hset("planted", "a", CANARY.value)
        raw.zadd("scored", {f"x{CANARY.value}": 1.0})
        assert set(CANARY.found_in(redis_places(raw))) == {"redis planted", "redis scored"}
    execute(postgres, "UPDATE sync_batches SET error = :said", said=f"it was {CANARY.value}")
    execute(postgres, "UPDATE org_credentials SET ciphertext = :raw", raw=b"\x00" + CANARY.value.encode())
    execute(
        postgres, "UPDATE sources SET state_evidence = jsonb_build_object('a', CAST(:said AS text))", said=CANARY.value
    )
    assert set(CANARY.found_in(postgres_places(postgres))) == {
        "table sync_batches",
        "table org_credentials",
        "table sources",
    }
