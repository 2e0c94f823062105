from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests import github_description
from tests.integration.providers.github_sync import Hosted, hosting
from worker_app import errors, records
from worker_app.demo import faults
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.generate import generate
from worker_app.demo.recipe import Recipe
from worker_app.providers import github

RECIPE = Recipe(seed=2, repositories=3, pull_requests=0, issues=0, runs=0, deployments=0, pushes=1)


@pytest.fixture
def hosted() -> Iterator[Hosted]:
    with hosting(FakeGitHub(generate(RECIPE), check=github_description.reduced())) as running:
        yield running


def names(listings: list[github.Listing]) -> list[str]:
    return [found.full_name for listing in listings for found in listing.found]


def test_repository_is_described_by_name(hosted: Hosted) -> None:
    found = github.describe(hosted.client(), "acme", "api")

    assert found.record == records.Repository(str(hosted.repository().id), "acme/api", "main", is_archived=False)
    assert (found.state, found.switched_off) == ("active", frozenset())


def test_f25_former_name_leads_to_the_repository_as_it_is_named_now(hosted: Hosted) -> None:
    hosted.fake.world.move(hosted.repository(), name="backend")
    hosted.repository("acme/backend").is_archived = True

    found = github.describe(hosted.client(), "acme", "api")

    assert (found.full_name, found.state) == ("acme/backend", "archived")
    assert found.record.ext_id == str(hosted.repository("acme/backend").id)


def test_issues_that_are_switched_off_are_told(hosted: Hosted) -> None:
    hosted.repository().has_issues = False

    assert github.describe(hosted.client(), "acme", "api").switched_off == {"work_items"}


@pytest.mark.parametrize("name", ["nothing", "web"])
def test_repository_that_cannot_be_read_has_a_state(hosted: Hosted, name: str) -> None:
    hosted.repository("acme/web").demands_sso = True

    with pytest.raises(errors.SourceUnavailable) as refused:
        github.describe(hosted.client(), "acme", name)
    assert refused.value.state == ("sso_required" if name == "web" else "inaccessible")


def test_repositories_of_an_organisation_are_listed(hosted: Hosted) -> None:
    listings = list(github.list_repositories(hosted.client(), "acme"))

    assert names(listings) == ["acme/api", "acme/web", "acme/worker"]
    assert [listing.reason for listing in listings] == [None]


def test_all_pages_of_a_long_list_are_read() -> None:
    with hosting(FakeGitHub(generate(replace(RECIPE, repositories=130)))) as hosted:
        listings = list(github.list_repositories(hosted.client(), "acme"))

    assert [len(listing.found) for listing in listings] == [100, 30]
    assert len(set(names(listings))) == 130


def test_f24_list_with_parts_left_out_says_so(hosted: Hosted) -> None:
    hosted.repository("acme/web").demands_sso = True

    (listing,) = github.list_repositories(hosted.client(), "acme")

    assert [found.full_name for found in listing.found] == ["acme/api", "acme/worker"]
    assert "single sign-on" in str(listing.reason)


def test_repositories_of_a_user_are_listed(hosted: Hosted) -> None:
    ada = hosted.fake.world.accounts["ada"]
    hosted.fake.world.add_repository(ada, "notes", ada.created_at)

    assert names(list(github.list_repositories(hosted.client(), "ada"))) == ["ada/notes"]


def test_account_that_nobody_has_is_told(hosted: Hosted) -> None:
    with pytest.raises(errors.SourceUnavailable):
        list(github.list_repositories(hosted.client(), "nobody"))


def test_list_that_may_not_be_read_is_told(hosted: Hosted) -> None:
    hosted.fake.faults.add(faults.status(403, "Resource not accessible by integration"), path="/orgs/.*")

    with pytest.raises(errors.SourceUnavailable):
        list(github.list_repositories(hosted.client(), "acme"))


@pytest.mark.parametrize(
    ("written", "named"),
    [("acme/api", ("github.com", "acme/api")), ("https://ghe.acme.com/acme/api.git", ("ghe.acme.com", "acme/api"))],
)
def test_identity_is_host_and_full_name(written: str, named: tuple[str, str]) -> None:
    assert github.identity(written) == named
