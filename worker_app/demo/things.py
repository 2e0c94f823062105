"""Things: what a world is made of. Plain mutable values; times are aware UTC in whole seconds, as GitHub keeps them."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(slots=True, eq=False)
class Account:
    """Somebody who acts: a person, a bot, a mannequin of an import, an organisation. A ghost is None in its place."""

    id: int
    node_id: str
    login: str
    kind: str  # User, Bot, Mannequin, Organization
    created_at: datetime


@dataclass(slots=True, eq=False)
class Commit:
    """One commit of a repository, whatever leads to it."""

    sha: str
    node_id: str
    parents: tuple[str, ...]
    message: str
    author: Account | None  # None: nobody at GitHub has the address
    author_name: str
    author_email: str
    authored_at: datetime
    committed_at: datetime
    additions: int
    deletions: int
    files: int


@dataclass(slots=True, eq=False)
class Event:
    """One entry in the timeline of a pull request or an issue."""

    id: int
    node_id: str
    kind: str  # REST's word: closed, reopened, merged, ready_for_review, convert_to_draft, review_requested, labeled
    actor: Account | None
    at: datetime
    sha: str | None = None  # merged, closed by a commit
    reason: str | None = None  # closed issues: completed, not_planned, duplicate
    subject: Account | None = None  # who was asked for a review
    label: str | None = None


@dataclass(slots=True, eq=False)
class Review:
    """A review of a pull request. PENDING ones have no `submitted_at`."""

    id: int
    node_id: str
    author: Account | None
    state: str  # APPROVED, CHANGES_REQUESTED, COMMENTED, DISMISSED, PENDING
    body: str
    sha: str
    created_at: datetime
    updated_at: datetime
    submitted_at: datetime | None


@dataclass(slots=True, eq=False)
class ReviewComment:
    """A comment on the code of a pull request."""

    id: int
    node_id: str
    review_id: int | None
    author: Account | None
    body: str
    path: str
    line: int
    sha: str
    created_at: datetime
    updated_at: datetime


@dataclass(slots=True, eq=False)
class Thread:
    """What pull requests and issues share: GitHub numbers them in one row and lists both as issues."""

    issue_id: int
    node_id: str
    number: int
    title: str
    body: str | None
    author: Account | None
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None = None
    closed_by: Account | None = None
    state: str = "open"  # open, closed
    state_reason: str | None = None
    assignees: list[Account] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Issue(Thread):
    """An issue that is no pull request."""


@dataclass(slots=True, eq=False)
class PullRequest(Thread):
    """A pull request; `id` is its own, `issue_id` the one in lists of issues."""

    id: int = 0
    is_draft: bool = False
    merged_at: datetime | None = None
    merged_by: Account | None = None
    merge_sha: str | None = None
    head_ref: str = ""
    base_ref: str = "main"
    base_sha: str = ""
    commits: list[Commit] = field(default_factory=list)
    reviews: list[Review] = field(default_factory=list)
    comments: list[ReviewComment] = field(default_factory=list)

    @property
    def head_sha(self) -> str:
        """The last of its commits."""
        return self.commits[-1].sha


@dataclass(slots=True, eq=False)
class DeploymentStatus:
    """One step of a deployment."""

    id: int
    node_id: str
    state: str  # REST's word: queued, pending, in_progress, success, failure, error, inactive
    creator: Account | None
    at: datetime


@dataclass(slots=True, eq=False)
class Deployment:
    """One deployment of a commit."""

    id: int
    node_id: str
    sha: str
    ref: str
    environment: str
    creator: Account | None
    created_at: datetime
    updated_at: datetime
    statuses: list[DeploymentStatus] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class RunAttempt:
    """One attempt of a workflow run."""

    attempt: int
    status: str  # queued, in_progress, completed
    conclusion: str | None  # success, failure, cancelled, skipped
    started_at: datetime
    updated_at: datetime
    actor: Account


@dataclass(slots=True, eq=False)
class WorkflowRun:
    """A workflow run with its attempts, the last one last."""

    id: int
    node_id: str
    workflow_id: int
    name: str
    number: int
    event: str
    branch: str
    sha: str
    created_at: datetime
    actor: Account
    attempts: list[RunAttempt] = field(default_factory=list)

    @property
    def last(self) -> RunAttempt:
        """The attempt that lists show."""
        return self.attempts[-1]


@dataclass(slots=True, eq=False)
class Repository:
    """A repository and everything in it."""

    id: int
    node_id: str
    owner: Account
    name: str
    created_at: datetime
    updated_at: datetime
    pushed_at: datetime
    default_branch: str = "main"
    head: str | None = None  # of the default branch; None: the repository is empty
    is_private: bool = False
    is_archived: bool = False
    has_issues: bool = True
    is_deleted: bool = False
    demands_sso: bool = False
    former_names: list[str] = field(default_factory=list)  # full names
    commits: dict[str, Commit] = field(default_factory=dict)
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    issues: dict[int, Issue] = field(default_factory=dict)
    deployments: dict[int, Deployment] = field(default_factory=dict)
    runs: dict[int, WorkflowRun] = field(default_factory=dict)
    last_number: int = 0

    @property
    def full_name(self) -> str:
        """Owner and name."""
        return f"{self.owner.login}/{self.name}"

    def take_number(self) -> int:
        """The number of the next issue or pull request."""
        self.last_number += 1
        return self.last_number
