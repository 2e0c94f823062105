"""Repositories as REST shows them."""

from typing import Any

from worker_app.demo.rest_accounts import account, stamp
from worker_app.demo.things import Repository

PARTS = {
    "forks_url": "/forks",
    "keys_url": "/keys{/key_id}",
    "collaborators_url": "/collaborators{/collaborator}",
    "teams_url": "/teams",
    "hooks_url": "/hooks",
    "issue_events_url": "/issues/events{/number}",
    "events_url": "/events",
    "assignees_url": "/assignees{/user}",
    "branches_url": "/branches{/branch}",
    "tags_url": "/tags",
    "blobs_url": "/git/blobs{/sha}",
    "git_tags_url": "/git/tags{/sha}",
    "git_refs_url": "/git/refs{/sha}",
    "trees_url": "/git/trees{/sha}",
    "statuses_url": "/statuses/{sha}",
    "languages_url": "/languages",
    "stargazers_url": "/stargazers",
    "contributors_url": "/contributors",
    "subscribers_url": "/subscribers",
    "subscription_url": "/subscription",
    "commits_url": "/commits{/sha}",
    "git_commits_url": "/git/commits{/sha}",
    "comments_url": "/comments{/number}",
    "issue_comment_url": "/issues/comments{/number}",
    "contents_url": "/contents/{+path}",
    "compare_url": "/compare/{base}...{head}",
    "merges_url": "/merges",
    "archive_url": "/{archive_format}{/ref}",
    "downloads_url": "/downloads",
    "issues_url": "/issues{/number}",
    "pulls_url": "/pulls{/number}",
    "milestones_url": "/milestones{/number}",
    "notifications_url": "/notifications{?since,all,participating}",
    "labels_url": "/labels{/name}",
    "releases_url": "/releases{/id}",
    "deployments_url": "/deployments",
}
PERMISSIONS = {"admin": False, "maintain": False, "push": False, "triage": False, "pull": True}


def url_of(found: Repository, base_url: str) -> str:
    """Where the API has it."""
    return f"{base_url}/repos/{found.full_name}"


def page_of(found: Repository) -> str:
    """Where a person sees it."""
    return f"https://github.com/{found.full_name}"


def reference(found: Repository, base_url: str) -> dict[str, Any]:
    """The part that every form begins with."""
    url = url_of(found, base_url)
    return {
        "id": found.id,
        "node_id": found.node_id,
        "name": found.name,
        "full_name": found.full_name,
        "private": found.is_private,
        "owner": account(found.owner, base_url),
        "html_url": page_of(found),
        "description": None,
        "fork": False,
        "url": url,
        **{name: url + part for name, part in PARTS.items()},
    }


def repository(found: Repository, base_url: str) -> dict[str, Any]:
    """The form of lists."""
    opened = sum(thread.state == "open" for thread in (*found.pulls.values(), *found.issues.values()))
    return {
        **reference(found, base_url),
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.updated_at),
        "pushed_at": stamp(found.pushed_at),
        "git_url": f"git://github.com/{found.full_name}.git",
        "ssh_url": f"git@github.com:{found.full_name}.git",
        "clone_url": f"https://github.com/{found.full_name}.git",
        "svn_url": page_of(found),
        "homepage": None,
        "size": len(found.commits),
        "language": None,
        "license": None,
        "mirror_url": None,
        "has_issues": found.has_issues,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": True,
        "has_pages": False,
        "has_discussions": False,
        "archived": found.is_archived,
        "disabled": False,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "visibility": "private" if found.is_private else "public",
        "default_branch": found.default_branch,
        "permissions": PERMISSIONS,
        **dict.fromkeys(("stargazers_count", "watchers_count", "forks_count", "forks", "watchers"), 0),
        "open_issues_count": opened,
        "open_issues": opened,
    }


def full_repository(found: Repository, base_url: str) -> dict[str, Any]:
    """The form of a repository that is asked for alone."""
    return {
        **repository(found, base_url),
        "temp_clone_token": "",
        "allow_squash_merge": True,
        "allow_merge_commit": True,
        "allow_rebase_merge": True,
        "allow_auto_merge": False,
        "delete_branch_on_merge": False,
        "allow_update_branch": False,
        "use_squash_pr_title_as_default": False,
        "organization": account(found.owner, base_url),
        "network_count": 0,
        "subscribers_count": 0,
    }
