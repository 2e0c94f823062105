"""Repositories: what GitHub says of one as a whole, and which of its datasets are switched off. Pure."""

from dataclasses import dataclass

from worker_app import records
from worker_app.providers.github_fields import Json

SWITCHES = {"work_items": "has_issues", "pull_requests": "has_pull_requests", "review_comments": "has_pull_requests"}


@dataclass(frozen=True, slots=True)
class Described:
    """A repository as GitHub describes it."""

    record: records.Repository
    switched_off: frozenset[str]  # datasets

    @property
    def full_name(self) -> str:
        """Its name now: acme/api."""
        return self.record.full_name

    @property
    def variables(self) -> dict[str, object]:
        """What names it in a GraphQL query."""
        owner, _, name = self.record.full_name.partition("/")
        return {"owner": owner, "name": name}

    @property
    def state(self) -> str:
        """The state of a source that is this repository: active or archived."""
        return "archived" if self.record.is_archived else "active"


def described(document: Json) -> Described:
    """Read a repository of REST, in its short or its long form."""
    record = records.Repository(
        ext_id=str(document["id"]),
        full_name=document["full_name"],
        default_branch=document.get("default_branch"),
        is_archived=document.get("archived"),
    )
    off = frozenset(dataset for dataset, switch in SWITCHES.items() if document.get(switch) is False)
    return Described(record, off)
