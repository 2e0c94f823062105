"""How tests walk the lists of a fake: by its links, by its cursors."""

from collections.abc import Iterator
from typing import Any

import requests

SECONDS = 20.0  # that an answer may take: the first of a query holds it against the whole description


def walk(session: requests.Session, url: str) -> list[dict[str, Any]]:
    """Every item of a REST list, by its links."""
    found: list[dict[str, Any]] = []
    address: str | None = url
    while address:
        answer = session.get(address, timeout=SECONDS)
        assert answer.status_code == 200, answer.text
        document = answer.json()
        found += document["workflow_runs"] if isinstance(document, dict) else document
        address = answer.links.get("next", {}).get("url")
    return found


def ask(session: requests.Session, url: str, query: str, **variables: object) -> dict[str, Any]:
    """The data of a GraphQL query. Errors are failures."""
    answer = session.post(f"{url}/graphql", json={"query": query, "variables": variables}, timeout=SECONDS)
    document: dict[str, Any] = answer.json()
    assert "errors" not in document, document["errors"]
    found: dict[str, Any] = document["data"]
    return found


def pages(session: requests.Session, url: str, query: str, *path: str, **variables: object) -> Iterator[dict[str, Any]]:
    """Each page of the connection at `path` of a query that takes `$after`."""
    after: str | None = None
    while True:
        found: dict[str, Any] = ask(session, url, query, after=after, **variables)
        for name in path:
            found = found[name]
        yield found
        if not found["pageInfo"]["hasNextPage"]:
            return
        after = found["pageInfo"]["endCursor"]
