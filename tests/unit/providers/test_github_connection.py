from typing import Any

import pytest

from worker_app import errors
from worker_app.providers.github_connection import Listing, next_cursor


def connection(nodes: list[Any], cursor: str | None = None, **counts: int) -> dict[str, Any]:
    return {"nodes": nodes, "pageInfo": {"hasNextPage": cursor is not None, "endCursor": cursor}, **counts}


def test_listing_is_complete_when_it_was_read_to_its_end() -> None:
    listing = Listing(connection([1, 2], "c1", totalCount=3))
    assert (listing.after, listing.is_complete) == ("c1", False)

    listing.add(connection([3], totalCount=3))

    assert (listing.nodes, listing.after, listing.is_complete) == ([1, 2, 3], None, True)


def test_listing_that_is_not_counted_ends_where_github_says_so() -> None:
    assert Listing(connection([1])).is_complete


def test_listing_that_is_shorter_than_its_count_lacks_something() -> None:
    assert not Listing(connection([1], totalCount=2)).is_complete


def test_listing_that_grows_while_it_is_read_is_held_against_the_last_count() -> None:
    listing = Listing(connection([1], "c1", totalCount=3))

    listing.add(connection([2], totalCount=2))

    assert listing.is_complete


def test_null_in_a_listing_is_a_gap() -> None:
    listing = Listing(connection([1, None], totalCount=1))

    assert (listing.nodes, listing.is_complete) == ([1], False)


def test_listing_of_what_is_gone_has_a_gap_and_does_not_go_on() -> None:
    listing = Listing(connection([1], "c1"))

    listing.add(None)

    assert (listing.after, listing.is_complete) == (None, False)


@pytest.mark.parametrize("cursor", ["c1", 7])
def test_cursor_that_leads_nowhere_is_a_fault(cursor: Any) -> None:
    with pytest.raises(errors.ProviderFault):
        next_cursor(connection([], cursor), "c1")


def test_listing_whose_cursor_stands_still_is_a_fault() -> None:
    listing = Listing(connection([1], "c1"))

    with pytest.raises(errors.ProviderFault):
        listing.add(connection([2], "c1"))
