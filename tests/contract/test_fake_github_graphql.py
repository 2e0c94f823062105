"""What the fake says by GraphQL: the queries hold against GitHub's schema, and every connection can be walked to its end."""

from typing import Any

import pytest
import requests
from graphql import GraphQLObjectType, build_schema

from tests import github_description
from tests.contract.walking import SECONDS, ask, pages
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.graphql_door import load_schema
from worker_app.demo.graphql_fields import FIELDS
from worker_app.demo.world import World

PULLS = """
query ($after: String, $first: Int!, $order: IssueOrder) {
  repository(owner: "acme", name: "api") {
    pullRequests(first: $first, after: $after, orderBy: $order) {
      totalCount
      pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
      edges { cursor node { number } }
      nodes {
        id fullDatabaseId number title body state isDraft createdAt updatedAt closedAt mergedAt merged url
        headRefName headRefOid baseRefName baseRefOid additions deletions changedFiles
        author { __typename login ... on Node { id } }
        mergedBy { login }
        mergeCommit { oid }
        repository { nameWithOwner }
        commits(first: 1) { totalCount pageInfo { hasNextPage endCursor } nodes { id url commit { oid authoredDate } } }
        reviews(first: 1) {
          totalCount pageInfo { hasNextPage endCursor }
          nodes { id fullDatabaseId state body submittedAt createdAt updatedAt url commit { oid } author { login } }
        }
        timelineItems(first: 100) {
          totalCount pageInfo { hasNextPage endCursor } updatedAt
          nodes {
            __typename
            ... on Node { id }
            ... on ClosedEvent { createdAt stateReason actor { login } }
            ... on ReopenedEvent { createdAt stateReason actor { login } }
            ... on MergedEvent { createdAt commit { oid } actor { login } }
            ... on ReadyForReviewEvent { createdAt pullRequest { number } }
            ... on ConvertToDraftEvent { createdAt }
            ... on ReviewRequestedEvent { createdAt requestedReviewer { __typename ... on User { login } } }
          }
        }
      }
    }
  }
  rateLimit { cost limit remaining used resetAt nodeCount }
}
"""
ISSUES = """
query ($after: String) {
  repository(owner: "acme", name: "api") {
    issues(first: 2, after: $after, orderBy: {field: CREATED_AT, direction: ASC}) {
      totalCount
      pageInfo { hasNextPage endCursor }
      nodes {
        fullDatabaseId number state stateReason(enableDuplicate: true) closedAt
        assignees(first: 5) { nodes { login } }
        labels(first: 5) { nodes { name color } }
        timelineItems(first: 50, itemTypes: [CLOSED_EVENT, REOPENED_EVENT]) { filteredCount nodes { ... on Node { id } } }
      }
    }
  }
}
"""
HISTORY = """
query ($after: String) {
  repository(owner: "acme", name: "api") {
    defaultBranchRef {
      name
      target {
        oid
        ... on Commit {
          history(first: 3, after: $after) {
            totalCount
            pageInfo { hasNextPage endCursor }
            nodes {
              oid messageHeadline authoredDate committedDate additions deletions changedFilesIfAvailable
              author { email name date user { id } }
              parents(first: 10) { totalCount nodes { oid } }
            }
          }
        }
      }
    }
  }
}
"""
NESTED = """
query ($id: ID!, $after: String) {
  node(id: $id) { ... on PullRequest { %s(first: 1, after: $after) {
    totalCount pageInfo { hasNextPage endCursor } nodes { ... on Node { id } }
  } } }
}
"""


@pytest.fixture
def truth(github: FakeGitHub) -> dict[str, Any]:
    """What `acme/api` holds."""
    found: dict[str, Any] = github.truth()["acme/api"]
    return found


@pytest.mark.parametrize(
    "order", [None, {"field": "UPDATED_AT", "direction": "DESC"}, {"field": "CREATED_AT", "direction": "ASC"}]
)
def test_graphql_pull_requests_are_all_there_in_order(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any], order: dict[str, str] | None
) -> None:
    walked = list(pages(session, github.url, PULLS, "repository", "pullRequests", first=3, order=order))
    found = [pull for page in walked for pull in page["nodes"]]
    assert [pull["fullDatabaseId"] for pull in found] == list(dict.fromkeys(pull["fullDatabaseId"] for pull in found))
    assert {pull["fullDatabaseId"] for pull in found} == set(truth["pull_requests"])
    assert {page["totalCount"] for page in walked} == {len(found)}
    if order:
        key = "updatedAt" if order["field"] == "UPDATED_AT" else "createdAt"
        times = [pull[key] for pull in found]
        assert times == sorted(times, reverse=order["direction"] == "DESC")


def test_graphql_pull_request_is_what_the_truth_says(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    for page in pages(session, github.url, PULLS, "repository", "pullRequests", first=4, order=None):
        for pull in page["nodes"]:
            expected = truth["pull_requests"][pull["fullDatabaseId"]]
            assert (pull["state"], pull["isDraft"], pull["updatedAt"]) == (
                expected["state"],
                expected["is_draft"],
                expected["updated_at"],
            )
            assert (pull["author"] and pull["author"]["id"]) == expected["author"]
            assert (pull["mergeCommit"] and pull["mergeCommit"]["oid"]) == expected["merge_sha"]
            assert pull["commits"]["totalCount"] == expected["commits_total"]


@pytest.mark.parametrize(
    ("connection", "dataset"), [("commits", "pull_request_commits"), ("timelineItems", "pull_request_events")]
)
def test_graphql_nested_connections_go_on_by_node(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any], connection: str, dataset: str
) -> None:
    found: list[str] = []
    for pull in truth["pull_requests"].values():
        for page in pages(session, github.url, NESTED % connection, "node", connection, id=pull["node_id"]):
            found += [node["id"] for node in page["nodes"]]
    assert len(found) == len(set(found)) == len(truth[dataset])


def test_graphql_reviews_leave_out_what_others_have_not_submitted(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any], world: World
) -> None:
    found: list[str] = []
    for pull in truth["pull_requests"].values():
        for page in pages(session, github.url, NESTED % "reviews", "node", "reviews", id=pull["node_id"]):
            found += [node["id"] for node in page["nodes"]]
    assert sorted(found) == sorted(review["node_id"] for review in truth["reviews"].values())
    repository = world.named("acme/api")
    assert repository is not None
    written = [review for pull in repository.pulls.values() for review in pull.reviews]
    assert len(written) > len(found)


def test_graphql_issues_are_all_there_without_pull_requests(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    walked = pages(session, github.url, ISSUES, "repository", "issues")
    found = {issue["fullDatabaseId"]: issue for page in walked for issue in page["nodes"]}
    assert set(found) == set(truth["work_items"])
    for key, issue in found.items():
        assert (issue["stateReason"] or "").lower() == (truth["work_items"][key]["state_reason"] or "")


def test_graphql_since_takes_the_moment_itself_in(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any]
) -> None:
    moment = sorted(issue["updated_at"] for issue in truth["work_items"].values())[-2]
    query = """query ($since: DateTime) { repository(owner: "acme", name: "api") {
      issues(first: 100, filterBy: {since: $since}) { nodes { updatedAt timelineItems(first: 9, since: $since) { totalCount } } }
    } }"""
    found = ask(session, github.url, query, since=moment)["repository"]["issues"]["nodes"]
    assert min(issue["updatedAt"] for issue in found) == moment


def test_graphql_history_is_that_of_the_head_at_its_start(
    github: FakeGitHub, session: requests.Session, truth: dict[str, Any], world: World
) -> None:
    found: list[str] = []
    for page in pages(session, github.url, HISTORY, "repository", "defaultBranchRef", "target", "history"):
        found += [commit["oid"] for commit in page["nodes"]]
        repository = world.named("acme/api")
        assert repository is not None
        if len(found) == 3:
            repository.head = repository.commits[found[2]].sha
    assert sorted(found) == sorted(truth["commits"])


def test_graphql_missing_things_are_errors_with_githubs_types(github: FakeGitHub, session: requests.Session) -> None:
    queries = {
        'query { repository(owner: "acme", name: "none") { id } }': "NOT_FOUND",
        'query { node(id: "PR_none") { id } }': "NOT_FOUND",
        'query { repository(owner: "acme", name: "api") { issues { totalCount } } }': "MISSING_PAGINATION_BOUNDARIES",
        'query { repository(owner: "acme", name: "api") { issues(first: 101) { totalCount } } }': "EXCESSIVE_PAGINATION",
        'query { repository(owner: "acme", name: "api") { issues(first: 1, after: "x") { totalCount } } }': (
            "INVALID_CURSOR_ARGUMENTS"
        ),
    }
    for query, kind in queries.items():
        answer = session.post(f"{github.url}/graphql", json={"query": query}, timeout=SECONDS)
        assert answer.status_code == 200
        assert [error["type"] for error in answer.json()["errors"]] == [kind]


def test_graphql_single_sign_on_gives_null_and_forbidden(
    github: FakeGitHub, session: requests.Session, world: World
) -> None:
    repository = world.named("acme/api")
    assert repository is not None
    repository.demands_sso = True
    query = {"query": 'query { repository(owner: "acme", name: "api") { id } }'}
    document = session.post(f"{github.url}/graphql", json=query, timeout=SECONDS).json()
    assert document["data"] == {"repository": None}
    assert document["errors"][0]["type"] == "FORBIDDEN"
    assert document["errors"][0]["extensions"] == {"saml_failure": True}


def test_graphql_organization_lists_its_repositories(github: FakeGitHub, session: requests.Session) -> None:
    query = 'query { organization(login: "acme") { repositories(first: 5) { nodes { nameWithOwner isEmpty } } } }'
    found = ask(session, github.url, query)["organization"]["repositories"]["nodes"]
    assert [one["nameWithOwner"] for one in found] == ["acme/api", "acme/web"]


def test_graphql_enterprise_path_answers_the_same(github: FakeGitHub, session: requests.Session) -> None:
    query = {"query": "query { viewer { login } }"}
    answers = [
        session.post(github.url + path, json=query, timeout=SECONDS).json() for path in ("/graphql", "/api/graphql")
    ]
    assert answers[0] == answers[1]


def test_graphql_every_field_of_the_reduced_schema_is_read_from_the_world() -> None:
    ready_made = {"PageInfo", "RateLimit", "Ref", "GitActor", "EnterpriseUserAccount", "Team"}
    ours = [kind for kind in load_schema().type_map.values() if isinstance(kind, GraphQLObjectType)]
    for kind in ours:
        if (
            kind.name not in ready_made
            and not kind.name.startswith("__")
            and not kind.name.endswith(("Connection", "Edge"))
        ):
            assert set(kind.fields) - {"id"} <= set(FIELDS[kind.name]), kind.name


def test_graphql_reduced_schema_is_a_part_of_the_whole() -> None:
    path = github_description.WHOLE / "graphql-schema" / "schema.graphql"
    if not path.exists():
        pytest.skip("the whole description is not in .cache: make contract-test")
    whole = build_schema(path.read_text(), assume_valid=True)
    for name, kind in load_schema().type_map.items():
        if isinstance(kind, GraphQLObjectType) and not name.startswith("__"):
            official = whole.type_map[name]
            assert isinstance(official, GraphQLObjectType)
            for field, read in kind.fields.items():
                assert str(read.type) == str(official.fields[field].type), f"{name}.{field}"
                arguments = {argument: str(one.type) for argument, one in read.args.items()}
                assert arguments == {argument: str(one.type) for argument, one in official.fields[field].args.items()}
