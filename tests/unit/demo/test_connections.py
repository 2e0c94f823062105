from typing import Any

import pytest
from graphql import GraphQLError
from hypothesis import given
from hypothesis import strategies as st

from worker_app.demo.connections import connect


def cut(items: list[int], **asked: Any) -> dict[str, Any]:
    return connect("things", sorted(items), lambda item: (item,), asked)


@given(st.lists(st.integers(), unique=True, max_size=30), st.integers(1, 7))
def test_connection_walked_by_its_cursors_gives_everything_once(items: list[int], size: int) -> None:
    found: list[int] = []
    page = cut(items, first=size)
    while True:
        found += page["nodes"]
        if not page["pageInfo"]["hasNextPage"]:
            break
        page = cut(items, first=size, after=page["pageInfo"]["endCursor"])
    assert found == sorted(items)


@given(st.lists(st.integers(), unique=True, max_size=30), st.integers(1, 7))
def test_connection_walked_backwards_gives_everything_once(items: list[int], size: int) -> None:
    found: list[int] = []
    page = cut(items, last=size)
    while True:
        found = page["nodes"] + found
        if not page["pageInfo"]["hasPreviousPage"]:
            break
        page = cut(items, last=size, before=page["pageInfo"]["startCursor"])
    assert found == sorted(items)


def test_connection_keeps_its_place_when_items_go_and_come() -> None:
    page = cut([1, 2, 3, 4], first=2)
    assert cut([0, 1, 3, 4], first=2, after=page["pageInfo"]["endCursor"])["nodes"] == [3, 4]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({}, "MISSING_PAGINATION_BOUNDARIES"),
        ({"first": 101}, "EXCESSIVE_PAGINATION"),
        ({"last": 101}, "EXCESSIVE_PAGINATION"),
        ({"first": -1}, "INVALID_CURSOR_ARGUMENTS"),
        ({"first": 1, "after": "nonsense"}, "INVALID_CURSOR_ARGUMENTS"),
        ({"first": 1, "after": "Y3Vyc29yOnYyOm51bGw="}, "INVALID_CURSOR_ARGUMENTS"),
    ],
)
def test_connection_refuses_what_github_refuses(asked: dict[str, Any], kind: str) -> None:
    with pytest.raises(GraphQLError) as refused:
        cut([1, 2, 3], **asked)
    assert refused.value.extensions == {"type": kind}
