"""Commits as REST shows them."""

from typing import Any

from worker_app.demo.rest_accounts import stamp
from worker_app.demo.rest_repositories import page_of, url_of
from worker_app.demo.rest_threads import Names
from worker_app.demo.things import Commit, Repository


def commit(found: Commit, repository: Repository, names: Names) -> dict[str, Any]:
    """A commit of a list, which has no lines counted."""
    here = url_of(repository, names.base_url)
    url, page = f"{here}/commits/{found.sha}", f"{page_of(repository)}/commit/{found.sha}"
    person = {"name": found.author_name, "email": found.author_email}
    return {
        "sha": found.sha,
        "node_id": found.node_id,
        "commit": {
            "author": {**person, "date": stamp(found.authored_at)},
            "committer": {**person, "date": stamp(found.committed_at)},
            "message": found.message,
            "tree": {"sha": found.sha[::-1], "url": f"{here}/git/trees/{found.sha[::-1]}"},
            "url": f"{here}/git/commits/{found.sha}",
            "comment_count": 0,
            "verification": {
                "verified": False,
                "reason": "unsigned",
                "signature": None,
                "payload": None,
                "verified_at": None,
            },
        },
        "url": url,
        "html_url": page,
        "comments_url": f"{url}/comments",
        "author": names.nobody(found.author),
        "committer": names.nobody(found.author),
        "parents": [
            {"sha": sha, "url": f"{here}/commits/{sha}", "html_url": f"{page_of(repository)}/commit/{sha}"}
            for sha in found.parents
        ],
    }
