import json
from collections.abc import Callable
from typing import Any

import pytest
import requests

from tests.integration.demo.conftest import Client
from worker_app.demo import faults
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.world import World

PULLS = 'query ($first: Int!) { repository(owner: "acme", name: "api") { pullRequests(first: $first) { nodes { number } } } }'


def test_fault_hits_as_often_as_it_was_told(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.status(502), path="/user", times=2, skip=1)
    assert [client.get("/user").status_code for _ in range(5)] == [200, 502, 502, 200, 200]
    assert client.get("/repos/acme/api").status_code == 200


def test_fault_without_end_stays_until_it_is_lifted(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.html(), times=None)
    answer = client.get("/user")
    assert answer.headers["content-type"].startswith("text/html")
    assert (answer.status_code, b"<html>" in answer.content) == (200, True)
    github.faults.lift()
    assert client.get("/user").json()["login"] == "ada"


@pytest.mark.parametrize(
    "value",
    [None, "0", "1.5", "-5", "99999999999", "Mon, 01 Jan 2001 00:00:00 GMT", "Wed, 21 Oct 2099 07:28:00 GMT", "soon"],
)
def test_retry_after_is_sent_as_it_was_written(github: FakeGitHub, client: Client, value: str | None) -> None:
    github.faults.add(faults.secondary(value))
    answer = client.get("/user")
    assert (answer.status_code, answer.headers.get("retry-after")) == (403, value)
    assert int(answer.headers["x-ratelimit-remaining"]) > 0


def test_reset_is_sent_as_it_was_written(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.primary("12"))
    answer = client.get("/user")
    assert (answer.headers["x-ratelimit-remaining"], answer.headers["x-ratelimit-reset"]) == ("0", "12")


def test_headers_are_changed_and_left_out(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.headers(x_ratelimit_reset=None, date=None, x_ratelimit_remaining="0"))
    answer = client.get("/user")
    assert answer.status_code == 200
    assert "x-ratelimit-reset" not in answer.headers
    assert "date" not in answer.headers
    assert answer.headers["x-ratelimit-remaining"] == "0"


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_body_is_cut(github: FakeGitHub, client: Client, share: float) -> None:
    github.faults.add(faults.cut(share))
    with pytest.raises(requests.RequestException):
        client.get("/user").json()
    assert client.get("/user").status_code == 200


def test_body_drips_and_arrives_whole(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.drip(0.2))
    assert client.get("/user").json()["login"] == "ada"


def test_body_can_be_far_too_long(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.delivery(repeat=1000))
    assert len(client.get("/user").content) > 500_000


def test_graphql_fails_above_a_page_size(github: FakeGitHub, client: Client) -> None:
    github.faults.add(faults.above_page_size(2), path="/graphql", times=None)
    assert client.ask(PULLS, first=3).status_code == 502
    assert len(client.ask(PULLS, first=2).json()["data"]["repository"]["pullRequests"]["nodes"]) == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [(faults.something_went_wrong(), "Something went wrong"), (faults.graphql_limited(), "RATE_LIMITED")],
)
def test_graphql_fails_with_status_200(github: FakeGitHub, client: Client, change: faults.Change, text: str) -> None:
    github.faults.add(change, path="/graphql")
    answer = client.ask(PULLS, first=1)
    assert answer.status_code == 200
    assert text in json.dumps(answer.json()["errors"])
    assert not answer.json().get("data")


def test_token_dies_in_the_middle_of_a_walk(github: FakeGitHub, client: Client) -> None:
    def die(request: Any) -> None:
        if request.parameter("page") == "2":
            github.credentials.revoke("demo")

    github.before_each_answer(die)
    found = [client.get(f"/repos/acme/api/issues?state=all&per_page=3&page={page}").status_code for page in (1, 2, 3)]
    assert found == [200, 200, 401]


def test_ghosts_are_the_account_ghost_or_null(
    start: Callable[..., FakeGitHub], connect: Callable[..., Client], world: World
) -> None:
    repository = world.named("acme/api")
    assert repository is not None
    for issue in repository.issues.values():
        issue.author = None
    shown = [
        connect(start(null_users=null_users)).get("/repos/acme/api/issues?state=all").json()
        for null_users in (False, True)
    ]
    logins = [
        {issue["user"] and issue["user"]["login"] for issue in page if "pull_request" not in issue} for page in shown
    ]
    assert logins == [{"ghost"}, {None}]


def test_strange_text_passes_the_socket_as_json_has_it(client: Client, world: World) -> None:
    repository = world.named("acme/api")
    assert repository is not None
    for issue in repository.issues.values():
        issue.title = "a\x00b \ud83d"
    answer = client.get("/repos/acme/api/issues?state=all")
    assert b"a\\u0000b \\ud83d" in answer.content
