"""Life: things that go on happening in a world, one at a time, while somebody reads it."""

import random
from collections.abc import Callable
from datetime import datetime

from worker_app.demo.editor import Editor
from worker_app.demo.history import Historian
from worker_app.demo.things import Account, PullRequest, Repository
from worker_app.demo.world import World


class Life:
    """Changes the repositories of `world` at random; the same seed makes the same changes."""

    def __init__(self, world: World, seed: int = 1) -> None:
        self._world = world
        self._luck = random.Random(seed)  # noqa: S311 - no secret
        self._people = [found for found in world.accounts.values() if found.kind in {"User", "Bot"}]
        self._historians: dict[int, Historian] = {}
        self._seed = seed

    def step(self, at: datetime) -> str:
        """One thing happens at that moment; says what, for a person. Takes the world's lock."""
        with self._world.lock:
            living = [one for one in self._world.repositories.values() if one.head and not one.is_deleted]
            repository = self._luck.choice(living)
            editor = Editor(self._world, repository)
            happen: Callable[[Editor, datetime], str] = self._luck.choice(
                (self._open_pull, self._open_issue, self._change_pull, self._change_pull, self._change_issue)
            )
            return f"{repository.full_name}: {happen(editor, at)}"

    def _somebody(self) -> Account:
        return self._luck.choice(self._people)

    def _historian(self, repository: Repository) -> Historian:
        if repository.id not in self._historians:
            name = f"life/{self._seed}/{repository.id}"
            self._historians[repository.id] = Historian(self._world, repository, self._luck, name)
        return self._historians[repository.id]

    def _open_pull(self, editor: Editor, at: datetime) -> str:
        author, parents = self._somebody(), (editor.repository.head or "",)
        commit = self._historian(editor.repository).write(at, author, parents, "Go on")
        return f"pull request {editor.open_pull(at, author, [commit], title='Go on').number} opened"

    def _open_issue(self, editor: Editor, at: datetime) -> str:
        return f"issue {editor.open_issue(at, self._somebody(), 'Something is odd').number} opened"

    def _change_issue(self, editor: Editor, at: datetime) -> str:
        if not editor.repository.issues:
            return self._open_issue(editor, at)
        issue = self._luck.choice(list(editor.repository.issues.values()))
        if issue.state == "open":
            editor.close(issue, at, self._somebody(), "completed")
        else:
            editor.reopen(issue, at, self._somebody())
        return f"issue {issue.number} is {issue.state}"

    def _change_pull(self, editor: Editor, at: datetime) -> str:
        if not editor.repository.pulls:
            return self._open_pull(editor, at)
        pull = self._luck.choice(list(editor.repository.pulls.values()))
        change: Callable[[Editor, PullRequest, datetime], str] = self._luck.choice(
            (self._review, self._comment, self._commit, self._draft, self._merge)
        )
        return f"pull request {pull.number} {change(editor, pull, at)}"

    def _review(self, editor: Editor, pull: PullRequest, at: datetime) -> str:
        return f"reviewed: {editor.review(pull, at, self._somebody(), 'APPROVED').state.lower()}"

    def _comment(self, editor: Editor, pull: PullRequest, at: datetime) -> str:
        editor.comment(pull, at, self._somebody(), "And this?")
        return "commented"

    def _commit(self, editor: Editor, pull: PullRequest, at: datetime) -> str:
        if pull.state == "closed":
            return self._review(editor, pull, at)
        author = self._somebody()
        editor.add_commit(pull, self._historian(editor.repository).write(at, author, (pull.head_sha,), "Once more"), at)
        return "pushed to"

    def _draft(self, editor: Editor, pull: PullRequest, at: datetime) -> str:
        if pull.state == "closed":
            return self._review(editor, pull, at)
        change = editor.mark_ready if pull.is_draft else editor.make_draft
        change(pull, at, pull.author)
        return "is a draft" if pull.is_draft else "is ready"

    def _merge(self, editor: Editor, pull: PullRequest, at: datetime) -> str:
        if pull.state == "closed":
            return self._comment(editor, pull, at)
        merged = self._historian(editor.repository).push(at, pull.author, f"{pull.title} (#{pull.number})")
        editor.merge(pull, at, self._somebody(), merged.sha)
        return "merged"
