"""What the fake says by REST is what GitHub's OpenAPI description allows, page by page, and nothing is missing."""

from datetime import UTC, datetime
from typing import Any

import jwt
import pytest
import requests
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.contract.walking import SECONDS, walk
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.world import World


@pytest.fixture
def truth(github: FakeGitHub) -> dict[str, Any]:
    """What `acme/api` holds."""
    found: dict[str, Any] = github.truth()["acme/api"]
    return found


@pytest.mark.parametrize("page_size", [2, 100])
@pytest.mark.parametrize(
    ("path", "dataset"),
    [
        ("/issues?state=all&", "work_items"),
        ("/pulls/comments?sort=updated&direction=desc&", "review_comments"),
        ("/deployments?", "deployments"),
    ],
)
def test_rest_list_holds_every_item_once(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any], path: str, dataset: str, page_size: int
) -> None:
    found = walk(session, f"{github.url}/repos/acme/api{path}per_page={page_size}")
    ids = [str(item["id"]) for item in found if "pull_request" not in item]
    assert sorted(ids) == sorted(truth[dataset])


def test_rest_issues_hold_the_pull_requests_too(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    found = walk(session, f"{github.url}/repos/acme/api/issues?state=all")
    numbers = {item["number"] for item in found if "pull_request" in item}
    assert numbers == {pull["number"] for pull in truth["pull_requests"].values()}


def test_rest_commits_are_those_of_the_default_branch(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    found = walk(session, f"{github.url}/repos/acme/api/commits?per_page=3")
    assert sorted(item["sha"] for item in found) == sorted(truth["commits"])


def test_rest_runs_hold_the_last_attempt_and_the_others_by_number(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    found = walk(session, f"{github.url}/repos/acme/api/actions/runs?per_page=2")
    keys = [f"{item['id']}:{attempt}" for item in found for attempt in range(1, item["run_attempt"] + 1)]
    assert sorted(keys) == sorted(truth["pipeline_runs"])
    for key in keys:
        number, attempt = key.split(":")
        url = f"{github.url}/repos/acme/api/actions/runs/{number}/attempts/{attempt}"
        assert session.get(url, timeout=SECONDS).json()["conclusion"] == truth["pipeline_runs"][key]["conclusion"]


@pytest.mark.parametrize("path", ["/orgs/acme/repos", "/users/acme/repos"])
def test_rest_repositories_of_an_account(
    github: FakeGitHub, session: requests.Session, world: World, path: str
) -> None:
    found = walk(session, f"{github.url}{path}?per_page=1")
    assert [item["id"] for item in found] == sorted(world.repositories)


@pytest.mark.parametrize(
    "path",
    ["/repos/acme/api", "/user", "/users/ada", "/users/ghost", "/users/ada/orgs", "/rate_limit", "/repos/acme/none"],
)
def test_rest_single_answers_are_as_described(github: FakeGitHub, session: requests.Session, path: str) -> None:
    assert session.get(github.url + path, timeout=SECONDS).status_code == (404 if path.endswith("none") else 200)


@pytest.mark.parametrize("part", ["", "/reviews", "/commits", "/comments", "/requested_reviewers"])
def test_rest_pull_request_and_its_parts_are_as_described(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any], part: str
) -> None:
    for pull in truth["pull_requests"].values():
        url = f"{github.url}/repos/acme/api/pulls/{pull['number']}{part}"
        assert session.get(url, timeout=SECONDS).status_code == 200


def test_rest_timelines_and_statuses_are_complete(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    here = f"{github.url}/repos/acme/api"
    issues = truth["work_items"].values()
    events = [
        event for issue in issues for event in walk(session, f"{here}/issues/{issue['number']}/timeline?per_page=1")
    ]
    statuses = {key: walk(session, f"{here}/deployments/{key}/statuses?per_page=1") for key in truth["deployments"]}
    assert {event["node_id"] for event in events} == set(truth["transitions"])
    for key, found in statuses.items():
        assert [status["state"] for status in reversed(found)] == [
            status["state"] for status in truth["deployments"][key]["statuses"]
        ]


def test_rest_refusals_are_as_described(github: FakeGitHub, session: requests.Session, world: World) -> None:
    repository = world.named("acme/api")
    assert repository is not None
    here = f"{github.url}/repos/acme/api"
    repository.has_issues = False
    assert session.get(f"{here}/issues", timeout=SECONDS).status_code == 410
    repository.head = None
    empty = session.get(f"{here}/commits", timeout=SECONDS)
    assert (empty.status_code, empty.json()["message"]) == (409, "Git Repository is empty.")
    repository.demands_sso = True
    closed = session.get(here, timeout=SECONDS)
    assert closed.status_code == 403
    assert closed.headers["x-github-sso"].startswith("required; url=https://")
    listed = session.get(f"{github.url}/orgs/acme/repos", timeout=SECONDS)
    assert listed.headers["x-github-sso"].startswith("partial-results; organizations=")
    assert [item["name"] for item in listed.json()] == ["web"]
    repository.is_deleted = True
    assert session.get(here, timeout=SECONDS).status_code == 404


def test_rest_wrong_token_is_refused_as_described(github: FakeGitHub) -> None:
    answer = requests.get(f"{github.url}/user", headers={"authorization": "Bearer wrong"}, timeout=SECONDS)
    assert (answer.status_code, answer.json()["message"]) == (401, "Bad credentials")


def test_rest_enterprise_prefix_stands_in_every_link(github: FakeGitHub, session: requests.Session) -> None:
    answer = session.get(f"{github.enterprise_url}/repos/acme/api/issues?state=all&per_page=1", timeout=SECONDS)
    assert answer.links["next"]["url"].startswith(f"{github.enterprise_url}/repositories/")
    assert answer.json()[0]["url"].startswith(f"{github.enterprise_url}/repos/acme/api/issues/")


def test_rest_installation_token_is_given_for_a_jwt_and_opens_the_rest(github: FakeGitHub) -> None:
    now = int(datetime.now(UTC).timestamp())
    claims = {"iss": "1001", "iat": now - 60, "exp": now + 540}
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    signed = jwt.encode(claims, key, algorithm="RS256")
    url = f"{github.url}/app/installations/2002/access_tokens"
    given = requests.post(url, headers={"authorization": f"Bearer {signed}"}, timeout=SECONDS)
    assert given.status_code == 201
    headers = {"authorization": f"Bearer {given.json()['token']}"}
    answer = requests.get(f"{github.url}/repos/acme/api", headers=headers, timeout=SECONDS)
    assert answer.status_code == 200
    assert "x-oauth-scopes" not in answer.headers
    assert requests.post(url, headers=headers, timeout=SECONDS).status_code == 401
