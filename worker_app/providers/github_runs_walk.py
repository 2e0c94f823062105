"""The walk over workflow runs: newest first, back to three days before the cursor, since runs go on after they were created.

So what was unfinished is read again, and a run that is run again within three days is met. Earlier attempts are read one by one,
when the newest one began since the last walk; that walk has the others. What is run again later is the sweep's. The parameter
`created` is not used: with it GitHub lists 1,000 runs at most.
Page: https://docs.github.com/en/rest/actions/workflow-runs#list-workflow-runs-for-a-repository
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from worker_app import records
from worker_app.providers import github_position, github_runs
from worker_app.providers.client import Request
from worker_app.providers.github_fields import Json
from worker_app.providers.github_session import Draft, Session


@dataclass(frozen=True, slots=True)
class RunsWalk:
    """Reads the dataset pipeline_runs."""

    session: Session
    source: records.Source
    page_size: int

    def begin(self, cursor: records.Cursor, stamp: datetime) -> records.Walk:
        """Freeze from which time on the walk reads."""
        since = github_position.created_since(cursor)
        return records.Walk(started_at=stamp, since=since, state=self.session.repository.state)

    def pages(self, walk: records.Walk, position: str | None) -> Iterator[records.Page]:
        """Yield the runs created since the walk's beginning, with all of their attempts."""
        shown, goes_on = github_position.unpacked(position).get("shown", 0), github_position.next_url(position)
        for reply in self.session.pages("runs.list", "actions/runs", {"per_page": str(self.page_size)}, goes_on):
            draft = Draft()
            document = draft.take(reply)
            rows, total = document["workflow_runs"], document["total_count"]
            recent = github_position.created_in(walk, rows)
            for row in recent:
                self._add(draft, row, walk)
            shown += len(rows)
            is_at_the_end = len(recent) < len(rows)
            if not is_at_the_end and reply.next_url is None and shown < total:
                draft.reasons.append(f"GitHub counts {total} workflow runs and showed {shown}")
            yield draft.page(None if is_at_the_end else github_position.before(reply.next_url, shown=shown))
            if is_at_the_end:
                return

    def _add(self, draft: Draft, row: Json, walk: records.Walk) -> None:
        draft.found.append(github_runs.pipeline_run(row, self.source.ext_id))
        began = row.get("run_started_at")
        if began is None or github_position.is_since(began, walk.since.get("updated_at")):
            for attempt in range(1, github_runs.attempt_of(row)):
                self._add_attempt(draft, row["id"], attempt)

    def _add_attempt(self, draft: Draft, run_id: int, attempt: int) -> None:
        path = self.session.path("actions/runs", str(run_id), "attempts", str(attempt))
        answer = self.session.send(Request("runs.get", path))
        if answer.status != 404:  # GitHub no longer has that attempt
            row = draft.take(self.session.judged(answer))
            draft.found.append(github_runs.pipeline_run(row, self.source.ext_id))
