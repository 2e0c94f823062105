import json
from datetime import UTC, datetime

from worker_app.records import Walk
from worker_app.sync import batch


def test_walk_survives_its_stored_form() -> None:
    walk = Walk(
        started_at=datetime(2026, 6, 1, 12, 0, 0, 123_000, tzinfo=UTC),
        since={"refs/heads/main": "a" * 40},
        until={"refs/heads/main": "b" * 40},
        total=7,
        is_full=True,
        state="empty",
        incomplete_reason="cut",
    )
    assert batch.walk_from(json.loads(json.dumps(batch.walk_document(walk)))) == walk
