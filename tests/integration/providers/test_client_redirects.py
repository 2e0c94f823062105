from collections.abc import Callable, Mapping

import pytest

from tests.integration.providers.callers import CANARY, REPOSITORY, calling
from tests.web_server import Seen, WebServer, Written
from worker_app import errors
from worker_app.providers.client import Request

pytestmark = pytest.mark.integration

RENAMED = b'{"id": 42, "full_name": "beta/b"}'


def routes(table: Mapping[str, Written]) -> Callable[[Seen], Written]:
    return lambda seen: table[seen.target]


def to(location: str, status: int = 301) -> Written:
    return Written(status, b'{"message": "Moved"}', {"Location": location})


def test_a_rename_is_followed_and_reported() -> None:
    table = {"/repos/acme/api?a=1": to("/repositories/42?a=1"), "/repositories/42?a=1": Written(body=RENAMED)}
    with calling(routes(table)) as caller:
        answer = caller.client.send(Request("repos.get", "/repos/acme/api", {"a": "1"}))
    assert answer.document["full_name"] == "beta/b"
    assert answer.url == f"{caller.server.url}/repositories/42?a=1"
    assert answer.moved_from == (f"{caller.server.url}/repos/acme/api?a=1",)
    assert [seen.headers["Authorization"] for seen in caller.server.seen] == [f"Bearer {CANARY}"] * 2
    assert len(caller.gate.permits) == 2, "each hop has a slot of its own"
    assert all(permit.signal for permit in caller.gate.permits)


def test_another_server_gets_no_credential_and_says_nothing_to_the_gate() -> None:
    with WebServer(lambda _: Written(429, b"[7]", {"Retry-After": "900"})).running() as other:
        there = f"http://127.0.0.1:{other.port}/log?sig={CANARY}"
        with calling(lambda _: to(there, 302)) as caller, pytest.raises(errors.ProviderFault) as fault:
            caller.client.send(REPOSITORY)
        seen = other.seen[0]
    assert "Authorization" not in seen.headers
    assert caller.gate.kinds[1] is None
    assert fault.value.status == 429
    assert CANARY not in str(fault.value)


def test_what_another_server_answers_is_an_answer() -> None:
    with WebServer(lambda _: Written(body=b"[7]")).running() as other:
        with calling(lambda _: to(f"{other.url}/log", 302), headers={"X-Own": "1"}) as caller:
            answer = caller.client.send(REPOSITORY)
        seen = other.seen[0]
    assert (answer.document, answer.url) == ([7], f"{other.url}/log")
    assert "X-Own" not in seen.headers


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_post_keeps_its_body_on_the_same_server(status: int) -> None:
    table = {"/graphql": to("/api/graphql", status), "/api/graphql": Written()}
    with calling(routes(table)) as caller:
        caller.client.send(Request("graphql", "/graphql", document={"query": "{a}"}))
    assert [(seen.method, seen.body) for seen in caller.server.seen] == [("POST", b'{"query": "{a}"}')] * 2


def test_see_other_is_fetched_without_a_body() -> None:
    table = {"/graphql": to("/result", 303), "/result": Written()}
    with calling(routes(table)) as caller:
        caller.client.send(Request("graphql", "/graphql", document={"query": "{a}"}))
    assert (caller.server.seen[1].method, caller.server.seen[1].body) == ("GET", b"")


def test_a_body_is_not_sent_to_another_server() -> None:
    with WebServer(lambda _: Written()).running() as other:
        moved, refused = to(f"{other.url}/graphql", 307), pytest.raises(errors.ProviderFault, match="must not see")
        with calling(lambda _: moved) as caller, refused:
            caller.client.send(Request("graphql", "/graphql", document={"query": "{a}"}))
        assert other.connections == 0


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("http://example.com/repositories/42?token=abc", "a redirect to http on example.com, which is not followed"),
        ("/repos/acme/api", "lead in a circle"),
        ("https://user:abc@example.com/", "no address of a web server"),
        ("ftp://example.com/abc", "no address of a web server"),
        ("https://exa mple/abc", "no address of a web server"),
        ("https://example.com:abc/", "no address of a web server"),
    ],
)
def test_a_redirect_that_is_not_followed_is_a_fault(location: str, words: str) -> None:
    with calling(lambda _: to(location)) as caller, pytest.raises(errors.ProviderFault, match=words) as fault:
        caller.client.send(REPOSITORY)
    assert fault.value.status == 301
    assert "abc" not in str(fault.value)
    assert len(caller.server.seen) == 1


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".example", "."])
def test_a_redirect_to_a_name_that_cannot_be_is_a_fault(host: str) -> None:
    with calling(lambda _: to(f"https://{host}/x")) as caller, pytest.raises(errors.ProviderFault):
        caller.client.send(REPOSITORY)


def test_a_redirect_without_an_address_is_a_fault() -> None:
    with calling(lambda _: Written(301)) as caller, pytest.raises(errors.ProviderFault, match="without an address"):
        caller.client.send(REPOSITORY)


def test_a_longer_circle_is_refused_after_one_round() -> None:
    table = {"/repos/acme/api": to("/b"), "/b": to("/c"), "/c": to("/b")}
    with calling(routes(table)) as caller, pytest.raises(errors.ProviderFault, match="in a circle"):
        caller.client.send(REPOSITORY)
    assert len(caller.server.seen) == 3


def test_five_hops_are_followed_and_no_sixth() -> None:
    def respond(seen: Seen) -> Written:
        number = int(seen.target[1:])
        return Written() if number == 0 else to(f"/{number - 1}")

    with calling(respond) as caller:
        assert len(caller.client.send(Request("repos.get", "/5")).moved_from) == 5
        with pytest.raises(errors.ProviderFault, match="more than 5 redirects"):
            caller.client.send(Request("repos.get", "/6"))
    assert len(caller.server.seen) == 6 + 6
