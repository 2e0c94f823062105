from dataclasses import replace

import pytest

from tests.integration.providers.callers import KEY, REPOSITORY, Token, calling, client_of
from tests.web_server import Seen, Written
from worker_app import errors
from worker_app.gate.key import GateKey
from worker_app.gate.signals import Kind
from worker_app.providers.client import Request

pytestmark = pytest.mark.integration

ASKED = replace(REPOSITORY, is_conditional=True)
SINCE = "Tue, 20 Oct 2026 10:00:00 GMT"


def respond(seen: Seen) -> Written:
    """Unchanged for whoever names the ETag; it belongs to the token, as GitHub's do."""
    etag = f'W/"{hash(seen.headers["Authorization"])}"'
    if seen.headers["If-None-Match"] == etag:
        quota = {"X-RateLimit-Remaining": "41", "X-RateLimit-Limit": "60", "Date": "Wed, 21 Oct 2026 07:28:00 GMT"}
        return Written(304, b"", {**quota, "Content-Type": "text/plain"})
    headers = {"ETag": etag, "Last-Modified": SINCE, "X-RateLimit-Remaining": "59", "Link": '</b>; rel="next"'}
    return Written(body=b'{"id": 42}', headers=headers)


def test_what_has_not_changed_is_answered_from_the_cache_with_the_fresh_headers() -> None:
    with calling(respond) as caller:
        first, second = caller.client.send(ASKED), caller.client.send(ASKED)
    assert (first.is_unchanged, second.is_unchanged) == (False, True)
    assert (second.status, second.body, second.document) == (200, b'{"id": 42}', {"id": 42})
    assert second.now is not None
    assert second.now.day == 21
    assert second.headers["x-ratelimit-remaining"] == "41"
    assert second.headers["Content-Type"] == "application/json"
    assert second.next_url == f"{caller.server.url}/b"


def test_a_reader_may_change_what_it_gets() -> None:
    with calling(respond) as caller:
        caller.client.send(ASKED).document.clear()
        caller.client.send(ASKED).document.clear()
        assert caller.client.send(ASKED).document == {"id": 42}


def test_both_conditions_are_sent() -> None:
    with calling(respond) as caller:
        first, _ = caller.client.send(ASKED), caller.client.send(ASKED)
    asked = caller.server.seen[1].headers
    assert (asked["If-None-Match"], asked["If-Modified-Since"]) == (first.headers["ETag"], SINCE)


def test_a_304_tells_the_gate_what_is_left() -> None:
    with calling(respond) as caller:
        caller.client.send(ASKED)
        caller.client.send(ASKED)
    signal = caller.gate.permits[1].signal
    assert signal is not None
    assert (signal.kind, signal.quotas[0].remaining) == (Kind.OK, 41)


def test_s44_another_token_starts_without_the_etags_of_the_last() -> None:
    with calling(respond, signer=Token("first", "second")) as caller:
        caller.client.send(ASKED)
        caller.signer.renew()
        again, unchanged = caller.client.send(ASKED), caller.client.send(ASKED)
    asked = [seen.headers["If-None-Match"] for seen in caller.server.seen]
    assert asked[:2] == [None, None]
    assert (again.is_unchanged, unchanged.is_unchanged) == (False, True)


def test_organisations_share_no_entry() -> None:
    with calling(respond) as caller:
        caller.client.send(ASKED)
        other = client_of(
            caller.server.url, caller.gate, caller.session, cache=caller.cache, key=GateKey("github", "org-2", KEY.host)
        )
        assert not other.send(ASKED).is_unchanged
    assert caller.server.seen[1].headers["If-None-Match"] is None


def test_only_what_is_asked_for_conditionally_is_kept() -> None:
    with calling(respond) as caller:
        caller.client.send(REPOSITORY)
        caller.client.send(Request("graphql", "/graphql", document={"query": "{a}"}, is_conditional=True))
    assert len(caller.cache) == 0


def test_only_whole_answers_are_kept() -> None:
    etag = {"ETag": '"1"'}
    replies = iter([Written(404, b"{}", etag), Written(200, b"<html>", etag), Written(202, b"{}", etag)])
    with calling(lambda _: next(replies)) as caller:
        caller.client.send(ASKED)
        with pytest.raises(errors.ProviderFault, match="no JSON"):
            caller.client.send(ASKED)
        caller.client.send(ASKED)
    assert len(caller.cache) == 0


def test_a_304_that_nobody_asked_for_is_a_fault() -> None:
    with calling(lambda _: Written(304, b"")) as caller, pytest.raises(errors.ProviderFault, match="answered 304"):
        caller.client.send(ASKED)
