from collections.abc import Callable

import pytest

from tests.integration.demo.conftest import Client
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.world import World

REPOSITORY = "/repos/acme/api"


@pytest.mark.parametrize("path", [REPOSITORY, f"{REPOSITORY}/issues"])
def test_known_etag_answers_304_and_costs_nothing(client: Client, path: str) -> None:
    first = client.get(path)
    again = client.get(path, if_none_match=first.headers["etag"])
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["x-ratelimit-remaining"] == first.headers["x-ratelimit-remaining"]
    assert again.headers["etag"] == first.headers["etag"]


def test_etag_is_worth_nothing_after_a_change(client: Client, world: World) -> None:
    first = client.get(REPOSITORY)
    repository = world.named("acme/api")
    assert repository is not None
    repository.is_archived = True
    assert client.get(REPOSITORY, if_none_match=first.headers["etag"]).status_code == 200


def test_etag_is_bound_to_the_token(start: Callable[..., FakeGitHub], connect: Callable[..., Client]) -> None:
    github = start(tokens={"one": "t1", "two": "t2"})
    etag = connect(github, "t1").get(REPOSITORY).headers["etag"]
    assert connect(github, "t2").get(REPOSITORY, if_none_match=etag).status_code == 200


def test_last_modified_answers_304_unless_an_etag_says_otherwise(client: Client) -> None:
    moment = client.get(REPOSITORY).headers["last-modified"]
    assert client.get(REPOSITORY, if_modified_since=moment).status_code == 304
    assert client.get(REPOSITORY, if_modified_since=moment, if_none_match='W/"x"').status_code == 200
    assert client.get(REPOSITORY, if_modified_since="Mon, 01 Jan 2001 00:00:00 GMT").status_code == 200
    assert client.get(REPOSITORY, if_modified_since="nonsense").status_code == 200


def test_lists_have_no_last_modified(client: Client) -> None:
    assert "last-modified" not in client.get(f"{REPOSITORY}/issues").headers
