"""What REST tells of one repository: its lists, filtered, sorted and cut into pages as each endpoint documents it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from worker_app.demo import answers, paging, rest_commits, rest_runs, rest_threads
from worker_app.demo.history import ancestry
from worker_app.demo.messages import Request, Response
from worker_app.demo.rest_threads import Names
from worker_app.demo.things import Account, Repository, ReviewComment, Thread, WorkflowRun

RUNS_MOST = 1000  # that a filtered list of runs ever shows
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Visit:
    """One request about one repository, with the numbers of its path."""

    request: Request
    repository: Repository
    names: Names
    numbers: tuple[int, ...]
    viewer: Account

    def since(self) -> datetime | None:
        """The parameter `since`, aware UTC; None where it is not given or no time."""
        text = self.request.parameter("since")
        try:
            moment = datetime.fromisoformat(text) if text else None
        except ValueError:
            return None
        return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)

    def sorted(self, items: Sequence[T], keys: dict[str, Callable[[T], object]], *, direction: str) -> list[T]:
        """`items` by the parameters `sort` and `direction`; the first of `keys` is the order when none is asked for."""
        key = keys.get(self.request.parameter("sort") or "", next(iter(keys.values())))
        is_descending = (self.request.parameter("direction") or direction) == "desc"
        return sorted(items, key=key, reverse=is_descending)  # type: ignore[arg-type]

    def page(self, items: Sequence[T], shown: Callable[[T], object], path: str) -> Response:
        """One page of `items`; `path` stands below the repository."""
        rows = [shown(item) for item in paging.asked(self.request).of(items)]
        return Response(200, rows, paging.link(self.request, f"/repositories/{self.repository.id}{path}", len(items)))


def issues(visit: Visit) -> Response:
    """`GET /issues`: pull requests too, which are issues to REST."""
    repository = visit.repository
    if not repository.has_issues:
        return answers.refusal(410, "Issues are disabled for this repo")
    state, since = visit.request.parameter("state") or "open", visit.since()
    found: list[Thread] = [
        thread
        for thread in (*repository.issues.values(), *repository.pulls.values())
        if state in {"all", thread.state} and (since is None or thread.updated_at >= since)
    ]
    keys: dict[str, Callable[[Thread], object]] = {
        "created": lambda thread: (thread.created_at, thread.number),
        "updated": lambda thread: (thread.updated_at, thread.number),
    }
    found = visit.sorted(found, keys, direction="desc")
    return visit.page(found, lambda thread: rest_threads.issue(thread, repository, visit.names), "/issues")


def timeline(visit: Visit) -> Response:
    """`GET /issues/{issue_number}/timeline`: the oldest first."""
    repository, number = visit.repository, visit.numbers[0]
    thread = repository.issues.get(number) or repository.pulls.get(number)
    if thread is None:
        return answers.not_found()
    return visit.page(
        thread.events,
        lambda event: rest_threads.event(event, thread, repository, visit.names),
        f"/issues/{number}/timeline",
    )


def review_comments(visit: Visit) -> Response:
    """`GET /pulls/comments`: of all pull requests. Without `sort` the oldest id comes first, whatever the direction."""
    repository, since = visit.repository, visit.since()
    pull_of = {comment.id: pull for pull in repository.pulls.values() for comment in pull.comments}
    found: list[ReviewComment] = [
        comment
        for pull in repository.pulls.values()
        for comment in pull.comments
        if since is None or comment.updated_at >= since
    ]
    keys: dict[str, Callable[[ReviewComment], object]] = {
        "created": lambda comment: (comment.created_at, comment.id),
        "updated": lambda comment: (comment.updated_at, comment.id),
    }
    if visit.request.parameter("sort") is None:
        found = sorted(found, key=lambda comment: comment.id)
    else:
        found = visit.sorted(found, keys, direction="desc")
    return visit.page(
        found,
        lambda comment: rest_threads.review_comment(comment, pull_of[comment.id], repository, visit.names),
        "/pulls/comments",
    )


def commits(visit: Visit) -> Response:
    """`GET /commits`: of the default branch."""
    repository = visit.repository
    if repository.head is None:
        return answers.refusal(409, "Git Repository is empty.")
    found = ancestry(repository.commits, repository.head)
    return visit.page(found, lambda commit: rest_commits.commit(commit, repository, visit.names), "/commits")


def runs(visit: Visit) -> Response:
    """`GET /actions/runs`: the newest first; with any filter at most 1000, whatever there is."""
    found = sorted(visit.repository.runs.values(), key=lambda run: (run.created_at, run.id), reverse=True)
    filters = {
        "branch": lambda run, value: run.branch == value,
        "event": lambda run, value: run.event == value,
        "head_sha": lambda run, value: run.sha == value,
        "status": lambda run, value: value in {run.last.status, run.last.conclusion},
        "actor": lambda run, value: run.actor.login == value,
        "created": _is_created,
    }
    asked = {name: value for name in filters if (value := visit.request.parameter(name))}
    for name, value in asked.items():
        found = [run for run in found if filters[name](run, value)]
    response = visit.page(found[:RUNS_MOST] if asked else found, lambda run: _run(visit, run), "/actions/runs")
    response.document = {"total_count": len(found), "workflow_runs": response.document}
    return response


def _is_created(run: WorkflowRun, period: str) -> bool:
    """Whether it was created within a period in the words of GitHub's search: `>=2026-01-01`, `2026-01-01..2026-02-01`."""
    day_or_second = run.created_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    first, dots, last = period.partition("..")
    if dots:
        return (first == "*" or day_or_second >= first) and (last == "*" or day_or_second[: len(last)] <= last)
    for sign in (">=", "<=", ">", "<"):
        if period.startswith(sign):
            moment = period.removeprefix(sign)
            shown = day_or_second[: len(moment)]
            return {">=": shown >= moment, "<=": shown <= moment, ">": shown > moment, "<": shown < moment}[sign]
    return day_or_second.startswith(period)


def _run(visit: Visit, run: WorkflowRun, attempt: int = 0) -> object:
    return rest_runs.run(run, run.attempts[attempt - 1], visit.repository, visit.names)


def run(visit: Visit) -> Response:
    """`GET /actions/runs/{run_id}`: its last attempt."""
    found = visit.repository.runs.get(visit.numbers[0])
    return answers.not_found() if found is None else Response(200, _run(visit, found))


def attempt(visit: Visit) -> Response:
    """`GET /actions/runs/{run_id}/attempts/{attempt_number}`."""
    number, wanted = visit.numbers
    found = visit.repository.runs.get(number)
    if found is None or not 1 <= wanted <= len(found.attempts):
        return answers.not_found()
    return Response(200, _run(visit, found, wanted))


def deployments(visit: Visit) -> Response:
    """`GET /deployments`: the newest first."""
    found = sorted(visit.repository.deployments.values(), key=lambda one: (one.created_at, one.id), reverse=True)
    for name in ("sha", "ref", "environment"):
        if value := visit.request.parameter(name):
            found = [one for one in found if getattr(one, name) == value]
    return visit.page(found, lambda one: rest_runs.deployment(one, visit.repository, visit.names), "/deployments")


def statuses(visit: Visit) -> Response:
    """`GET /deployments/{deployment_id}/statuses`: the newest first."""
    parent = visit.repository.deployments.get(visit.numbers[0])
    if parent is None:
        return answers.not_found()
    return visit.page(
        parent.statuses[::-1],
        lambda one: rest_runs.deployment_status(one, parent, visit.repository, visit.names),
        f"/deployments/{parent.id}/statuses",
    )
