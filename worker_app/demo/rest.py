"""The REST door: finds the repository that a path names, then what is asked of it. Pure but for reading the world.

Paths are those of https://docs.github.com/en/rest; a repository also answers by number at `/repositories/{id}`, as GitHub's own
`Link` headers and redirects have it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from worker_app.demo import answers, paging, rest_accounts, rest_compare, rest_lists, rest_pulls, rest_repositories
from worker_app.demo.messages import Request, Response
from worker_app.demo.rest_lists import Visit
from worker_app.demo.rest_threads import Names
from worker_app.demo.things import Account, Repository
from worker_app.demo.world import World

BY_NAME = re.compile(r"/repos/(?P<full_name>[^/]+/[^/]+)(?P<rest>/.*)?")
BY_NUMBER = re.compile(r"/repositories/(?P<number>\d+)(?P<rest>/.*)?")
ACCOUNT = re.compile(r"/(?P<kind>orgs|users|organizations|user)/(?P<account>[^/]+)(?P<rest>/\w+)?")
REPOSITORY = "/repos/{owner}/{repo}"


@dataclass(frozen=True, slots=True)
class Rest:
    """Answers requests about `world`."""

    world: World
    null_users: bool = False  # a ghost is null instead of the account `ghost`

    def answer(self, request: Request, viewer: Account) -> Response:
        """The answer to a request that was admitted."""
        if request.method != "GET":
            return answers.not_found()
        if request.path == "/user":
            return Response(200, rest_accounts.private_account(viewer, request.base_url), template="/user")
        if found := ACCOUNT.fullmatch(request.path):
            return self._account(request, **found.groupdict())
        if found := BY_NAME.fullmatch(request.path):
            return self._by_name(request, found["full_name"], found["rest"] or "", viewer)
        if (found := BY_NUMBER.fullmatch(request.path)) and (
            repository := self.world.repositories.get(int(found["number"]))
        ):
            return self._about(request, repository, found["rest"] or "", viewer)
        return answers.not_found()

    def _account(self, request: Request, kind: str, account: str, rest: str | None) -> Response:
        owner = self.world.owner(account)
        if owner is None:
            return answers.not_found()
        if rest == "/repos" and (kind in {"users", "user"} or owner.kind == "Organization"):
            return self._repositories(request, owner, is_organisation=kind in {"orgs", "organizations"})
        if kind == "users" and rest is None:
            return Response(200, rest_accounts.public_account(owner, request.base_url), template="/users/{username}")
        return Response(200, [], template="/users/{username}/orgs") if rest == "/orgs" else answers.not_found()

    def _repositories(self, request: Request, owner: Account, *, is_organisation: bool) -> Response:
        """What an account owns, without what single sign-on hides: a header tells of that, the status does not."""
        owned = self.world.of_owner(owner.login)
        shown = [one for one in owned if not one.demands_sso]
        headers = {} if len(shown) == len(owned) else {"x-github-sso": f"partial-results; organizations={owner.id}"}
        headers |= paging.link(
            request, f"/{'organizations' if is_organisation else 'user'}/{owner.id}/repos", len(shown)
        )
        rows = [rest_repositories.repository(one, request.base_url) for one in paging.asked(request).of(shown)]
        return Response(
            200, rows, headers, template=f"/{'orgs/{org}' if is_organisation else 'users/{username}'}/repos"
        )

    def _by_name(self, request: Request, full_name: str, rest: str, viewer: Account) -> Response:
        if found := self.world.named(full_name):
            return self._about(request, found, rest, viewer)
        if found := self.world.formerly_named(full_name):
            return answers.moved(_url(request, found, rest))
        return answers.not_found()

    def _about(self, request: Request, repository: Repository, rest: str, viewer: Account) -> Response:
        if repository.is_deleted:
            return answers.not_found()
        if repository.demands_sso:
            return answers.sso_required(repository.owner.login)
        names = Names(self.world.ghost, request.base_url, null_users=self.null_users)
        if not rest:
            document = rest_repositories.full_repository(repository, request.base_url)
            changed_at = max(repository.updated_at, repository.pushed_at)
            return Response(200, document, last_modified=changed_at, template=REPOSITORY)
        for pattern, template, answer in ROUTES:
            if found := pattern.fullmatch(rest):
                response = answer(Visit(request, repository, names, tuple(map(int, found.groups())), viewer))
                response.template = REPOSITORY + template
                return response
        return answers.not_found()


def endpoint_of(request: Request) -> str:
    """The name under which a request is counted: `graphql`, or method and path with its names and numbers left out."""
    if request.path == "/graphql":
        return "graphql"
    path = BY_NAME.sub(lambda found: REPOSITORY + (found["rest"] or ""), request.path)
    path = BY_NUMBER.sub(lambda found: REPOSITORY + (found["rest"] or ""), path)
    path = re.sub(r"^/(orgs|users|organizations|user)/[^/]+", r"/\1/{name}", path)
    path = re.sub(r"/compare/.*", "/compare/{basehead}", path)
    path = re.sub(r"/\d+", "/{number}", path)
    return f"{request.method} {path}"


def _url(request: Request, repository: Repository, rest: str) -> str:
    query = f"?{urlencode(request.query)}" if request.query else ""
    return f"{request.base_url}/repositories/{repository.id}{rest}{query}"


def _route(
    template: str, answer: Callable[[Visit], Response]
) -> tuple[re.Pattern[str], str, Callable[[Visit], Response]]:
    return re.compile(re.sub(r"\{\w+\}", r"(\\d+)", template)), template, answer


ROUTES = (
    _route("/issues", rest_lists.issues),
    _route("/issues/{issue_number}/timeline", rest_lists.timeline),
    _route("/pulls/comments", rest_lists.review_comments),
    _route("/pulls/{pull_number}", rest_pulls.pull),
    _route("/pulls/{pull_number}/reviews", rest_pulls.reviews),
    _route("/pulls/{pull_number}/commits", rest_pulls.commits),
    _route("/pulls/{pull_number}/comments", rest_pulls.comments),
    _route("/pulls/{pull_number}/requested_reviewers", rest_pulls.requested_reviewers),
    _route("/commits", rest_lists.commits),
    (re.compile(r"/compare/[0-9a-f]{40}\.\.\.[0-9a-f]{40}"), "/compare/{basehead}", rest_compare.compare),
    _route("/actions/runs", rest_lists.runs),
    _route("/actions/runs/{run_id}", rest_lists.run),
    _route("/actions/runs/{run_id}/attempts/{attempt_number}", rest_lists.attempt),
    _route("/deployments", rest_lists.deployments),
    _route("/deployments/{deployment_id}/statuses", rest_lists.statuses),
)
