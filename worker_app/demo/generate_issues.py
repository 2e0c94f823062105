"""Generate issues: opened, closed as done or dropped, and now and then opened again."""

from datetime import datetime
from functools import partial

from worker_app.demo import words
from worker_app.demo.story import Step, Story

REASONS = ("completed", "completed", "completed", "not_planned", "duplicate")


def plan(story: Story) -> list[Step]:
    """When each issue of the repository is opened; its life follows at once."""
    return [Step(at, partial(_live, story, at)) for at in story.times.spread(story.recipe.issues)]


def _live(story: Story, at: datetime) -> None:
    luck, recipe = story.luck, story.recipe
    issue = story.editor.open_issue(at, story.somebody(), words.title(luck, recipe), words.body(luck, recipe))
    issue.labels = list(luck.choice(((), ("bug",), ("enhancement",))))
    issue.assignees = [found for found in (story.somebody(),) if found and story.happens(0.5)]
    closed_at = story.times.after(at, hours=80)
    if closed_at > story.times.end or story.happens(0.2):
        return
    story.editor.close(issue, closed_at, story.somebody(), story.luck.choice(REASONS))
    reopened_at = story.times.after(closed_at, hours=30)
    if reopened_at <= story.times.end and story.happens(0.15):
        story.editor.reopen(issue, reopened_at, story.somebody())
