from itertools import islice

import pytest

from tests.integration.providers.callers import always, calling
from tests.web_server import Seen, Written
from worker_app import errors
from worker_app.providers.client import Request

pytestmark = pytest.mark.integration

ISSUES = Request("issues.list", "/issues", {"per_page": "2"})


def page(seen: Seen, last: int) -> Written:
    """One of `last` pages; each names the next by a cursor, and the first as GitHub does."""
    number = int(seen.target.rpartition("cursor=")[2]) if "cursor=" in seen.target else 1
    here = f"http://{seen.headers['Host']}/issues?per_page=2"
    links = [f'<{here}>; rel="first"']
    if number < last:
        links.insert(0, f'<{here}&cursor={number + 1}>; rel="next"')
    return Written(body=b"[%d]" % number, headers={"Link": ", ".join(links)})


def test_pages_follows_the_links_to_the_last_page() -> None:
    with calling(lambda seen: page(seen, 4)) as caller:
        answers = list(caller.client.pages(ISSUES))
    assert [answer.document for answer in answers] == [[1], [2], [3], [4]]
    assert answers[-1].next_url is None
    assert [permit.endpoint for permit in caller.gate.permits] == ["issues.list"] * 4


def test_pages_sends_no_more_than_is_taken() -> None:
    with calling(lambda seen: page(seen, 9)) as caller:
        assert [answer.document for answer in islice(caller.client.pages(ISSUES), 2)] == [[1], [2]]
    assert len(caller.server.seen) == 2


def test_a_walk_goes_on_from_the_address_that_an_answer_names() -> None:
    with calling(lambda seen: page(seen, 3)) as caller:
        next_url = caller.client.send(ISSUES).next_url
        assert next_url is not None
        rest = list(caller.client.pages(Request("issues.list", next_url)))
    assert [answer.document for answer in rest] == [[2], [3]]


def test_s42_a_page_that_leads_to_itself_is_a_fault() -> None:
    with calling(lambda seen: page(seen, 2) if "cursor" not in seen.target else _again(seen)) as caller:
        walk = caller.client.pages(ISSUES)
        assert [next(walk).document, next(walk).document] == [[1], [2]]
        with pytest.raises(errors.ProviderFault, match="leads back to a page that was read already"):
            next(walk)
    assert len(caller.server.seen) == 2


def _again(seen: Seen) -> Written:
    return Written(body=b"[2]", headers={"Link": f'<http://{seen.headers["Host"]}{seen.target}>; rel="next"'})


def test_s42_a_list_without_an_end_stops_at_the_cap() -> None:
    with calling(lambda seen: page(seen, 10**9)) as caller:
        walk = caller.client.pages(ISSUES, most=3)
        assert [next(walk).document for _ in range(3)] == [[1], [2], [3]]
        with pytest.raises(errors.ProviderFault, match="has more than 3 pages"):
            next(walk)
    assert len(caller.server.seen) == 3


def test_s42_an_endpoint_that_is_gone_is_no_empty_list() -> None:
    with calling(always(Written(410, b'{"message": "The requested API has been removed."}'))) as caller:
        answers = list(caller.client.pages(ISSUES))
    assert [answer.status for answer in answers] == [410]


@pytest.mark.parametrize("link", ["https://example.com/issues?page=2", "http://[::1", "ftp://127.0.0.1/"])
def test_a_next_page_on_another_server_is_a_fault(link: str) -> None:
    written = Written(headers={"Link": f'<{link}>; rel="next"'})
    with calling(always(written)) as caller, pytest.raises(errors.ProviderFault, match="not on the same server"):
        caller.client.send(ISSUES)
    assert len(caller.server.seen) == 1


def test_a_relative_link_is_taken_from_where_the_answer_came() -> None:
    with calling(always(Written(headers={"Link": '</b?page=2>; rel="last next"'}))) as caller:
        assert caller.client.send(ISSUES).next_url == f"{caller.server.url}/b?page=2"
