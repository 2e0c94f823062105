"""The client with the real gate on a real Redis: two workers of one organisation."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import redis

from tests.integration.providers.callers import KEY, REPOSITORY, client_of
from tests.web_server import Seen, WebServer, Written
from worker_app import errors
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey
from worker_app.providers.client import Client
from worker_app.providers.http_session import Session

pytestmark = pytest.mark.integration
SECONDARY = Written(403, b'{"message": "You have exceeded a secondary rate limit."}')


class Fleet:
    """A server, and as many workers as a test wants: each has a gate, a session and a client of its own."""

    def __init__(self, redis_url: str, stack: ExitStack) -> None:
        self.reply = SECONDARY
        self.server = stack.enter_context(WebServer(self.respond).running())
        self._redis_url = redis_url
        self._stack = stack

    def respond(self, _: Seen) -> Written:
        return self.reply

    def worker(self, key: GateKey = KEY) -> Client:
        gate, session = Gate.from_url(self._redis_url), Session()
        self._stack.callback(gate.close)
        self._stack.callback(session.close)
        return client_of(self.server.url, gate, session, key=key)


@pytest.fixture
def fleet(redis_url: str) -> Iterator[Fleet]:
    with ExitStack() as stack:
        yield Fleet(redis_url, stack)


def test_after_one_worker_is_refused_the_other_sends_nothing(fleet: Fleet) -> None:
    first, second = fleet.worker(), fleet.worker()
    with pytest.raises(errors.RateLimited) as refused:
        first.send(REPOSITORY)
    fleet.reply = Written()
    with pytest.raises(errors.RateLimited) as blocked:
        second.send(REPOSITORY)
    assert len(fleet.server.seen) == 1
    assert refused.value.retry_in >= 60
    assert 50 < blocked.value.retry_in < 90
    assert blocked.value.reason == "window"
    assert "secondary rate limit" in blocked.value.detail


def test_another_organisation_goes_on(fleet: Fleet) -> None:
    with pytest.raises(errors.RateLimited):
        fleet.worker().send(REPOSITORY)
    fleet.reply = Written()
    assert fleet.worker(GateKey("github", "org-2", KEY.host)).send(REPOSITORY).status == 200


def test_s15_an_hour_is_not_slept(fleet: Fleet) -> None:
    fleet.reply = Written(429, b"{}", {"Retry-After": "3600"})
    worker = fleet.worker()
    for _ in range(2):
        with pytest.raises(errors.RateLimited) as refused:
            worker.send(REPOSITORY)
        assert 3590 < refused.value.retry_in < 3610
    assert len(fleet.server.seen) == 1


def test_a_permit_that_redis_forgot_meanwhile_fails_no_request(fleet: Fleet, redis_client: redis.Redis) -> None:
    def forget(_: Seen) -> Written:
        redis_client.flushall()
        return Written(body=b"[1]")

    fleet.server.respond = forget
    assert fleet.worker().send(REPOSITORY).document == [1]
