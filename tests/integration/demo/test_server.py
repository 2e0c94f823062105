import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest
import requests

from tests.integration.demo.conftest import Client
from worker_app.demo import faults
from worker_app.demo.fake import ContractBreach, FakeGitHub
from worker_app.demo.server import Latency
from worker_app.demo.world import World

CLIENTS = 25


def test_server_answers_many_kept_connections_at_once(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client]
) -> None:
    github = start(latency=Latency(0.1))
    clients, gate = [connect(github) for _ in range(CLIENTS)], threading.Barrier(CLIENTS)

    def get(client: Client) -> set[int]:
        gate.wait(10)
        return {client.get("/repos/acme/api").status_code for _ in range(5)}

    with ThreadPoolExecutor(CLIENTS) as pool:
        assert list(pool.map(get, clients)) == [{200}] * CLIENTS
    assert max(entry.in_flight for entry in github.log.entries()) > CLIENTS // 2


def test_server_ends_while_somebody_waits(start: Callable[..., FakeGitHub], connect: Callable[..., Client]) -> None:
    github = start(latency=Latency(60))
    arrived = threading.Event()
    github.before_each_answer(lambda _: arrived.set())
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(connect(github).get, "/user")
        assert arrived.wait(5)
        github.__exit__(None, None, None)
        with pytest.raises(requests.ConnectionError):
            waiting.result(5)


def test_latency_can_be_changed_while_it_runs(github: FakeGitHub, client: Client) -> None:
    github.latency.least = github.latency.most = 0.05
    client.get("/user")
    (entry,) = github.log.entries()
    assert entry.left_at - entry.arrived_at >= 0.05


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/repos/acme/api/issues"), ("DELETE", "/repos/acme/api"), ("GET", "/graphql")]
)
def test_method_that_is_not_served_is_not_found(github: FakeGitHub, method: str, path: str) -> None:
    headers = {"authorization": f"Bearer {github.token}"}
    assert requests.request(method, github.url + path, headers=headers, timeout=5).status_code == 404


def test_client_that_goes_away_leaves_nothing_in_flight(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.drip(1.0))
    github.faults.add(faults.delivery(repeat=5000), times=1)
    with closing(HTTPConnection(github.url.removeprefix("http://"), timeout=5)) as connection:
        headers = {"authorization": f"Bearer {github.token}", "user-agent": "test"}
        connection.request("GET", "/user", headers=headers)
        assert connection.getresponse().status == 200
    deadline = time.monotonic() + 10
    while not github.log.entries() and time.monotonic() < deadline:
        threading.Event().wait(0.05)
    assert client.get("/user").status_code == 200
    assert github.log.entries()[-1].in_flight == 1


def test_defect_of_the_fake_fails_the_block(world: World) -> None:
    github = FakeGitHub(world).__enter__()
    github.before_each_answer(lambda _: 1 / 0)
    headers = {"authorization": f"Bearer {github.token}"}
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{github.url}/user", headers=headers, timeout=5)
    with pytest.raises(ContractBreach, match="division by zero"):
        github.__exit__(None, None, None)


def test_request_without_a_user_agent_is_refused(github: FakeGitHub) -> None:
    with closing(HTTPConnection(github.url.removeprefix("http://"), timeout=5)) as connection:
        connection.request("GET", "/user", headers={"authorization": f"Bearer {github.token}"})
        answer = connection.getresponse()
        assert (answer.status, b"User-Agent" in answer.read()) == (403, True)


def test_fake_that_remembers_gives_the_same_answer_until_it_forgets(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client], world: World
) -> None:
    github = start(remembers=True)
    client, repository = connect(github), world.named("acme/api")
    assert repository is not None
    queries = ['query { repository(owner: "acme", name: "api") { isArchived } }', "query { rateLimit { remaining } }"]

    def told() -> tuple[object, ...]:
        repository_told = client.get("/repos/acme/api").json()["archived"]
        archived = client.ask(queries[0]).json()["data"]["repository"]["isArchived"]
        return repository_told, archived, client.ask(queries[1]).json()["data"]["rateLimit"]["remaining"]

    first = told()
    repository.is_archived = True
    assert told() == (False, False, first[2] - 2)  # type: ignore[operator]
    github.forget()
    assert told()[:2] == (True, True)


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b'{"query": 1}', b'{"query": "query {"}'])
def test_graphql_body_that_is_none_gets_errors(github: FakeGitHub, body: bytes) -> None:
    headers = {"authorization": f"Bearer {github.token}"}
    answer = requests.post(f"{github.url}/graphql", data=body, headers=headers, timeout=5)
    assert answer.status_code == 200
    assert answer.json()["errors"]


@pytest.fixture
def process() -> Iterator[dict[str, str]]:
    """A fake in a process of its own: its addresses and its token."""
    command = [sys.executable, "-m", "worker_app.demo", "--repositories", "1", "--pull-requests", "4", "--seed", "5"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        found: dict[str, str] = json.loads(running.stdout.readline())
        yield found
    finally:
        running.send_signal(signal.SIGTERM)
        with running:
            assert running.wait(10) == 0


def order(process: dict[str, str], method: str, name: str, document: Any = None) -> Any:
    answer = requests.request(method, f"{process['control']}/{name}", json=document, timeout=5)
    return answer.json() if answer.ok else answer.status_code


def test_process_serves_and_obeys_its_control_port(process: dict[str, str]) -> None:
    def get(path: str) -> requests.Response:
        headers = {"authorization": f"Bearer {process['token']}"}
        return requests.get(process["url"] + path, headers=headers, timeout=5, allow_redirects=False)

    assert get("/repos/acme/api").status_code == 200
    order(process, "POST", "faults", {"kind": "status", "arguments": {"code": 502}, "path": "/user", "times": None})
    assert get("/user").status_code == 502
    order(process, "DELETE", "faults")
    assert get("/user").status_code == 200
    order(process, "POST", "latency", {"least": 0.0, "most": 0.001})
    order(process, "POST", "move", {"repository": "acme/api", "name": "core"})
    assert get("/repos/acme/api").status_code == 301
    assert len(order(process, "POST", "live", {"steps": 3})) == 3
    assert set(order(process, "GET", "truth")) == {"acme/core"}
    order(process, "POST", "revoke", {"credential": "demo"})
    assert get("/user").status_code == 401
    assert [entry["status"] for entry in order(process, "GET", "log")] == [200, 502, 200, 301, 401]
    assert order(process, "GET", "limits")["accepted"] == {"core": 4}


@pytest.mark.parametrize(
    ("method", "name", "document", "status"),
    [("GET", "wishes", None, 404), ("POST", "faults", {"kind": "wish"}, 400), ("POST", "move", {}, 400)],
)
def test_process_refuses_orders_that_it_does_not_know(
    process: dict[str, str], method: str, name: str, document: Any, status: int
) -> None:
    assert order(process, method, name, document) == status
