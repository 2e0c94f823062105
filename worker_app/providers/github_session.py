"""The session: asks GitHub about one repository, judges each answer, and gathers what one page is made of.

Between the walks, which know the datasets, and the client, which knows HTTP.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from worker_app import records
from worker_app.providers import github_fields, github_graphql, github_state
from worker_app.providers.client import Answer, Client, Request
from worker_app.providers.github_address import Api
from worker_app.providers.github_queries import Query
from worker_app.providers.github_repository import Described

MOST_REASONS = 3  # that a page tells


class Reply(NamedTuple):
    """What one request brought."""

    document: Any  # texts cleaned
    replaced: int  # texts that had to be changed
    reasons: tuple[str, ...]  # why it lacks something
    next_url: str | None


@dataclass(slots=True)
class Draft:
    """A page in the making: what the replies to several requests bring together."""

    found: list[records.Record] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    replaced: int = 0

    def take(self, reply: Reply) -> Any:
        """Note what is wrong with a reply; returns its document."""
        self.replaced += reply.replaced
        self.reasons += reply.reasons
        return reply.document

    def page(self, position: str | None) -> records.Page:
        """The page, after which `position` goes on."""
        reason = "; ".join(dict.fromkeys(self.reasons[:MOST_REASONS])) or None
        return records.Page(
            github_fields.without_doubles(self.found),
            position,
            complete=not self.reasons,
            reason=reason,
            replaced_bytes=self.replaced,
        )


@dataclass(frozen=True, slots=True)
class Session:
    """Asks about `repository` for one dataset. All methods raise what `Client.send` raises, and the states of a source."""

    client: Client
    api: Api
    repository: Described
    dataset: str

    def path(self, *parts: str) -> str:
        """A path below the repository."""
        return "/".join((f"/repos/{self.repository.full_name}", *parts))

    def send(self, request: Request) -> Answer:
        """An answer that is not judged."""
        return self.client.send(request)

    def get(self, request: Request) -> Reply:
        """One answer of REST."""
        return self.judged(self.client.send(request))

    def pages(
        self,
        endpoint: str,
        part: str,
        params: Mapping[str, str],
        next_url: str | None = None,
        *,
        is_conditional: bool = False,
    ) -> Iterator[Reply]:
        """The pages of a list of REST, below the repository; from `next_url` on where there is one."""
        url, asked = (next_url, {}) if next_url else (self.path(part), params)
        begin = Request(endpoint, url, asked, is_conditional=is_conditional)
        return (self.judged(answer) for answer in self.client.pages(begin))

    def ask(self, query: Query, variables: Mapping[str, object], items: int = 1) -> Reply:
        """The data of a GraphQL query, whose page has `items` items."""
        document = {"query": query.text, "variables": {**variables}}
        request = Request("graphql", self.api.graphql, document=document, cost=query.cost(items))
        answer = self.client.send(request)
        if fault := github_state.dataset_fault(answer, self.repository.full_name, self.dataset):
            raise fault
        found = github_graphql.judge(answer, self.repository.full_name)
        data, replaced = github_fields.cleaned(answer.body, found.data)
        return Reply(data, replaced, found.reasons, None)

    def judged(self, answer: Answer) -> Reply:
        """What a REST answer brings; raises what it means when it is no success."""
        if fault := github_state.dataset_fault(answer, self.repository.full_name, self.dataset):
            raise fault
        document, replaced = github_fields.cleaned(answer.body, answer.document)
        withheld = github_state.withheld(answer)
        return Reply(document, replaced, (withheld,) if withheld else (), answer.next_url)
