from datetime import UTC, datetime
from typing import Any

import pytest

from worker_app import queues
from worker_app.api import warnings
from worker_app.migrate.status import Status
from worker_app.queue_depth import QueueDepth
from worker_app.store.outbox import Backlog
from worker_app.store.overview import Overview


def depth(queue: str, consumers: int = 1, ready: int = 0) -> QueueDepth:
    return QueueDepth(queue=queue, ready=ready, oldest_age_seconds=None, running=0, held=0, consumers=consumers)


def work(**changes: Any) -> Overview:
    calm: dict[str, Any] = {
        "at": datetime(2026, 11, 29, tzinfo=UTC),
        "open_runs": (),
        "run_states": {},
        "ended_runs": (),
        "waits": (),
        "failed_batches": (),
        "sources": (),
        "source_states": {"active": 3, "archived": 1},
        "schedules": (),
        "schedule_states": {"enabled": 2, "paused": 1},
        "outbox": Backlog(rows=4, oldest_age_seconds=3.0),
        "schedule_lag_seconds": 100.0,
    }
    return Overview(**(calm | changes))


def test_calm_service_has_no_warning() -> None:
    assert list(warnings.of_queues([depth(name) for name in queues.ALL_QUEUES])) == []
    assert list(warnings.of_schema(Status("postgres", 1, 1, False, "current"))) == []
    assert list(warnings.of_work(work(), 600)) == []


def test_queues_without_consumer_are_one_sentence_per_fleet() -> None:
    (said,) = warnings.of_queues([depth("sync"), depth("metrics", 0, ready=1200), depth("backfill", 0)])
    assert said.startswith("nobody consumes metrics, backfill, where 1\u202f200 messages wait: ")
    assert "`dev-hops worker --fleet worker-heavy`" in said


def test_schema_that_is_behind_names_the_remedy() -> None:
    (said,) = warnings.of_schema(Status("postgres", 0, 1, False, "behind"))
    assert "run `dev-hops migrate postgres`" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source_states": {"active": 1, "gone": 1, "inaccessible": 2}}, "cannot be read (gone 1, inaccessible 2)"),
        ({"schedule_states": {"faulted": 2}}, "fault (2)"),
        ({"schedule_lag_seconds": 700.0}, "a slot is 11 min late"),
        ({"outbox": Backlog(rows=1, oldest_age_seconds=130.0)}, "owed for 2 min"),
    ],
)
def test_work_that_nobody_serves_is_named(changes: dict[str, Any], words: str) -> None:
    (said,) = warnings.of_work(work(**changes), 600)
    assert words in said


def test_missing_beat_is_told_and_one_that_nobody_could_see_is_not() -> None:
    assert ["dev-hops beat" in item for item in warnings.of_beat(False)] == [True]
    assert list(warnings.of_beat(True)) == list(warnings.of_beat(None)) == []
