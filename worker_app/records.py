"""Records: the rows that providers yield, in one shape for all of them, and the frame of the walk that yields them.

Readers make these values, the record store writes them, metrics read them. They know no provider, no SQL and no clock.
Identity is `(org_id, provider, host, ext_id)`; a record holds only what is its own, the source brings the rest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple, Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class CredentialStamp:
    """The version of a credential that a run was planned with."""

    version: int
    fingerprint: bytes  # of its secret


@dataclass(frozen=True, slots=True)
class Source:
    """What is synced: one repository, project or team of one organisation."""

    org_id: UUID
    id: UUID
    provider: str  # github, gitlab, jira, linear, git
    host: str  # the host that a person sees; `localhost` for a path on this machine
    external_name: str  # how a person names it: a clone address, a path
    ext_id: str  # the provider's identity as text; git: the address without user, scheme and .git
    state: str = "active"
    state_reason: str | None = None
    credential_id: UUID | None = None  # None: read without one
    stamp: CredentialStamp | None = None  # None: the credential's newest version


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository as the provider describes it."""

    ext_id: str
    full_name: str
    default_branch: str | None
    is_archived: bool | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit. Line counts are None where there is no evidence: a merge, or the cut edge of a shallow history."""

    ext_id: str  # sha, lower-case hex
    repo_ext_id: str
    author_ext_id: str | None  # the provider's account; None for plain git
    author_email_hash: bytes | None  # 32 bytes, salted by organisation
    authored_at: datetime  # aware UTC
    committed_at: datetime  # aware UTC
    is_merge: bool
    files: int | None
    additions: int | None
    deletions: int | None


@dataclass(frozen=True, slots=True)
class UnreachableCommit:
    """A commit that no branch and no tag leads to any more, after a forced push or a deleted branch."""

    ext_id: str
    repo_ext_id: str


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request (GitLab: merge request). `detail_complete` is False where its commits could not all be read."""

    ext_id: str
    repo_ext_id: str
    number: int
    title: str
    author_ext_id: str | None  # None: the account is gone
    author_is_bot: bool | None
    state: str  # open, closed, merged
    is_draft: bool
    created_at: datetime
    updated_at: datetime
    merged_at: datetime | None
    closed_at: datetime | None
    head_sha: str | None
    merge_sha: str | None
    head_ref: str | None
    base_ref: str | None
    commits_total: int | None  # as the provider counts them
    additions: int | None
    deletions: int | None
    reverts_number: int | None = None
    detail_complete: bool = True


@dataclass(frozen=True, slots=True)
class PullRequestCommit:
    """One commit of a pull request, in the provider's order."""

    ext_id: str  # sha
    pr_ext_id: str
    ordinal: int  # from 0
    authored_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PullRequestEvent:
    """One step in the life of a pull request."""

    ext_id: str
    pr_ext_id: str
    kind: str  # ready, draft, closed, reopened, merged, review_requested
    actor_ext_id: str | None
    at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Review:
    """A review, or a comment on the code of a pull request."""

    ext_id: str
    kind: str  # review, comment
    pr_ext_id: str
    reviewer_ext_id: str | None
    reviewer_is_bot: bool | None
    state: str | None  # approved, changes_requested, commented, dismissed, pending
    commit_sha: str | None
    submitted_at: datetime | None  # None: pending
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class WorkItem:
    """An issue. `history_complete` is True only where every transition was read."""

    ext_id: str
    key: str  # how people name it: acme/api#12, ABC-12
    project_ext_id: str
    type: str | None
    status: str  # the provider's word
    status_category: str  # todo, in_progress, done, dropped
    resolution: str | None
    assignee_ext_id: str | None
    points: float | None
    created_at: datetime
    updated_at: datetime
    resolved_at: datetime | None
    history_complete: bool


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a work item's status."""

    ext_id: str
    item_ext_id: str
    from_status: str | None
    to_status: str
    from_category: str | None
    to_category: str
    actor_ext_id: str | None
    at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class PipelineRun:
    """One attempt of a workflow run or pipeline."""

    ext_id: str
    attempt: int
    repo_ext_id: str
    name: str | None
    ref: str | None
    sha: str | None
    status: str  # queued, running, succeeded, failed, cancelled, skipped
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Deployment:
    """One deployment of a commit to an environment; runs of the same `group_key` are one deployment tried again."""

    ext_id: str
    repo_ext_id: str
    environment: str | None
    env_class: str  # production, staging, other
    sha: str | None
    status: str  # pending, running, succeeded, failed, inactive
    group_key: str
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None


Record = (
    Repository
    | Commit
    | UnreachableCommit
    | PullRequest
    | PullRequestCommit
    | PullRequestEvent
    | Review
    | WorkItem
    | Transition
    | PipelineRun
    | Deployment
)
DETAILS = (Repository, UnreachableCommit, PullRequestCommit, PullRequestEvent, Transition)  # what no dataset is made of


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the last complete walk of a dataset ended."""

    cursor_at: datetime | None = None  # stamp of that walk's start, aware UTC
    tips: Mapping[str, str] = field(default_factory=dict)  # git: full ref name -> sha


@dataclass(frozen=True, slots=True)
class Walk:
    """The frozen frame of one walk. It is stored once and outlives the process, so that a resumed walk sees the same end."""

    started_at: datetime  # the stamp that the cursor gets after a complete walk, aware UTC
    since: Mapping[str, str] = field(default_factory=dict)  # git: ref -> sha that was read before
    until: Mapping[str, str] = field(default_factory=dict)  # git: ref -> sha to read up to
    total: int | None = None  # records to expect, for progress; None: unknown
    is_full: bool = False  # everything is read anew: what it does not meet is unreachable
    state: str = "active"  # what the source proved to be: active or empty
    incomplete_reason: str | None = None  # why even a finished walk is not complete, in words for a person


class Page(NamedTuple):
    """One step of a walk: what was read, and where to go on."""

    records: tuple[Record, ...]  # cleaned, no key twice
    next: str | None  # opaque position after this page, safe to store; None: the walk is over
    complete: bool = True  # nothing was cut on this page
    reason: str | None = None  # why `complete` is False, in words for a person
    replaced_bytes: int = 0  # texts in which bytes had to be replaced

    @property
    def counted(self) -> int:
        """How many of the records are what the dataset is made of: what a run's `records` counts."""
        return sum(not isinstance(item, DETAILS) for item in self.records)


class Reader(Protocol):
    """Reads one dataset of one provider. It keeps no state between calls and never touches our stores."""

    def begin(self, source: Source, cursor: Cursor, now: datetime) -> Walk:
        """Freeze what a walk from `cursor` has to read. `now` is the stamp, from the database clock.

        Raises SourceUnavailable when this source cannot be read, TransientError when another try may help.
        """
        ...

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        """Yield the pages of `walk` after `position` (None: from its start). Closing the iterator frees what it holds.

        Raises WalkLost when the end of the walk is gone, TransientError when another try may help.
        """
        ...
