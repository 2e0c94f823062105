"""Issues, pull requests as issues, timeline events and review comments as REST shows them."""

from typing import Any

from worker_app.demo.rest_accounts import account, maybe_stamp, stamp
from worker_app.demo.rest_repositories import page_of, url_of
from worker_app.demo.things import Account, Event, PullRequest, Repository, ReviewComment, Thread

REACTIONS = dict.fromkeys(("total_count", "+1", "-1", "laugh", "hooray", "confused", "heart", "rocket", "eyes"), 0)


class Names:
    """How accounts are shown: a ghost as the account `ghost`, or as null where `null_users` is set."""

    def __init__(self, ghost: Account, base_url: str, *, null_users: bool = False) -> None:
        self.base_url = base_url
        self._ghost = None if null_users else ghost

    def user(self, found: Account | None) -> dict[str, Any] | None:
        """The account of somebody who wrote."""
        shown = found or self._ghost
        return None if shown is None else account(shown, self.base_url)

    def nobody(self, found: Account | None) -> dict[str, Any] | None:
        """The account of somebody who may as well be nobody."""
        return None if found is None else account(found, self.base_url)


def issue(found: Thread, repository: Repository, names: Names) -> dict[str, Any]:
    """An issue, or a pull request in a list of issues."""
    here = url_of(repository, names.base_url)
    url, kind = f"{here}/issues/{found.number}", "pull" if isinstance(found, PullRequest) else "issues"
    shown = {
        "url": url,
        "repository_url": here,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": f"{page_of(repository)}/{kind}/{found.number}",
        "id": found.issue_id,
        "node_id": found.node_id,
        "number": found.number,
        "title": found.title,
        "user": names.user(found.author),
        "labels": [_label(name, repository, here) for name in found.labels],
        "state": found.state,
        "locked": False,
        "assignee": names.nobody(found.assignees[0] if found.assignees else None),
        "assignees": [account(one, names.base_url) for one in found.assignees],
        "milestone": None,
        "comments": 0,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "closed_at": maybe_stamp(found.closed_at),
        "author_association": "MEMBER",
        "active_lock_reason": None,
        "body": found.body,
        "closed_by": names.nobody(found.closed_by),
        "reactions": {"url": f"{url}/reactions", **REACTIONS},
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": None,
        "state_reason": found.state_reason,
    }
    return shown | (_pull_part(found, repository, here) if isinstance(found, PullRequest) else {})


def _pull_part(found: PullRequest, repository: Repository, here: str) -> dict[str, Any]:
    page = f"{page_of(repository)}/pull/{found.number}"
    return {
        "draft": found.is_draft,
        "pull_request": {
            "url": f"{here}/pulls/{found.number}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": maybe_stamp(found.merged_at),
        },
    }


def _label(name: str, repository: Repository, here: str) -> dict[str, Any]:
    return {
        "id": repository.id + len(name),
        "node_id": f"LA_{name}",
        "url": f"{here}/labels/{name}",
        "name": name,
        "color": "d73a4a",
        "default": True,
        "description": None,
    }


def event(found: Event, thread: Thread, repository: Repository, names: Names) -> dict[str, Any]:
    """One entry of an issue's timeline."""
    shown = {
        "id": found.id,
        "node_id": found.node_id,
        "url": f"{url_of(repository, names.base_url)}/issues/events/{found.id}",
        "actor": names.user(found.actor),
        "event": found.kind,
        "commit_id": found.sha,
        "commit_url": found.sha and f"{url_of(repository, names.base_url)}/commits/{found.sha}",
        "created_at": stamp(found.at),
        "performed_via_github_app": None,
    }
    if found.kind == "closed":
        shown["state_reason"] = None if isinstance(thread, PullRequest) else found.reason
    if found.kind == "review_requested":
        shown |= {"review_requester": names.user(found.actor), "requested_reviewer": names.user(found.subject)}
    return shown


def review_comment(found: ReviewComment, pull: PullRequest, repository: Repository, names: Names) -> dict[str, Any]:
    """A comment on the code of a pull request."""
    here = url_of(repository, names.base_url)
    url, pull_url = f"{here}/pulls/comments/{found.id}", f"{here}/pulls/{pull.number}"
    page = f"{page_of(repository)}/pull/{pull.number}#discussion_r{found.id}"
    return {
        "url": url,
        "pull_request_review_id": found.review_id,
        "id": found.id,
        "node_id": found.node_id,
        "diff_hunk": "@@ -1 +1 @@\n-old\n+new",
        "path": found.path,
        "commit_id": found.sha,
        "original_commit_id": found.sha,
        "user": names.user(found.author),
        "body": found.body,
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": "MEMBER",
        "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull_url}},
        "reactions": {"url": f"{url}/reactions", **REACTIONS},
        "start_line": None,
        "original_start_line": None,
        "start_side": None,
        "line": found.line,
        "original_line": found.line,
        "side": "RIGHT",
        "position": found.line,
        "original_position": found.line,
        "subject_type": "line",
    }
