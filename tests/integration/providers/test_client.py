from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from tests.integration.providers.callers import CANARY, KEY, REPOSITORY, Token, always, calling, in_turn
from tests.web_server import Seen, Written
from worker_app import errors
from worker_app.gate.key import Priority
from worker_app.gate.signals import Kind
from worker_app.providers.client import Request

pytestmark = pytest.mark.integration

SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait."}'


def test_send_signs_asks_below_the_base_and_reads_the_answer() -> None:
    written = Written(body=b'{"id": 9007199254740993}', headers={"Date": "Wed, 21 Oct 2026 07:28:00 GMT", "X-A": "1"})
    with calling(always(written), headers={"Accept": "application/vnd.github+json"}) as caller:
        answer = caller.client.send(Request("repos.get", "/repos/acme/api", {"q": "a b&c"}))
        seen = caller.server.seen[0]
    assert (seen.method, seen.target) == ("GET", "/repos/acme/api?q=a+b%26c")
    assert seen.headers["Authorization"] == f"Bearer {CANARY}"
    assert seen.headers["User-Agent"].startswith("dev-hops/")
    assert seen.headers["Accept"] == "application/vnd.github+json"
    assert answer.document == {"id": 9007199254740993}
    assert answer.now == datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
    assert (answer.status, answer.headers["x-a"], answer.next_url) == (200, "1", None)


def test_send_posts_a_document() -> None:
    with calling(always(Written())) as caller:
        caller.client.send(Request("graphql", "/graphql", document={"query": "{ü}"}, cost=3))
        seen = caller.server.seen[0]
    assert (seen.method, seen.body) == ("POST", b'{"query": "{\\u00fc}"}')
    assert seen.headers["Content-Type"] == "application/json"
    assert caller.gate.permits[0].cost == 3


def test_send_takes_one_slot_with_what_the_client_was_given() -> None:
    waits = iter([1.5, 0.5])
    with calling(always(Written()), priority=Priority.BULK, max_wait=lambda: next(waits)) as caller:
        caller.client.send(REPOSITORY)
        caller.client.send(REPOSITORY)
    first, second = caller.gate.permits
    assert (first.key, first.endpoint, first.priority, first.max_wait) == (KEY, "repos.get", Priority.BULK, 1.5)
    assert second.max_wait == 0.5
    assert caller.gate.kinds == [Kind.OK, Kind.OK]
    assert caller.gate.live == 0


@pytest.mark.parametrize("status", [201, 204, 403, 404, 409, 410, 422, 451])
def test_send_leaves_other_statuses_to_the_reader(status: int) -> None:
    body = b"" if status == 204 else b'{"message": "Git Repository is empty."}'
    with calling(always(Written(status, body))) as caller:
        answer = caller.client.send(REPOSITORY)
    assert (answer.status, answer.body) == (status, body)
    assert answer.document == (None if status == 204 else {"message": "Git Repository is empty."})


def test_s02_a_refusal_is_told_by_its_words_and_the_body_of_another_403_can_still_be_read() -> None:
    plain = Written(403, b'{"message": "Resource not accessible by integration"}')
    with calling(in_turn(Written(403, SECONDARY), plain)) as caller:
        with pytest.raises(errors.RateLimited) as limited:
            caller.client.send(REPOSITORY)
        answer = caller.client.send(REPOSITORY)
    assert limited.value.retry_in >= 60
    assert "secondary rate limit" in limited.value.detail
    assert answer.document == {"message": "Resource not accessible by integration"}
    assert caller.gate.kinds == [Kind.SECONDARY, Kind.OTHER]


def test_s15_an_hour_is_not_slept_but_raised_with_what_is_closed() -> None:
    refusal = Written(429, SECONDARY, {"Retry-After": "3600"})
    with calling(always(refusal)) as caller, pytest.raises(errors.RateLimited) as limited:
        caller.client.send(REPOSITORY)
    told = limited.value
    assert told.retry_in == 3600
    assert (told.provider, told.org_id, told.host) == ("github", "org-1", "github.com")
    assert (told.reason, told.fails) == ("window", 1)
    assert caller.gate.live == 0


def test_a_graphql_refusal_with_status_200_is_a_limit() -> None:
    body = b'{"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded"}]}'
    with calling(always(Written(200, body))) as caller, pytest.raises(errors.RateLimited):
        caller.client.send(Request("graphql", "/graphql", document={"query": "{a}"}))
    assert caller.gate.kinds == [Kind.PRIMARY]


def test_the_last_request_of_a_quota_is_an_answer() -> None:
    headers = {"X-RateLimit-Limit": "5000", "X-RateLimit-Remaining": "0", "X-RateLimit-Resource": "core"}
    with calling(always(Written(200, b"[]", headers))) as caller:
        assert caller.client.send(REPOSITORY).document == []


def test_a_refusal_whose_body_is_cut_is_a_limit_all_the_same() -> None:
    cut = Written(429, b"{", {"Retry-After": "90"}, length=500, is_last=True)
    with calling(always(cut)) as caller, pytest.raises(errors.RateLimited) as limited:
        caller.client.send(REPOSITORY)
    assert limited.value.retry_in == 90


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_a_5xx_that_is_no_limit_is_a_fault_with_its_status(status: int) -> None:
    page = Written(status, b"<html>Unicorn!</html>", {"Content-Type": "text/html"})
    with calling(always(page)) as caller, pytest.raises(errors.ProviderFault) as fault:
        caller.client.send(REPOSITORY)
    assert fault.value.status == status
    assert str(fault.value) == f"github at 127.0.0.1:{caller.server.port} answered {status} (asked for /repos/acme/api)"
    assert caller.gate.kinds == [Kind.OTHER]


def test_a_503_that_says_how_long_is_a_limit() -> None:
    with calling(always(Written(503, b"", {"Retry-After": "30"}))) as caller, pytest.raises(errors.RateLimited):
        caller.client.send(REPOSITORY)
    assert caller.gate.kinds == [Kind.BURST]


def _accepts(token: str) -> Callable[[Seen], Written]:
    def respond(seen: Seen) -> Written:
        return Written() if seen.headers["Authorization"] == f"Bearer {token}" else Written(401, b'{"message": "Bad"}')

    return respond


def test_a_401_is_asked_again_once_with_a_renewed_token() -> None:
    with calling(_accepts("second"), signer=Token("first", "second")) as caller:
        assert caller.client.send(REPOSITORY).status == 200
    assert caller.signer.renewals == 1
    assert len(caller.gate.permits) == 2


@pytest.mark.parametrize(("tokens", "requests"), [(("first",), 1), (("first", "second", "third"), 2)])
def test_a_401_that_a_renewal_does_not_cure_names_the_remedy(tokens: tuple[str, ...], requests: int) -> None:
    with (
        calling(_accepts("third"), signer=Token(*tokens)) as caller,
        pytest.raises(errors.CredentialRefused) as refused,
    ):
        caller.client.send(REPOSITORY)
    assert caller.signer.renewals == 1
    assert len(caller.server.seen) == requests
    for word in (
        "github at github.com",
        "401",
        "dev-hops credentials add NAME --provider github --host github.com --replace",
    ):
        assert word in str(refused.value)


def test_the_signer_is_asked_outside_any_slot() -> None:
    class Watching(Token):
        def headers(self) -> dict[str, str]:
            live.append(caller.gate.live)
            return dict(super().headers())

        def renew(self) -> bool:
            live.append(caller.gate.live)
            return super().renew()

    live: list[int] = []
    with calling(_accepts("b"), signer=Watching("a", "b")) as caller:
        caller.client.send(REPOSITORY)
    assert live == [0, 0, 0]


def test_a_deferral_of_the_gate_passes_through_and_nothing_is_sent() -> None:
    away = errors.GateUnavailable("the gate's Redis is away", retry_in=40)

    class Closed:
        def slot(self, *_: object, **__: object) -> object:
            raise away

    with calling(always(Written()), gate=Closed()) as caller, pytest.raises(errors.GateUnavailable) as raised:
        caller.client.send(REPOSITORY)
    assert raised.value is away
    assert caller.server.connections == 0


@pytest.mark.parametrize(
    "url", ["https://api.github.com/repos/a/b", "http://localhost:1/repos/a/b", "file:///etc/passwd"]
)
def test_another_server_is_not_asked(url: str) -> None:
    with calling(always(Written())) as caller, pytest.raises(ValueError, match=r"no address|asks no other"):
        caller.client.send(Request("repos.get", url))
    assert caller.server.seen == []
