"""Connections of GraphQL: a cut of a sorted list, with cursors that hold a place in the order and not a page number.

An item that moves while somebody walks is met again or not at all, as at GitHub, and shifts nothing else.
https://docs.github.com/en/graphql/guides/using-pagination-in-the-graphql-api
"""

import base64
import bisect
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from graphql import GraphQLError

MOST = 100  # items that `first` and `last` may ask for
MARK = "cursor:v2:"

Rank = tuple[int, ...]  # ascending in the order of the list
T = TypeVar("T")


def error(kind: str, message: str) -> GraphQLError:
    """An error with GitHub's `type`."""
    return GraphQLError(message, extensions={"type": kind})


def connect(name: str, items: Sequence[T], rank: Callable[[T], Rank], asked: dict[str, Any]) -> dict[str, Any]:
    """The cut of `items` that `first`, `after`, `last` and `before` ask for. `items` stand in the order of `rank`."""
    check_size(name, asked)
    ranks = [rank(item) for item in items]
    start = bisect.bisect_right(ranks, _decode(asked["after"])) if asked.get("after") else 0
    end = bisect.bisect_left(ranks, _decode(asked["before"])) if asked.get("before") else len(items)
    end = max(start, end)
    if (first := asked.get("first")) is not None:
        end = min(end, start + first)
    elif (last := asked.get("last")) is not None:
        start = max(start, end - last)
    return cut(items, start, end, [_encode(place) for place in ranks[start:end]])


def cut(items: Sequence[T], start: int, end: int, cursors: Sequence[str]) -> dict[str, Any]:
    """The fields that every connection has, for the items from `start` to before `end`."""
    nodes = items[start:end]
    return {
        "nodes": nodes,
        "edges": [{"cursor": cursor, "node": node} for cursor, node in zip(cursors, nodes, strict=True)],
        "totalCount": len(items),
        "pageInfo": {
            "hasNextPage": end < len(items),
            "hasPreviousPage": start > 0,
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        },
    }


def check_size(name: str, asked: dict[str, Any]) -> None:
    """GraphQLError where `first` and `last` are not what GitHub takes."""
    given = {side: asked[side] for side in ("first", "last") if asked.get(side) is not None}
    if not given:
        raise error(
            "MISSING_PAGINATION_BOUNDARIES",
            f"You must provide a `first` or `last` value to properly paginate the `{name}` connection.",
        )
    for side, count in given.items():
        if count > MOST:
            raise error(
                "EXCESSIVE_PAGINATION",
                f"Requesting {count} records on the `{name}` connection exceeds the `{side}` limit of {MOST} records.",
            )
        if count < 0:
            raise error("INVALID_CURSOR_ARGUMENTS", f"`{side}` on the `{name}` connection cannot be less than zero.")


def _encode(rank: Rank) -> str:
    return base64.b64encode((MARK + json.dumps(rank)).encode()).decode()


def _decode(cursor: str) -> Rank:
    """The place that a cursor holds. GraphQLError where it is none of ours."""
    try:
        mark, found, place = base64.b64decode(cursor, validate=True).decode().partition(MARK)
        rank = json.loads(place)
    except ValueError:
        mark, found, rank = "", "", None
    if mark or not found or not isinstance(rank, list) or not all(isinstance(part, int) for part in rank):
        raise error("INVALID_CURSOR_ARGUMENTS", f"`{cursor}` does not appear to be a valid cursor.")
    return tuple(rank)
