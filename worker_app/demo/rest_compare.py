"""Comparisons of two commits: which of them leads to the other, and what the second adds.

https://docs.github.com/en/rest/commits/commits#compare-two-commits
"""

from typing import Any

from worker_app.demo import answers, paging, rest_commits
from worker_app.demo.history import ancestry
from worker_app.demo.messages import Response
from worker_app.demo.rest_lists import Visit
from worker_app.demo.rest_repositories import page_of, url_of


def compare(visit: Visit) -> Response:
    """`GET /compare/{base}...{head}` with shas. Files, of which there are none here, come with the first page alone."""
    repository = visit.repository
    base, _, head = visit.request.path.rsplit("/", 1)[1].partition("...")
    if base not in repository.commits or head not in repository.commits:
        return answers.not_found()
    before, after = (ancestry(repository.commits, sha) for sha in (base, head))
    shared = {commit.sha for commit in before} & {commit.sha for commit in after}
    if not shared:
        return answers.refusal(404, f"No common ancestor between {base} and {head}.")
    ahead = [commit for commit in reversed(after) if commit.sha not in shared]
    behind = len(before) - len(shared)
    common = next(commit for commit in after if commit.sha in shared)
    path, here, page = f"/compare/{base}...{head}", url_of(repository, visit.names.base_url), page_of(repository)
    response = visit.page(ahead, lambda commit: rest_commits.commit(commit, repository, visit.names), path)
    document: dict[str, Any] = {
        "url": f"{here}{path}",
        "html_url": f"{page}{path}",
        "permalink_url": f"{page}{path}",
        "diff_url": f"{page}{path}.diff",
        "patch_url": f"{page}{path}.patch",
        "base_commit": rest_commits.commit(repository.commits[base], repository, visit.names),
        "merge_base_commit": rest_commits.commit(common, repository, visit.names),
        "status": _status(len(ahead), behind),
        "ahead_by": len(ahead),
        "behind_by": behind,
        "total_commits": len(ahead),
        "commits": response.document,
    }
    response.document = document | ({"files": []} if paging.asked(visit.request).page == 1 else {})
    return response


def _status(ahead: int, behind: int) -> str:
    if ahead and behind:
        return "diverged"
    return "ahead" if ahead else "behind" if behind else "identical"
