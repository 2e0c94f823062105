"""Generate workflow runs, some of them tried again, and deployments with what became of them."""

from datetime import datetime, timedelta

from worker_app.demo.node_ids import node_id
from worker_app.demo.story import Story
from worker_app.demo.things import Deployment, DeploymentStatus, RunAttempt, WorkflowRun

ENDINGS = ("success", "success", "success", "failure", "cancelled")
ENVIRONMENTS = ("production", "staging")


def add_runs(story: Story) -> None:
    """The runs of the repository's workflow."""
    repository = story.repository
    if repository.head is None:
        return
    workflow_id, _ = story.world.new_id("W", repository)
    for place, at in enumerate(story.times.spread(story.recipe.runs)):
        number, node = story.world.new_id("WFR", repository)
        event = story.luck.choice(("push", "pull_request"))
        run = WorkflowRun(
            number,
            node,
            workflow_id,
            "CI",
            place + 1,
            event,
            repository.default_branch,
            _sha(story),
            at,
            story.anybody(),
        )
        _attempt(story, run, at)
        again_at = story.times.after(run.last.updated_at, hours=1)
        if run.last.conclusion == "failure" and again_at <= story.times.end and story.happens(0.5):
            _attempt(story, run, again_at)
        repository.runs[number] = story.world.settle(run, repository)


def _attempt(story: Story, run: WorkflowRun, at: datetime) -> None:
    ended_at = story.times.after(at, hours=0.2)
    is_over = ended_at <= story.times.end
    conclusion = story.luck.choice(ENDINGS) if is_over else None
    status = "completed" if is_over else "in_progress"
    updated_at = ended_at if is_over else at
    run.attempts.append(RunAttempt(len(run.attempts) + 1, status, conclusion, at, updated_at, story.anybody()))


def add_deployments(story: Story) -> None:
    """Deployments of commits that exist by then; the last may still be under way."""
    repository = story.repository
    if repository.head is None:
        return
    for at in story.times.spread(story.recipe.deployments):
        number, node = story.world.new_id("DE", repository)
        environment = story.luck.choice(ENVIRONMENTS)
        deployment = Deployment(
            number, node, _sha(story), repository.default_branch, environment, story.somebody(), at, at
        )
        ending = story.luck.choice(("success", "success", "failure"))
        for step, state in enumerate(("queued", "in_progress", ending)):
            if (happens_at := at + timedelta(minutes=3 * step)) <= story.times.end:
                add_status(story, deployment, happens_at, state)
        repository.deployments[number] = story.world.settle(deployment, repository)


def add_status(story: Story, deployment: Deployment, at: datetime, state: str) -> None:
    """One more step of it."""
    number = next(story.world.ids)
    node = node_id("DES", story.repository.id, number)
    deployment.statuses.append(DeploymentStatus(number, node, state, deployment.creator, at))
    deployment.updated_at = max(deployment.updated_at, at)


def _sha(story: Story) -> str:
    return story.luck.choice(list(story.repository.commits))
