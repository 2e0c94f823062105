"""Generate pull requests: opened, made ready, reviewed, commented, merged or closed, each step in the order of time."""

from datetime import datetime
from functools import partial

from worker_app.demo import words
from worker_app.demo.story import Step, Story
from worker_app.demo.things import Commit, PullRequest

VERDICTS = ("APPROVED", "APPROVED", "COMMENTED", "CHANGES_REQUESTED", "DISMISSED")


def plan(story: Story) -> list[Step]:
    """When each pull request is opened. What follows is planned with it and happens in the order of time as well."""
    recipe = story.recipe
    moments = story.times.spread(recipe.pull_requests)
    reviews = story.shares(recipe.pull_requests * recipe.reviews_per_pull, recipe.pull_requests)
    comments = story.shares(recipe.pull_requests * recipe.comments_per_pull, recipe.pull_requests)
    steps: list[Step] = []
    for place, at in enumerate(moments):
        size = recipe.long_pull_commits if place == 0 and recipe.long_pull_commits else story.luck.randint(1, 5)
        steps += _Life(story, at, size).steps(reviews[place], comments[place])
    return steps


class _Life:
    """One pull request, which exists once its first step has happened."""

    def __init__(self, story: Story, at: datetime, size: int) -> None:
        self._story = story
        self._at = at
        self._size = size
        self._pull: PullRequest | None = None

    @property
    def pull(self) -> PullRequest:
        assert self._pull is not None
        return self._pull

    def steps(self, reviews: int, comments: int) -> list[Step]:
        """Its life."""
        story, is_draft = self._story, self._story.happens(0.2)
        steps = [Step(self._at, partial(self._open, is_draft))]
        ready_at = story.times.after(self._at, hours=10)
        if is_draft and ready_at <= story.times.end:
            steps.append(Step(ready_at, partial(self._make_ready, ready_at)))
        for number, at in enumerate(story.times.within(steps[-1].at, hours=60, count=reviews)):
            steps.append(Step(at, partial(self._review, at, number < comments)))
        late = story.times.within(steps[-1].at, hours=12, count=max(0, comments - reviews))
        steps += [Step(at, partial(self._comment, at)) for at in late]
        end_at = story.times.after(steps[-1].at, hours=12)
        if end_at <= story.times.end and story.happens(0.9):
            steps.append(Step(end_at, partial(self._end, end_at)))
        return steps

    def _open(self, is_draft: bool) -> None:
        story, recipe = self._story, self._story.recipe
        author = story.somebody()
        self._pull = story.editor.open_pull(
            self._at,
            author,
            self._commits(),
            title=words.title(story.luck, recipe),
            body=words.body(story.luck, recipe),
            is_draft=is_draft,
        )
        if not is_draft and story.happens(0.5):
            story.editor.add_event(self.pull, "review_requested", author, self._at, subject=story.anybody())

    def _commits(self) -> list[Commit]:
        head = self._story.repository.head
        parents = () if head is None else (head,)
        commits: list[Commit] = []
        for _ in range(self._size):
            commits.append(self._story.historian.write(self._at, self._story.somebody(), parents, "Work on it"))
            parents = (commits[-1].sha,)
        return commits

    def _make_ready(self, at: datetime) -> None:
        self._story.editor.mark_ready(self.pull, at, self.pull.author)

    def _review(self, at: datetime, has_comment: bool) -> None:
        story = self._story
        state = "PENDING" if story.happens(story.recipe.pending_share) else story.luck.choice(VERDICTS)
        review = story.editor.review(self.pull, at, story.somebody(), state, "Looks right")
        if has_comment:
            story.editor.comment(self.pull, at, review.author, "Why this way?", review)

    def _comment(self, at: datetime) -> None:
        self._story.editor.comment(self.pull, at, self._story.somebody(), "One more thing")

    def _end(self, at: datetime) -> None:
        story = self._story
        if story.happens(0.15):
            story.editor.close(self.pull, at, story.somebody())
        if self.pull.state == "closed" and story.happens(0.7):
            return
        if self.pull.state == "closed":
            story.editor.reopen(self.pull, at, story.somebody())
        self._merge(at)

    def _merge(self, at: datetime) -> None:
        story, pull = self._story, self.pull
        if story.happens(0.4):
            merged = story.historian.push(at, pull.author, f"{pull.title} (#{pull.number})")
        else:
            heads = tuple(sha for sha in (story.repository.head, pull.head_sha) if sha)
            written = story.historian.write(at, pull.author, heads, f"Merge pull request #{pull.number}")
            merged = story.historian.advance(written, at)
        story.editor.merge(pull, at, story.somebody(), merged.sha)
