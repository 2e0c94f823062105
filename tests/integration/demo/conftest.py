"""A fake GitHub on a socket of its own and a client of it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import requests

from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.demo.world import World

RECIPE = Recipe(seed=3, repositories=2, pull_requests=6, issues=5, pushes=4, runs=3, deployments=2)


@pytest.fixture
def world() -> World:
    """A small world."""
    return generate(RECIPE)


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., FakeGitHub]]:
    """Start a fake of the world with these arguments; it ends with the test."""
    with ExitStack() as running:

        def begin(**arguments: Any) -> FakeGitHub:
            return running.enter_context(FakeGitHub(world, **arguments))

        yield begin


@pytest.fixture
def github(start: Callable[..., FakeGitHub]) -> FakeGitHub:
    """A fake with GitHub's own limits."""
    return start()


class Client:
    """Asks one fake, over one connection that is kept."""

    def __init__(self, github: FakeGitHub, token: str | None = None) -> None:
        self._url = github.url
        self._session = requests.Session()
        self._session.headers["authorization"] = f"Bearer {token or github.token}"

    def get(self, path: str, **headers: str) -> requests.Response:
        """The answer, redirects not followed. Underscores in header names become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self._session.get(self._url + path, headers=named, timeout=10, allow_redirects=False)

    def ask(self, query: str, **variables: object) -> requests.Response:
        """The answer to a GraphQL query."""
        return self._session.post(f"{self._url}/graphql", json={"query": query, "variables": variables}, timeout=10)

    def close(self) -> None:
        """Close the connection."""
        self._session.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., Client]]:
    """Make a client of a fake; it ends with the test."""
    opened: list[Client] = []

    def begin(github: FakeGitHub, token: str | None = None) -> Client:
        opened.append(Client(github, token))
        return opened[-1]

    yield begin
    for client in opened:
        client.close()


@pytest.fixture
def client(github: FakeGitHub, connect: Callable[..., Client]) -> Client:
    """A client of the fake with GitHub's own limits."""
    return connect(github)
