"""Issues of GitHub as work items with their transitions. Pure.

An issue is open or closed; why it was closed says whether it was done or dropped.
Page: https://docs.github.com/en/rest/issues/issues
"""

from collections.abc import Iterable, Iterator

from worker_app import records
from worker_app.providers.github_fields import Json, graphql_account, moment, moment_or_none, rest_account, within

OPEN, CLOSED = "open", "closed"
TODO, DONE, DROPPED = "todo", "done", "dropped"
DROPPED_REASONS = frozenset({"not_planned", "duplicate"})


def is_pull_request(row: Json) -> bool:
    """Whether a row of the list of issues is a pull request, which GitHub lists there too."""
    return row.get("pull_request") is not None


def work_item(row: Json, source: records.Source, full_name: str, *, has_history: bool) -> records.WorkItem:
    """An issue; `has_history` says whether all of its transitions were read."""
    is_closed = row["state"] == CLOSED
    reason = row.get("state_reason")
    return records.WorkItem(
        ext_id=str(row["id"]),
        key=f"{full_name}#{row['number']}",
        project_ext_id=source.ext_id,
        type=within(row, "type", "name"),
        status=row["state"],
        status_category=category(reason) if is_closed else TODO,
        resolution=reason if is_closed else None,
        assignee_ext_id=rest_account(row["assignee"]).ext_id,
        points=None,
        created_at=moment(row["created_at"]),
        updated_at=moment(row["updated_at"]),
        resolved_at=moment_or_none(row["closed_at"]),
        history_complete=has_history,
    )


def category(reason: str | None) -> str:
    """What a closed issue counts as; issues closed before GitHub asked for a reason have none, and are done."""
    return DROPPED if reason is not None and reason.lower() in DROPPED_REASONS else DONE


def transitions(row: Json, events: Iterable[Json]) -> Iterator[records.Transition]:
    """The closings and reopenings of an issue, oldest first."""
    status, held = OPEN, TODO
    for event in sorted(events, key=lambda event: moment(event["createdAt"])):
        is_closing = event["__typename"] == "ClosedEvent"
        to_status, to_category = (CLOSED, category(event["stateReason"])) if is_closing else (OPEN, TODO)
        at = moment(event["createdAt"])
        yield records.Transition(
            ext_id=event["id"],
            item_ext_id=str(row["id"]),
            from_status=status,
            to_status=to_status,
            from_category=held,
            to_category=to_category,
            actor_ext_id=graphql_account(event["actor"]).ext_id,
            at=at,
            updated_at=at,
        )
        status, held = to_status, to_category
