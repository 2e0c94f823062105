from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.demo.conftest import RECIPE, Client
from worker_app.demo.editor import Editor
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.things import Repository
from worker_app.demo.world import World

LATER = datetime(2026, 6, 2, tzinfo=UTC)
PULLS = """
query ($after: String) { repository(owner: "acme", name: "api") {
  pullRequests(first: 2, after: $after, orderBy: {field: UPDATED_AT, direction: DESC}) {
    pageInfo { hasNextPage endCursor } nodes { number }
  }
} }
"""


@pytest.fixture
def repository(world: World) -> Repository:
    """The repository `acme/api`."""
    found = world.named("acme/api")
    assert found is not None
    return found


def test_item_that_moves_to_the_front_shifts_the_pages_of_rest(
    github: FakeGitHub, client: Client, world: World, repository: Repository
) -> None:
    editor = Editor(world, repository)
    address = "/repos/acme/api/issues?state=all&sort=updated&direction=desc&per_page=4"
    first = client.get(address)
    numbers = [item["number"] for item in first.json()]
    last = min((*repository.issues.values(), *repository.pulls.values()), key=lambda thread: thread.updated_at)

    def touch(request: Any) -> None:
        if request.parameter("page") == "2":
            editor.rename(last, LATER, "Moved")

    github.before_each_answer(touch)
    second = client.get(first.links["next"]["url"].removeprefix(github.url))
    assert second.json()[0]["number"] == numbers[-1]


def test_item_that_moves_to_the_front_shifts_nothing_in_graphql(
    client: Client, world: World, repository: Repository
) -> None:
    expected = sorted(repository.pulls.values(), key=lambda pull: (pull.updated_at, pull.number), reverse=True)
    page = client.ask(PULLS).json()["data"]["repository"]["pullRequests"]
    Editor(world, repository).rename(expected[-1], LATER, "Moved")
    following = client.ask(PULLS, after=page["pageInfo"]["endCursor"]).json()["data"]["repository"]["pullRequests"]
    assert [node["number"] for node in following["nodes"]] == [pull.number for pull in expected[2:4]]


def test_since_takes_equal_times_in(client: Client, repository: Repository) -> None:
    moment = max(issue.updated_at for issue in repository.issues.values())
    for issue in repository.issues.values():
        issue.updated_at = moment
    stamp = moment.strftime("%Y-%m-%dT%H:%M:%SZ")
    found = client.get(f"/repos/acme/api/issues?state=all&since={stamp}").json()
    assert {item["number"] for item in found} >= set(repository.issues)


def test_renamed_repository_answers_under_its_number(client: Client, world: World, repository: Repository) -> None:
    world.move(repository, name="core")
    answer = client.get("/repos/acme/api/issues?state=all")
    assert answer.status_code == 301
    assert answer.headers["location"].endswith(f"/repositories/{repository.id}/issues?state=all")
    by_number = client.get(f"/repositories/{repository.id}").json()
    assert (by_number["id"], by_number["full_name"]) == (repository.id, "acme/core")
    query = 'query { repository(owner: "acme", name: "api") { nameWithOwner } }'
    assert client.ask(query).json()["data"]["repository"]["nameWithOwner"] == "acme/core"


def test_name_that_another_repository_took_leads_to_that_one(
    client: Client, world: World, repository: Repository
) -> None:
    world.move(repository, name="core")
    taken = world.add_repository(world.accounts[RECIPE.organisation], "api", LATER)
    assert client.get("/repos/acme/api").json()["id"] == taken.id


def test_transferred_repository_has_another_owner(client: Client, world: World, repository: Repository) -> None:
    world.move(repository, owner=world.add_account("beta", "Organization", LATER))
    assert client.get("/repos/acme/api").status_code == 301
    assert client.get(f"/repositories/{repository.id}").json()["full_name"] == "beta/api"
    assert client.get("/orgs/beta/repos").json()[0]["id"] == repository.id


def test_long_pull_request_shows_250_commits_by_rest_and_all_by_graphql(client: Client, repository: Repository) -> None:
    pull = next(iter(repository.pulls.values()))
    pull.commits = list(repository.commits.values())[:1] * 251
    url = f"/repos/acme/api/pulls/{pull.number}"
    shown = [len(client.get(f"{url}/commits?per_page=100&page={page}").json()) for page in (1, 2, 3, 4)]
    assert shown == [100, 100, 50, 0]
    assert client.get(url).json()["commits"] == 251
    query = f'query {{ node(id: "{pull.node_id}") {{ ... on PullRequest {{ commits(first: 1) {{ totalCount }} }} }} }}'
    assert client.ask(query).json()["data"]["node"]["commits"]["totalCount"] == 251
