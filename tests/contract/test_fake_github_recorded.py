"""Recorded answers of the real GitHub, replayed: the fake gives the same statuses, headers, links and keys.

From npm @octokit/fixtures, MIT licence, text beside the recordings.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from tests.contract.walking import SECONDS
from tests.github_description import PAYLOADS
from worker_app.demo.editor import Editor
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.things import Repository
from worker_app.demo.world import World

RECORDED_AT = datetime(2017, 10, 10, 16, tzinfo=UTC)
GONE = {"connection", "x-ratelimit-reset"}  # the recorder closes each connection; its resets are in milliseconds
HIDDEN = {"permissions", "topics"}  # keys whose values follow from who asks or from what was set up


@pytest.fixture
def fixtures_world() -> World:
    """The organisation of the recordings, before anything was recorded."""
    world = World(born_at=RECORDED_AT)
    world.add_account("octokit-fixture-org", "Organization", RECORDED_AT)
    world.add_account("octokit-fixture-user-a", "User", RECORDED_AT)
    return world


@pytest.fixture
def fixtures_github(fixtures_world: World) -> Iterator[FakeGitHub]:
    """The fake of that organisation."""
    with FakeGitHub(fixtures_world) as running:
        yield running


def recorded(scenario: str) -> list[dict[str, Any]]:
    """The exchanges of a scenario that only read."""
    found: list[dict[str, Any]] = json.loads((PAYLOADS / "recorded" / f"{scenario}.json").read_text())
    return [exchange for exchange in found if exchange["method"] == "get"]


def made(world: World, name: str) -> Repository:
    repository = world.add_repository(world.accounts["octokit-fixture-org"], name, RECORDED_AT)
    repository.default_branch = "master"
    return repository


def replay(github: FakeGitHub, exchange: dict[str, Any], repository: Repository) -> requests.Response:
    path = re.sub(r"/repositories/\d+", f"/repositories/{repository.id}", exchange["path"])
    headers = {"authorization": f"token {github.token}", "accept": exchange["reqheaders"]["accept"]}
    answer = requests.get(github.url + path, headers=headers, timeout=SECONDS, allow_redirects=False)
    assert answer.status_code == exchange["status"]
    assert set(exchange["headers"]) - GONE <= {name.lower() for name in answer.headers}
    return answer


def same_keys(ours: Any, theirs: Any, path: str = "") -> None:
    """Every key of the recorded answer is in ours, with a value of the same kind."""
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            assert key in ours, f"{path}/{key}"
            if key not in HIDDEN:
                same_keys(ours[key], value, f"{path}/{key}")
    elif isinstance(theirs, list):
        assert isinstance(ours, list), path
        for left, right in zip(ours, theirs, strict=False):
            same_keys(left, right, f"{path}[]")
    elif theirs is not None and ours is not None:
        assert type(ours) is type(theirs), path


def test_recorded_repository_has_our_keys(fixtures_github: FakeGitHub, fixtures_world: World) -> None:
    repository = made(fixtures_world, "hello-world")
    (exchange,) = recorded("get-repository")
    same_keys(replay(fixtures_github, exchange, repository).json(), exchange["response"])


def test_recorded_pages_of_issues_have_our_keys_and_links(fixtures_github: FakeGitHub, fixtures_world: World) -> None:
    repository = made(fixtures_world, "paginate-issues")
    editor = Editor(fixtures_world, repository)
    for number in range(1, 14):
        editor.open_issue(RECORDED_AT, fixtures_world.accounts["octokit-fixture-user-a"], f"Test issue {number}")
    for exchange in recorded("paginate-issues"):
        answer = replay(fixtures_github, exchange, repository)
        same_keys(answer.json(), exchange["response"])
        assert [issue["title"] for issue in answer.json()] == [issue["title"] for issue in exchange["response"]]
        assert _links(answer.headers["link"]) == _links(exchange["headers"]["link"])


def _links(header: str) -> list[tuple[str, str, str]]:
    """Path, query and relation of each link, in their order; the repository's number left out."""
    found = re.findall(r'<([^>]+)>; rel="(\w+)"', header)
    parts = [(urlsplit(url), name) for url, name in found]
    return [(re.sub(r"\d+", "N", url.path), url.query, name) for url, name in parts]


def test_recorded_rename_redirects_to_the_number(fixtures_github: FakeGitHub, fixtures_world: World) -> None:
    repository = made(fixtures_world, "rename-repository")
    fixtures_world.move(repository, name="rename-repository-newname")
    old, by_number = (exchange for exchange in recorded("rename-repository") if exchange["status"] in {301, 200})
    moved = replay(fixtures_github, old, repository)
    assert moved.headers["location"] == f"{fixtures_github.url}/repositories/{repository.id}"
    assert set(old["response"]) <= set(moved.json())
    same_keys(replay(fixtures_github, by_number, repository).json(), by_number["response"])
