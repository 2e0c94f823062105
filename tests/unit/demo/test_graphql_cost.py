import pytest
from graphql import parse

from worker_app.demo.graphql_cost import cost

NESTED = """
query ($size: Int = 100) {
  viewer { repositories(first: $size) { nodes { issues(first: 50) { nodes { labels(first: 60) { nodes { id } } } } } } }
}
"""


def test_cost_is_what_the_documentation_counts() -> None:
    assert cost(parse(NESTED), {}) == (51, 305_100)


def test_cost_takes_the_size_from_the_variables() -> None:
    assert cost(parse(NESTED), {"size": 1}) == (1, 1 + 50 + 3000)


@pytest.mark.parametrize("query", ["query { viewer { login } }", "query { a: viewer { login } }"])
def test_cost_is_at_least_one_point(query: str) -> None:
    assert cost(parse(query), {}) == (1, 0)


def test_cost_follows_fragments() -> None:
    query = "query { viewer { ...more ... on User { x(last: 3) { y } } } }"
    fragment = "fragment more on User { z(first: 2) { q(first: 5) { w } } }"
    assert cost(parse(f"{query} {fragment}"), {}).nodes == 2 + 10 + 3
