"""Reads GitHub, github.com and Enterprise hosts: what one repository yields, and which repositories an account has.

The door of the provider. The walks beside it know the datasets; `github_state` says what an answer that is no success means.
Keeps no state between calls and knows no store. Page: https://docs.github.com/en/rest
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from worker_app import errors, records
from worker_app.providers import github_address, github_fields, github_repository, github_state
from worker_app.providers.client import Answer, Client, Request
from worker_app.providers.github_address import Api
from worker_app.providers.github_comments_walk import CommentsWalk
from worker_app.providers.github_commits_walk import CommitsWalk
from worker_app.providers.github_deployments_walk import DeploymentsWalk
from worker_app.providers.github_issues_walk import IssuesWalk
from worker_app.providers.github_page_size import MOST
from worker_app.providers.github_pulls_walk import PullsWalk
from worker_app.providers.github_repository import Described
from worker_app.providers.github_runs_walk import RunsWalk
from worker_app.providers.github_session import Session

# What every request carries; the last one makes accounts have the same id in REST and in GraphQL.
CLIENT_HEADERS: Mapping[str, str] = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "X-Github-Next-Global-ID": "1",
}


class DatasetWalk(Protocol):
    """Walks over one dataset of one repository."""

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze what a walk from `cursor` has to read."""

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the pages of `walk` after `position`."""


WALKS: Mapping[str, Callable[[Session, records.Source, int], DatasetWalk]] = {
    "commits": CommitsWalk,
    "pull_requests": PullsWalk,
    "review_comments": CommentsWalk,
    "work_items": IssuesWalk,
    "pipeline_runs": RunsWalk,
    "deployments": DeploymentsWalk,
}
DATASETS = tuple(WALKS)


class Listing(NamedTuple):
    """One page of the repositories of an account."""

    found: tuple[Described, ...]
    reason: str | None  # why it lacks some, in words for a person


@dataclass(frozen=True, slots=True)
class GitHubReader:
    """Implements `records.Reader` for one dataset. Its `client` has the REST base URL of `api`."""

    client: Client
    api: Api
    dataset: str
    page_size: int = field(default=MOST, kw_only=True)  # items; GitHub gives 100 at most
    # What `begin` saw, for the next `read`.
    _begun: list[Described] = field(default_factory=list, init=False, repr=False, compare=False)

    def begin(self, source: records.Source, cursor: records.Cursor, now: datetime) -> records.Walk:
        """Freeze what a walk from `cursor` has to read; its stamp is GitHub's clock, `now` where it shows none.

        Raises SourceUnavailable and DatasetDisabled, and what `Client.send` raises.
        """
        answer, described = self._described(source)
        if self.dataset in described.switched_off:
            raise errors.DatasetDisabled(f"{described.full_name} has {self.dataset} switched off")
        self._begun[:] = [described]
        walk = self._walk(source, described).begin(cursor, answer.now or now)
        # Only its commits show that a repository is empty; the other datasets know nothing better.
        is_still_empty = source.state == "empty" and self.dataset != "commits" and walk.state == "active"
        return replace(walk, state="empty") if is_still_empty else walk

    def read(
        self, source: records.Source, walk: records.Walk, position: str | None
    ) -> Generator[records.Page, None, None]:
        """Yield the pages of `walk` after `position`. The first page of a walk also holds the Repository, as it is named now.

        Raises WalkLost when the head that frames a walk over commits is gone, and what `begin` raises.
        """
        # A walk that begins now was described a moment ago; one that goes on may have been renamed since.
        described = self._begun.pop() if self._begun else self._described(source)[1]
        is_first = position is None
        for page in self._walk(source, described).pages(walk, position):
            yield page._replace(records=(described.record, *page.records)) if is_first else page
            is_first = False

    def _described(self, source: records.Source) -> tuple[Answer, Described]:
        """The repository by its number, which it keeps when it is renamed or transferred."""
        request = Request("repos.get", f"/repositories/{source.ext_id}", is_conditional=True)
        answer, document = _asked(self.client, request, source.external_name)
        return answer, github_repository.described(document)

    def _walk(self, source: records.Source, described: Described) -> DatasetWalk:
        session = Session(self.client, self.api, described, self.dataset)
        return WALKS[self.dataset](session, source, self.page_size)


def identity(external_name: str) -> tuple[str, str]:
    """The host and the full name that a person means; GitHub's number is what `describe` finds. Raises UsageError."""
    place = github_address.place(external_name)
    return place.host, place.full_name


def describe(client: Client, owner: str, name: str) -> Described:
    """The repository with this name, or that once had it: its number, its name now, whether it is archived.

    Raises SourceUnavailable when it cannot be read, and what `Client.send` raises.
    """
    request = Request("repos.get", f"/repos/{owner}/{name}", is_conditional=True)
    _, document = _asked(client, request, f"{owner}/{name}")
    return github_repository.described(document)


def list_repositories(client: Client, owner: str) -> Iterator[Listing]:
    """The repositories of an organisation, or the public ones of a user, page by page.

    A page says when GitHub left out what needs single sign-on. Raises what `describe` raises.
    """
    params = {"type": "all", "per_page": str(MOST)}
    organisation = Request("repos.list", f"/orgs/{owner}/repos", params)
    for answer in client.pages(organisation):
        if answer.status == 404:  # it is no organisation
            break
        yield _listing(answer, owner)
    else:
        return
    for answer in client.pages(replace(organisation, url=f"/users/{owner}/repos")):
        yield _listing(answer, owner)


def _listing(answer: Answer, owner: str) -> Listing:
    document = _judged(answer, owner)
    return Listing(tuple(github_repository.described(row) for row in document), github_state.withheld(answer))


def _asked(client: Client, request: Request, full_name: str) -> tuple[Answer, Any]:
    answer = client.send(request)
    return answer, _judged(answer, full_name)


def _judged(answer: Answer, full_name: str) -> Any:
    if fault := github_state.source_fault(answer, full_name):
        raise fault
    document, _ = github_fields.cleaned(answer.body, answer.document)
    return document
