import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.providers.certificates import own_certificate
from tests.integration.providers.greenlets import CONNECTIONS, GREENLETS
from tests.web_server import Seen, WebServer, Written

pytestmark = pytest.mark.integration


class Slow:
    """A server that answers `/<greenlet>/<page>` with the page after a moment, and `/drip` never to the end."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.most = 0
        self._live = 0
        self._lock = threading.Lock()
        self.server = WebServer(self._respond, certificate)

    def _respond(self, seen: Seen) -> Written:
        if seen.target == "/drip":
            return Written(length=10**6, parts=self.server.drip(b" ", 0.05))
        if seen.target == "/silent":
            return Written(head=[], parts=self.server.drip(b"", 0.05))
        with self._counted():
            self.server.is_over.wait(0.02)
        return Written(body=seen.target.rpartition("/")[2].encode())

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._lock:
            self._live += 1
            self.most = max(self.most, self._live)
        yield
        with self._lock:
            self._live -= 1


def run(name: str, url: str, checkout: Path, bundle: str = "") -> Any:
    command = [
        sys.executable,
        "-m",
        "gevent.monkey",
        "--module",
        "tests.integration.providers.greenlets",
        name,
        url,
        bundle,
    ]
    told = subprocess.run(command, capture_output=True, text=True, timeout=25, check=False, cwd=checkout)
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_s40_twenty_greenlets_finish_on_four_connections(checkout: Path) -> None:
    slow = Slow()
    with slow.server.running():
        told = run("crowd", slow.server.url, checkout)
    assert told == {"done": [[0, 1, 2, 3, 4]] * GREENLETS, "live": 0, "queue": "gevent._gevent_cqueue"}
    assert slow.most <= CONNECTIONS
    assert slow.server.connections <= CONNECTIONS
    assert len(slow.server.seen) == 5 * GREENLETS


def test_s40_twenty_greenlets_finish_on_four_encrypted_connections(checkout: Path, tmp_path: Path) -> None:
    both, alone = own_certificate(tmp_path)
    slow = Slow(both)
    with slow.server.running():
        told = run("crowd", slow.server.url, checkout, str(alone))
    assert told["done"] == [[0, 1, 2, 3, 4]] * GREENLETS
    assert slow.server.connections <= CONNECTIONS


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_reply_that_drips_ends_with_the_total_and_holds_no_other_greenlet_up(
    checkout: Path, tmp_path: Path, is_encrypted: bool
) -> None:
    both, alone = own_certificate(tmp_path) if is_encrypted else (None, "")
    slow = Slow(both)
    with slow.server.running():
        told = run("drip", slow.server.url, checkout, str(alone))
    assert told["done"] == ["longer than 1 s"] * CONNECTIONS
    assert told["live"] == 0
    assert told["turns"] >= 5


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_server_that_falls_silent_is_waited_for_no_longer_than_a_read(
    checkout: Path, tmp_path: Path, is_encrypted: bool
) -> None:
    both, alone = own_certificate(tmp_path) if is_encrypted else (None, "")
    slow = Slow(both)
    with slow.server.running():
        told = run("silent", slow.server.url, checkout, str(alone))
    assert told["done"].endswith("sent nothing for 0.5 s")


def test_a_greenlet_that_is_killed_gives_its_slot_and_its_connection_back(checkout: Path) -> None:
    slow = Slow()
    with slow.server.running():
        told = run("kill", slow.server.url, checkout)
    assert told == {"done": [1], "live": 0, "kinds": [None] * (CONNECTIONS + 1)}
