"""The oracle itself: what is right passes, and one wrong thing does not."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import requests

from tests.github_description import Description
from worker_app.demo import faults
from worker_app.demo.fake import ContractBreach, FakeGitHub
from worker_app.demo.messages import Request, Response
from worker_app.demo.world import World

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def request(path: str, *query: tuple[str, str], method: str = "GET", document: Any = None) -> Request:
    return Request(method, path, query, {}, document, "https://api.github.com", NOW)


def response(document: Any, status: int = 200) -> Response:
    return Response(status, document, body=json.dumps(document).encode())


def test_description_takes_an_empty_list(description: Description) -> None:
    description(request("/repos/acme/api/issues", ("state", "all"), ("per_page", "100")), response([]))


@pytest.mark.parametrize(
    "parameter", [("since", "yesterday"), ("status", "open"), ("state", "al"), ("per_page", "many")]
)
def test_description_refuses_wrong_parameters(description: Description, parameter: tuple[str, str]) -> None:
    with pytest.raises(AssertionError, match=parameter[0]):
        description(request("/repos/acme/api/issues", parameter), response([]))


def test_description_refuses_unknown_operations(description: Description) -> None:
    with pytest.raises(AssertionError, match="no operation"):
        description(request("/repos/acme/api/wishes"), response([]))


@pytest.mark.parametrize("document", [[{"id": 1}], {"message": "x"}, [None]])
def test_description_refuses_wrong_bodies(description: Description, document: Any) -> None:
    with pytest.raises(AssertionError, match="response 200"):
        description(request("/repositories/1/issues"), response(document))


def test_description_refuses_a_status_that_is_not_there(description: Description) -> None:
    with pytest.raises(AssertionError, match="response 418"):
        description(request("/repos/acme/api/issues"), response({}, status=418))


def test_description_lets_a_fault_answer_anything(description: Description) -> None:
    answer = response({}, status=418)
    answer.is_misbehaviour = True
    description(request("/repos/acme/api/issues"), answer)


@pytest.mark.parametrize("query", ["query { nope }", "query {", 'query { repository(owner: "a") { id } }'])
def test_description_refuses_wrong_queries(description: Description, query: str) -> None:
    with pytest.raises(AssertionError, match="GraphQL"):
        description(request("/graphql", method="POST", document={"query": query}), response({}))


PULL = 'query { repository(owner: "acme", name: "api") { pullRequest(number: 1) { state number author { login } } } }'


@pytest.mark.parametrize(
    "pull",
    [
        {"state": "open", "number": 1, "author": None},
        {"state": "OPEN", "number": None, "author": None},
        {"state": "OPEN", "number": 2**31, "author": None},
        {"state": "OPEN", "number": 1, "author": {"login": None}},
        {"state": "OPEN", "number": "1", "author": None},
    ],
)
def test_description_refuses_wrong_data(description: Description, pull: dict[str, Any]) -> None:
    asked = request("/graphql", method="POST", document={"query": PULL})
    right = {"state": "OPEN", "number": 1, "author": {"login": "ada"}}
    description(asked, response({"data": {"repository": {"pullRequest": right}}}))
    with pytest.raises(AssertionError, match="GraphQL response"):
        description(asked, response({"data": {"repository": {"pullRequest": pull}}}))


def test_description_takes_a_refusal_by_a_limit(description: Description) -> None:
    asked = request("/graphql", method="POST", document={"query": PULL})
    description(asked, response({"message": "You have exceeded a secondary rate limit."}, status=403))


def test_breach_fails_the_block_that_the_fake_runs_in(world: World, description: Description) -> None:
    github = FakeGitHub(world, check=description).__enter__()
    headers = {"authorization": f"Bearer {github.token}"}
    assert requests.get(f"{github.url}/repos/acme/api/issues?nope=1", headers=headers, timeout=5).status_code == 200
    with pytest.raises(ContractBreach, match="nope"):
        github.__exit__(None, None, None)


def test_fault_is_no_breach(world: World, description: Description) -> None:
    with FakeGitHub(world, check=description) as github:
        github.faults.add(faults.html(418))
        headers = {"authorization": f"Bearer {github.token}"}
        assert requests.get(f"{github.url}/user", headers=headers, timeout=5).status_code == 418
