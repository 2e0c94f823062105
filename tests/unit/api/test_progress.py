from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from worker_app.api import progress
from worker_app.api.progress import RunProgress
from worker_app.store.overview_batches import Wait
from worker_app.store.runs import RunView

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
RUN = UUID(int=1)


def run(**changes: object) -> RunView:
    given = {
        "id": RUN, "org": "acme", "source": "rocket", "kind": "sync", "state": "running", "trigger": "manual", "batches_total": 4,
        "batches_done": 1, "batches_failed": 0, "records": 250, "attempt": 0, "created_at": NOON, "started_at": NOON,
        "finished_at": None, "error": None, "scheduled_for": None, "expected": 1000, **changes,
    }  # fmt: skip
    return RunView(**given)  # type: ignore[arg-type]


def wait(state: str = "deferred", **changes: object) -> Wait:
    given = {
        "run_id": RUN, "state": state, "batches": 2, "not_before": None, "gate": None, "bucket": None, "detail": None, **changes,
    }  # fmt: skip
    return Wait(**given)  # type: ignore[arg-type]


def of(view: RunView, *waits: Wait, seconds: float = 60) -> RunProgress:
    (found,) = progress.of_runs([view], waits, NOON + timedelta(seconds=seconds))
    return found


def test_share_and_eta_are_by_records_where_they_are_known() -> None:
    assert (of(run()).share, of(run()).eta_seconds) == (0.25, 180.0)


def test_share_is_by_batches_where_a_walk_does_not_know_its_total() -> None:
    found = of(run(expected=None, batches_done=2))
    assert (found.share, found.eta_seconds) == (0.5, 60.0)


@pytest.mark.parametrize(
    "view",
    [
        run(state="queued", started_at=None),
        run(state="planning"),
        run(expected=None, batches_total=None),
        run(batches_total=0, expected=0),
    ],
)
def test_share_of_a_run_of_which_nobody_knows_is_none(view: RunView) -> None:
    assert (of(view).share, of(view).eta_seconds) == (None, None)


def test_eta_is_not_told_from_next_to_nothing() -> None:
    assert (of(run(records=1)).share, of(run(records=1)).eta_seconds) == (0.001, None)


def test_more_records_than_announced_are_all_of_them() -> None:
    assert (of(run(records=1200)).share, of(run(records=1200)).eta_seconds) == (1.0, 0.0)


def test_eta_is_not_before_a_gate_opens() -> None:
    assert of(run(), wait(not_before=NOON + timedelta(seconds=660))).eta_seconds == 600.0


def test_waits_of_another_run_are_not_told() -> None:
    assert of(run(), wait(run_id=UUID(int=2))).waits == ()


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (wait("planned"), "2 batches wait for others of the same provider and organisation to end"),
        (wait("queued", batches=1), "1 batch waits for a free slot"),
        (wait("queued", not_before=NOON), "2 batches wait for a free slot"),
        (
            wait("queued", not_before=NOON + timedelta(seconds=125)),
            "2 batches wait after a fault, on again in 1 min 5 s",
        ),
        (wait(), "2 batches wait, on again at once"),
        (wait(detail="Redis is away"), "2 batches wait, on again at once: Redis is away"),
        (
            wait(gate="github on github.com", bucket="core", not_before=NOON + timedelta(seconds=70), detail="limit"),
            "2 batches wait for the gate of github on github.com (core), on again in 10 s: limit",
        ),
        (
            wait(gate="github on github.com", bucket="*"),
            "2 batches wait for the gate of github on github.com, on again at once",
        ),
    ],
)
def test_wait_is_told_in_words(item: Wait, words: str) -> None:
    assert of(run(), item).waits == (words,)
