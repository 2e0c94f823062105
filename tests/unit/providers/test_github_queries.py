import re

import pytest

from worker_app.providers import github_queries
from worker_app.providers.github_queries import Query

QUERIES = [
    *(value for value in vars(github_queries).values() if isinstance(value, Query)),
    *github_queries.MORE_OF_PULL.values(),
    github_queries.pull_ids([7, 2**31 - 1]),
]
CONNECTIONS = re.compile(
    r"\b(?:history|parents|pullRequests|commits|reviews|timelineItems)\b(?!\w)(?:\((?P<asked>[^)]*)\))?", re.DOTALL
)


@pytest.mark.parametrize("query", QUERIES)
def test_every_connection_says_how_many_items_it_wants(query: Query) -> None:
    for found in CONNECTIONS.finditer(query.text):
        assert "first:" in (found["asked"] or ""), found[0]


@pytest.mark.parametrize("query", QUERIES)
def test_no_query_asks_for_an_id_of_32_bits(query: Query) -> None:
    assert not re.search(r"\bdatabaseId\b", query.text)


@pytest.mark.parametrize(
    ("query", "items", "points"),
    [
        (github_queries.PULLS, 1, 1.0),
        (github_queries.PULLS, 25, 1.0),
        (github_queries.PULLS, 50, 1.51),
        (github_queries.PULLS, 100, 3.01),
        (github_queries.HISTORY, 100, 1.01),
        (github_queries.PULLS_TOTAL, 1, 1.0),
    ],
)
def test_cost_is_a_point_for_each_hundred_connections(query: Query, items: int, points: float) -> None:
    assert query.cost(items) == pytest.approx(points)
