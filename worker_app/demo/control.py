"""The control port of a fake in a process of its own: what tests do by hand to one in theirs, over HTTP and in JSON.

`GET /__demo__/log`, `/truth`, `/limits`; `POST /__demo__/faults`, `/latency`, `/revoke`, `/move`, `/live`;
`DELETE /__demo__/faults`. It listens on loopback and is a door of tests and benches; a real GitHub has nothing like it.
"""

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from worker_app.demo import faults
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.life import Life

FAULTS: dict[str, Callable[..., faults.Change]] = {
    found.__name__: found
    for found in (
        faults.status,
        faults.document,
        faults.html,
        faults.secondary,
        faults.primary,
        faults.headers,
        faults.delivery,
        faults.slow,
        faults.cut,
        faults.drip,
        faults.above_page_size,
        faults.something_went_wrong,
        faults.graphql_limited,
    )
}


class Control:
    """What the control port can do to `fake`."""

    def __init__(self, fake: FakeGitHub) -> None:
        self._fake = fake
        self._life = Life(fake.world)

    def get_log(self, _: Any) -> Any:
        """Every request so far, without the queries."""
        return [dataclasses.asdict(entry) | {"body": None} for entry in self._fake.log.entries()]

    def get_truth(self, _: Any) -> Any:
        """What a complete sync must hold."""
        return self._fake.truth()

    def get_limits(self, _: Any) -> Any:
        """Requests that were accepted, by bucket, and each time that a limit was closed."""
        episodes = [dataclasses.asdict(episode) for episode in self._fake.episodes]
        return {"accepted": dict(self._fake.service.limits.accepted), "episodes": episodes}

    def post_faults(self, asked: Any) -> Any:
        """`{"kind": "status", "arguments": {"code": 502}, "path": "/graphql", "times": 3, "skip": 0}`."""
        change = FAULTS[asked["kind"]](**asked.get("arguments", {}))
        where = {name: asked[name] for name in ("path", "times", "skip") if name in asked}
        self._fake.faults.add(change, **where)
        return {}

    def delete_faults(self, _: Any) -> Any:
        """End all of them."""
        self._fake.faults.lift()
        return {}

    def post_latency(self, asked: Any) -> Any:
        """`{"least": 0.03, "most": 0.08}`, seconds."""
        self._fake.latency.least, self._fake.latency.most = asked["least"], asked["most"]
        return {}

    def post_revoke(self, asked: Any) -> Any:
        """`{"credential": "demo"}`: its tokens end."""
        self._fake.credentials.revoke(asked["credential"])
        return {}

    def post_move(self, asked: Any) -> Any:
        """`{"repository": "acme/api", "name": "core"}`."""
        with self._fake.world.lock:
            found = self._fake.world.named(asked["repository"])
            if found is None:
                raise KeyError(asked["repository"])
            self._fake.world.move(found, name=asked["name"])
            self._fake.forget()
        return {}

    def post_live(self, asked: Any) -> Any:
        """`{"steps": 10}`: so many things happen."""
        now = datetime.now(UTC).replace(microsecond=0)
        happened = [self._life.step(now) for _ in range(asked["steps"])]
        self._fake.forget()
        return happened


class ControlServer(ThreadingHTTPServer):
    """The control port."""

    daemon_threads = True

    def __init__(self, fake: FakeGitHub, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Door)
        self.control = Control(fake)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/__demo__"


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ControlServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Nothing."""

    def do_GET(self) -> None:
        """One order."""
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        status, document = self._obeyed(content)
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET  # noqa: N815 - the library's names

    def _obeyed(self, content: bytes) -> tuple[int, Any]:
        name = urlsplit(self.path).path.removeprefix("/__demo__/")
        order = getattr(self.server.control, f"{self.command.lower()}_{name}", None)
        if order is None:
            return 404, {"error": f"no {self.command} {self.path}"}
        try:
            return 200, order(json.loads(content) if content else {})
        except (KeyError, TypeError, ValueError) as error:
            return 400, {"error": f"{type(error).__name__}: {error}"}
