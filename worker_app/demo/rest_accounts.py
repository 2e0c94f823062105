"""Accounts as REST shows them."""

from datetime import UTC, datetime
from typing import Any

from worker_app.demo.things import Account

PEOPLE_URL = "https://github.com"
PARTS = {
    "followers_url": "/followers",
    "following_url": "/following{/other_user}",
    "gists_url": "/gists{/gist_id}",
    "starred_url": "/starred{/owner}{/repo}",
    "subscriptions_url": "/subscriptions",
    "organizations_url": "/orgs",
    "repos_url": "/repos",
    "events_url": "/events{/privacy}",
    "received_events_url": "/received_events",
}


def stamp(moment: datetime) -> str:
    """A time as GitHub writes it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def maybe_stamp(moment: datetime | None) -> str | None:
    """The same for a time that may be missing."""
    return None if moment is None else stamp(moment)


def stamp_of(seconds: int) -> str:
    """The same for seconds since the epoch."""
    return stamp(datetime.fromtimestamp(seconds, UTC))


def account(found: Account, base_url: str) -> dict[str, Any]:
    """The short form, which stands wherever somebody acts."""
    url = f"{base_url}/users/{found.login}"
    return {
        "login": found.login,
        "id": found.id,
        "node_id": found.node_id,
        "avatar_url": f"https://avatars.githubusercontent.com/u/{found.id}?v=4",
        "gravatar_id": "",
        "url": url,
        "html_url": f"{PEOPLE_URL}/{found.login}",
        **{name: url + part for name, part in PARTS.items()},
        "type": found.kind,
        "site_admin": False,
        "user_view_type": "public",
    }


def public_account(found: Account, base_url: str) -> dict[str, Any]:
    """The long form, which everybody sees."""
    return {
        **account(found, base_url),
        **dict.fromkeys(("name", "company", "location", "email", "hireable", "bio", "twitter_username")),
        **dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0),
        "blog": "",
        "created_at": stamp(found.created_at),
        "updated_at": stamp(found.created_at),
    }


def private_account(found: Account, base_url: str) -> dict[str, Any]:
    """The long form, which an account sees of itself at `/user`."""
    counts = ("private_gists", "disk_usage", "collaborators", "total_private_repos", "owned_private_repos")
    return {
        **public_account(found, base_url),
        **dict.fromkeys(counts, 0),
        "notification_email": None,
        "two_factor_authentication": True,
        "user_view_type": "private",
    }
