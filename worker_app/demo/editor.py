"""The editor of one repository's threads: opens, closes, reviews, merges. Each change counts as an update of its thread.

The generator writes the whole world with it; tests and the demo go on with it while somebody reads.
"""

from collections.abc import Sequence
from datetime import datetime

from worker_app.demo.things import Account, Commit, Event, Issue, PullRequest, Repository, Review, ReviewComment, Thread
from worker_app.demo.world import World


class Editor:
    """Changes the issues and pull requests of `repository`. The caller holds the world's lock while others read."""

    def __init__(self, world: World, repository: Repository) -> None:
        self.world = world
        self.repository = repository

    def open_issue(self, at: datetime, author: Account | None, title: str, body: str | None = None) -> Issue:
        """A new issue."""
        number, node = self.world.new_id("I", self.repository)
        issue = Issue(number, node, self.repository.take_number(), title, body, author, at, updated_at=at)
        self.repository.issues[issue.number] = self.world.settle(issue, self.repository)
        return issue

    def open_pull(
        self,
        at: datetime,
        author: Account | None,
        commits: Sequence[Commit],
        *,
        title: str,
        body: str | None = None,
        is_draft: bool = False,
    ) -> PullRequest:
        """A new pull request of `commits`, the first of which starts from the base."""
        issue_id, _ = self.world.new_id("I", self.repository)
        pull_id, node = self.world.new_id("PR", self.repository)
        pull = PullRequest(
            issue_id, node, self.repository.take_number(), title, body, author, at, updated_at=at, id=pull_id
        )
        pull.is_draft, pull.commits = is_draft, list(commits)
        pull.head_ref, pull.base_ref = f"change-{pull.number}", self.repository.default_branch
        pull.base_sha = commits[0].parents[0] if commits[0].parents else commits[0].sha
        self.repository.pulls[pull.number] = self.world.settle(pull, self.repository)
        return pull

    def add_event(
        self,
        thread: Thread,
        kind: str,
        actor: Account | None,
        at: datetime,
        *,
        sha: str | None = None,
        reason: str | None = None,
        subject: Account | None = None,
    ) -> Event:
        """One more entry at the end of the timeline."""
        number, node = self.world.new_id("EV", self.repository)
        event = Event(number, node, kind, actor, at, sha, reason, subject)
        thread.events.append(self.world.settle(event, self.repository, thread))
        _touch(thread, at)
        return event

    def close(self, thread: Thread, at: datetime, actor: Account | None, reason: str | None = None) -> None:
        """Close it. Issues have a reason: completed, not_planned or duplicate."""
        thread.state, thread.state_reason, thread.closed_at, thread.closed_by = "closed", reason, at, actor
        self.add_event(thread, "closed", actor, at, reason=reason)

    def reopen(self, thread: Thread, at: datetime, actor: Account | None) -> None:
        """Open it again."""
        reason = "reopened" if isinstance(thread, Issue) else None
        thread.state, thread.state_reason, thread.closed_at, thread.closed_by = "open", reason, None, None
        self.add_event(thread, "reopened", actor, at)

    def rename(self, thread: Thread, at: datetime, title: str) -> None:
        """Give it another title."""
        thread.title = title
        _touch(thread, at)

    def mark_ready(self, pull: PullRequest, at: datetime, actor: Account | None) -> None:
        """The draft is one no more."""
        pull.is_draft = False
        self.add_event(pull, "ready_for_review", actor, at)

    def make_draft(self, pull: PullRequest, at: datetime, actor: Account | None) -> None:
        """Back to a draft."""
        pull.is_draft = True
        self.add_event(pull, "convert_to_draft", actor, at)

    def add_commit(self, pull: PullRequest, commit: Commit, at: datetime) -> None:
        """Push one more commit to it."""
        pull.commits.append(commit)
        _touch(pull, at)

    def review(self, pull: PullRequest, at: datetime, author: Account | None, state: str, body: str = "") -> Review:
        """A review of its head. A PENDING one has not been submitted and moves nothing."""
        number, node = self.world.new_id("PRR", self.repository)
        submitted_at = None if state == "PENDING" else at
        review = Review(number, node, author, state, body, pull.head_sha, at, at, submitted_at)
        pull.reviews.append(self.world.settle(review, self.repository, pull))
        if submitted_at:
            _touch(pull, at)
        return review

    def comment(
        self, pull: PullRequest, at: datetime, author: Account | None, body: str, review: Review | None = None
    ) -> ReviewComment:
        """A comment on a line of its code."""
        number, node = self.world.new_id("PRRC", self.repository)
        review_id = review.id if review else None
        line = len(pull.comments) + 1
        comment = ReviewComment(number, node, review_id, author, body, "src/app.py", line, pull.head_sha, at, at)
        pull.comments.append(self.world.settle(comment, self.repository, pull))
        _touch(pull, at)
        return comment

    def merge(self, pull: PullRequest, at: datetime, actor: Account | None, sha: str) -> None:
        """Merge it as commit `sha`, which is on the base branch already."""
        pull.state, pull.closed_at, pull.closed_by = "closed", at, actor
        pull.merged_at, pull.merged_by, pull.merge_sha = at, actor, sha
        self.add_event(pull, "merged", actor, at, sha=sha)
        self.add_event(pull, "closed", actor, at)


def _touch(thread: Thread, at: datetime) -> None:
    thread.updated_at = max(thread.updated_at, at)
