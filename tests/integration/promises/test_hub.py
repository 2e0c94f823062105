"""The hub: nothing that a task waits for stops the others, and what does stop it is named."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from bench.worker_process import wait_for
from tests.integration.promises.conftest import Stage

pytestmark = [pytest.mark.integration, pytest.mark.timeout(60)]
SLACK_SECONDS = 0.95  # one wait of a second that holds the hub would show; the bench holds the figure of the promise


def test_queries_on_every_slot_wait_side_by_side(stage: Stage, database_url: str) -> None:
    worker = stage.worker(slots=20, environment={"DATABASE_URL": database_url})
    began = time.monotonic()
    stage.send("query", 1, count=20)
    wait_for(lambda: stage.depth() + stage.unacked() == 0 and time.monotonic() - began > 1, "all are done")
    assert time.monotonic() - began < 10  # twenty, one after the other
    assert max(worker.gaps()) < SLACK_SECONDS


@pytest.fixture
def slow_server() -> Iterator[str]:
    """The address, by name, of an HTTP server that answers after a second."""

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            threading.Event().wait(1)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    server.request_queue_size = 50
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_address[1]}/"
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.mark.parametrize("task", ["fetch", "pop", "child"])
def test_waiting_for_http_redis_or_a_program_stops_no_other_task(stage: Stage, slow_server: str, task: str) -> None:
    worker = stage.worker(slots=20)
    began = time.monotonic()
    stage.send(task, slow_server if task == "fetch" else 1, count=20)
    wait_for(lambda: stage.depth() + stage.unacked() == 0 and time.monotonic() - began > 1, "all are done")
    assert stage.ask("stats")["total"] == {task: 20}
    assert time.monotonic() - began < 10
    assert worker.log.count("succeeded") == 20
    assert max(worker.gaps()) < SLACK_SECONDS


def test_task_that_holds_the_hub_is_named_while_it_does(stage: Stage) -> None:
    worker = stage.worker(slots=2)
    stage.send("spin", 8, "long")
    worker.wait_for_log("hub.blocked", 8)
    assert stage.effects() == {}
    stage.wait_done(1)
    assert "bench/workload.py" in worker.log
    assert "in spin" in worker.log
    worker.wait_for_log("hub.free")
