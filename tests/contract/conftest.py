"""A fake GitHub whose every exchange is held against the official description, the reduced one and the whole."""

from collections.abc import Callable, Iterator

import pytest
import requests

from tests import github_description
from tests.github_description import Description
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.demo.world import World

RECIPE = Recipe(
    seed=11,
    repositories=2,
    pull_requests=8,
    issues=6,
    pushes=6,
    runs=5,
    deployments=3,
    ghost_share=0.3,
    pending_share=0.2,
    first_id=2**53 + 1,
    has_strange_text=True,
)


@pytest.fixture(scope="session", params=["reduced", "whole"])
def description(request: pytest.FixtureRequest) -> Description:
    """The official description."""
    try:
        found: Callable[[], Description] = getattr(github_description, request.param)
        return found()
    except FileNotFoundError:
        pytest.skip("the whole description is not in .cache: make contract-test")


@pytest.fixture
def world() -> World:
    """A small world with every oddity."""
    return generate(RECIPE)


@pytest.fixture
def github(world: World, description: Description) -> Iterator[FakeGitHub]:
    """The fake. A breach of the description fails the test."""
    with FakeGitHub(world, check=description) as running:
        yield running


@pytest.fixture
def session(github: FakeGitHub) -> Iterator[requests.Session]:
    """A client with the fake's token."""
    with requests.Session() as opened:
        opened.headers["authorization"] = f"Bearer {github.token}"
        yield opened
