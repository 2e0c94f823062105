"""Changes to the world of the fake, by chance but the same for the same seed: what people do while somebody reads."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from worker_app.demo.editor import Editor
from worker_app.demo.fake import FakeGitHub
from worker_app.demo.history import Historian
from worker_app.demo.node_ids import node_id
from worker_app.demo.things import Account, Commit, Deployment, DeploymentStatus, Repository, RunAttempt, WorkflowRun


def now() -> datetime:
    """The time as GitHub keeps it."""
    return datetime.now(UTC).replace(microsecond=0)


class Crowd:
    """Changes one repository at random."""

    def __init__(self, fake: FakeGitHub, repository: Repository, seed: int) -> None:
        self.luck = random.Random(seed)
        self.world = fake.world
        self.repository = repository
        self.editor = Editor(self.world, repository)
        self.historian = Historian(self.world, repository, self.luck, f"crowd {seed}")

    def act(self) -> None:
        """Do one thing, now. The caller holds the world's lock."""
        self.luck.choice(self._acts())()

    def somebody(self) -> Account | None:
        """Who does it; None: somebody who left."""
        return self.luck.choice([*(one for one in self.world.accounts.values() if one.kind != "Organization"), None])

    def _acts(self) -> list[Callable[[], object]]:
        pulls, issues = list(self.repository.pulls.values()), list(self.repository.issues.values())
        pull, issue = self.luck.choice(pulls), self.luck.choice(issues)
        close_or_reopen = self.editor.reopen if issue.state == "closed" else self.editor.close
        return [
            lambda: self.editor.open_issue(now(), self.somebody(), "New"),
            lambda: self.editor.rename(issue, now(), "Renamed"),
            lambda: close_or_reopen(issue, now(), self.somebody()),
            lambda: self.editor.rename(pull, now(), "Renamed"),
            lambda: self.editor.review(pull, now(), self.somebody(), "APPROVED"),
            lambda: self.editor.comment(pull, now(), self.somebody(), "Hm"),
            lambda: self.editor.add_commit(pull, self._commit(), now()),
            lambda: self.editor.open_pull(now(), self.somebody(), [self._commit()], title="New"),
            lambda: self.historian.push(now(), self.somebody()),
            self.merge_late_branch,
            self.start_run,
            self.run_again,
            self.deploy,
            self.finish_deployment,
        ]

    def _commit(self) -> Commit:
        head = self.repository.head
        assert head is not None
        return self.historian.write(now(), self.somebody(), (head,), "Work")

    def merge_late_branch(self) -> None:
        """Merge a branch that left long ago and whose commits carry old dates."""
        base = self.luck.choice(list(self.repository.commits.values()))
        late = self.historian.write(base.committed_at + timedelta(seconds=1), self.somebody(), (base.sha,), "Late")
        head = self.repository.head
        assert head is not None
        self.historian.advance(self.historian.write(now(), self.somebody(), (head, late.sha), "Merge"), now())

    def start_run(self) -> WorkflowRun:
        """A run that has just begun."""
        number, node = self.world.new_id("WFR", self.repository)
        actor, head = self._anybody(), self.repository.head
        assert head is not None
        run = WorkflowRun(number, node, 1, "CI", 1, "push", "main", head, now(), actor)
        run.attempts.append(RunAttempt(1, "in_progress", None, now(), now(), actor))
        self.repository.runs[number] = self.world.settle(run, self.repository)
        return run

    def run_again(self) -> None:
        """End a run that began not long ago, or run it again."""
        recent = [run for run in self.repository.runs.values() if run.created_at > now() - timedelta(days=1)]
        if not recent:
            return
        run = self.luck.choice(recent)
        if run.last.status == "completed":
            run.attempts.append(RunAttempt(len(run.attempts) + 1, "in_progress", None, now(), now(), self._anybody()))
        else:
            run.last.status, run.last.conclusion, run.last.updated_at = "completed", "failure", now()

    def deploy(self) -> None:
        """A deployment that has just begun."""
        number, node = self.world.new_id("DE", self.repository)
        head = self.repository.head
        assert head is not None
        made = Deployment(number, node, head, "main", "production", self.somebody(), now(), now())
        self.repository.deployments[number] = self.world.settle(made, self.repository)

    def finish_deployment(self) -> None:
        """One more status of a deployment that began not long ago."""
        recent = [one for one in self.repository.deployments.values() if one.created_at > now() - timedelta(days=1)]
        if recent:
            made = self.luck.choice(recent)
            number = next(self.world.ids)
            node = node_id("DES", self.repository.id, number)
            state = self.luck.choice(("in_progress", "success", "failure"))
            made.statuses.append(DeploymentStatus(number, node, state, made.creator, now()))
            made.updated_at = now()

    def _anybody(self) -> Account:
        return self.somebody() or self.world.ghost
