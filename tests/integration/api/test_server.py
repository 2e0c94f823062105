import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest

from tests import seed
from tests.integration.api.visitors import TOKEN
from tests.processes import wait_for
from worker_app.embedded.ports import free_port
from worker_app.embedded.stores import StoreAddresses
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Door:
    """A process of the API."""

    process: subprocess.Popen[bytes]
    port: int
    log: Path

    def connect(self, timeout: float = 10) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path: str, **headers: str) -> int:
        connection = self.connect()
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, float]:
        """Send the signal; the exit code, and the seconds it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        return self.process.wait(10), time.monotonic() - began


def run(folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "RUN_DIR": str(folder / "run")}
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "worker_app.api"], env=kept | environment, stdout=log, stderr=log
        )


def start(folder: Path, database_url: str, redis_url: str) -> Door:
    """Start the API and wait until it listens."""
    addresses = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
    port = free_port()
    process = run(folder, **addresses, API_TOKEN=TOKEN, API_HOST="127.0.0.1", API_PORT=str(port))
    door = Door(process, port, folder / "log")
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and process.poll() is None:
        try:
            door.get("/livez")
        except ConnectionError:
            time.sleep(0.05)
        else:
            return door
    process.kill()
    pytest.fail(f"the API does not listen: {door.log.read_text()}")


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory, stores: StoreAddresses, door_database_url: str) -> Iterator[Door]:
    """A door that no test closes."""
    door = start(tmp_path_factory.mktemp("door"), door_database_url, stores.redis_url)
    yield door
    assert door.stop(signal.SIGINT)[0] == 0


@pytest.fixture
def passing(tmp_path: Path, stores: StoreAddresses, door_database_url: str) -> Iterator[Door]:
    """A door that the test closes."""
    door = start(tmp_path, door_database_url, stores.redis_url)
    yield door
    if door.process.poll() is None:
        door.process.kill()
        door.process.wait(10)


@contextmanager
def stopped(postgres: Postgres) -> Iterator[None]:
    """Postgres accepts connections and answers nothing."""
    (pid,) = seed.column(postgres, "SELECT pg_backend_pid()")
    postmaster = psutil.Process(int(str(pid))).parent()
    assert postmaster is not None
    family = [postmaster, *postmaster.children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        yield
    finally:
        for process in family:
            process.resume()


def test_server_answers_fifty_at_once(lasting: Door) -> None:
    paths = ["/status", "/runs", "/queues", "/metrics", "/livez"] * 10
    with ThreadPoolExecutor(51) as pool:
        # A readiness probe has one second and three tries, and a busy machine may take the first of them.
        probing = pool.submit(wait_for, lambda: lasting.get("/readyz") == 200, "it is ready")
        assert set(pool.map(lambda path: lasting.get(path, **BEARER), paths)) == {200}
        probing.result()


def test_server_finishes_its_requests_and_waits_for_no_idle_connection(passing: Door) -> None:
    idle = passing.connect()
    idle.request("GET", "/livez")
    idle.getresponse().read()
    busy = passing.connect()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    busy.request("POST", "/login", urlencode({"token": "guess"}), form)  # waits half a second
    time.sleep(0.15)
    code, seconds = passing.stop()
    assert busy.getresponse().status == 401
    assert code == 0
    assert seconds < 3
    idle.close()
    busy.close()


def test_server_does_not_wait_for_an_acknowledgement(lasting: Door) -> None:
    connection = lasting.connect()
    began = time.monotonic()
    for _ in range(25):
        connection.request("GET", "/livez")
        connection.getresponse().read()
    connection.close()
    assert time.monotonic() - began < 0.5  # 25 delayed ACKs take a second


def test_server_lets_others_in_while_guesses_wait(lasting: Door) -> None:
    began = time.monotonic()
    with ThreadPoolExecutor(20) as pool:
        codes = list(pool.map(lambda _: lasting.get("/queues", Authorization="Bearer guess"), range(20)))
    assert codes == [401] * 20
    assert 0.5 <= time.monotonic() - began < 4


def test_server_tells_a_hanging_postgres_in_time(lasting: Door, postgres: Postgres) -> None:
    def ask(path: str) -> tuple[int, float]:
        began = time.monotonic()
        return lasting.get(path, **BEARER), time.monotonic() - began

    paths = ("/readyz", "/metrics", "/status", "/runs", "/livez")
    assert [ask(path)[0] for path in paths] == [200] * 5
    with stopped(postgres), ThreadPoolExecutor(5) as pool:
        answers = [pool.submit(ask, path) for path in paths]
        assert answers[0].result()[0] == 503
        again = ask("/readyz")  # on a new connection, which is accepted and not answered either
        assert [answer.result()[0] for answer in answers] == [503, 200, 200, 503, 200]
        assert again[0] == 503
        assert max(again[1], answers[0].result()[1]) < 2
        assert answers[4].result()[1] < 1
        assert max(answer.result()[1] for answer in answers) < 7
    assert [ask(path)[0] for path in paths] == [200] * 5


def test_server_writes_no_token(lasting: Door) -> None:
    assert lasting.get(f"/runs?token={TOKEN}", **BEARER) == 400
    assert lasting.get("/runs", Authorization=f"Bearer {TOKEN}x") == 401
    for sent in (
        f"GET /x HTTP/1.1\r\nAuthorization Bearer {TOKEN}\r\n\r\n",
        f"GET /?{TOKEN} NO\r\n\r\n",
        f"{TOKEN}\r\n\r\n",
    ):
        with socket.create_connection(("127.0.0.1", lasting.port), 5) as raw:
            raw.sendall(sent.encode())
            assert raw.recv(4096).startswith(b"HTTP/1.1 40")
    told = lasting.log.read_text()
    assert '"event": "http.request"' in told
    assert '"event": "http.malformed"' in told
    assert TOKEN not in told


def test_server_refuses_a_large_body_in_chunks(lasting: Door) -> None:
    chunks = (b" " * (1 << 16) for _ in range(17))
    connection = lasting.connect()
    connection.request("POST", "/syncs", chunks, {**BEARER, "Content-Type": "application/json"}, encode_chunked=True)
    status = connection.getresponse().status
    connection.close()
    assert status == 413


def test_server_exits_78_on_wrong_settings(tmp_path: Path) -> None:
    process = run(tmp_path)
    assert process.wait(15) == 78
    assert "DATABASE_URL is not set" in (tmp_path / "log").read_text()


def test_server_exits_78_where_another_listens(tmp_path: Path, door_database_url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        process = run(tmp_path, DATABASE_URL=door_database_url, API_HOST="127.0.0.1", API_PORT=port)
        assert process.wait(15) == 78
    assert f"API_PORT is {port}: nobody can listen there (Address already in use);" in (tmp_path / "log").read_text()
