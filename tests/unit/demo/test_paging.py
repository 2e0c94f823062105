from datetime import UTC, datetime

import pytest

from worker_app.demo.messages import Request
from worker_app.demo.paging import asked, link


def request(**query: str) -> Request:
    return Request("GET", "/x", tuple(query.items()), {}, None, "https://api", datetime(2026, 6, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, (1, 30)),
        ({"per_page": "100", "page": "3"}, (3, 100)),
        ({"per_page": "101"}, (1, 100)),
        ({"per_page": "0", "page": "0"}, (1, 1)),
        ({"per_page": "ten", "page": "-1"}, (1, 30)),
    ],
)
def test_page_is_what_github_makes_of_it(query: dict[str, str], expected: tuple[int, int]) -> None:
    assert asked(request(**query)) == expected


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("1", ["next", "last"]),
        ("2", ["prev", "next", "last", "first"]),
        ("3", ["prev", "first"]),
        ("4", ["prev", "first"]),
    ],
)
def test_links_are_those_of_the_page(page: str, names: list[str]) -> None:
    header = link(request(state="all", per_page="2", page=page), "/repositories/1/issues", 5)["link"]
    assert [part.rpartition('rel="')[2].strip('"') for part in header.split(", ")] == names


def test_link_keeps_the_query_and_stands_at_the_number_of_the_repository() -> None:
    header = link(request(state="all", since="2026-01-01T00:00:00Z", per_page="2"), "/repositories/1/issues", 3)["link"]
    assert header.startswith(
        '<https://api/repositories/1/issues?state=all&since=2026-01-01T00%3A00%3A00Z&per_page=2&page=2>; rel="next"'
    )


def test_links_are_left_out_where_one_page_holds_everything() -> None:
    assert link(request(), "/x", 30) == {}
