"""A batch that a limit keeps from going on lies in Postgres until its moment, with its pages and without an attempt spent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from tests.seed import Seed, column, commit, manual_run, seed
from tests.virtual_clock import VirtualClock
from worker_app import errors
from worker_app.records import Cursor, Page, Repository, Source, Walk
from worker_app.store.postgres import Postgres
from worker_app.sync import batch, finish, plan
from worker_app.sync.batch import Bounds

pytestmark = pytest.mark.integration
BOUNDS = Bounds(lease_seconds=60, deadline_seconds=300, cap=8)


def limited(retry_in: float, fails: int = 1) -> errors.RateLimited:
    return errors.RateLimited(
        f"github on github.com may not be called for {retry_in} s", retry_in=retry_in, provider="github", org_id="acme",
        host="github.com", bucket="core", reason="window", detail="secondary: slow down", fails=fails,
    )  # fmt: skip


@dataclass
class Pages:
    """A reader of three pages that raises before the page whose number stands in `faults`, as often as it does."""

    faults: list[tuple[int, BaseException]] = field(default_factory=list)
    read_pages: list[int] = field(default_factory=list)
    begun: int = 0

    def begin(self, source: Source, cursor: Cursor, now: datetime) -> Walk:
        self.begun += 1
        self._raise(-1)
        return Walk(started_at=now)

    def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
        for number in range(int(position or 0), 3):
            self._raise(number)
            self.read_pages.append(number)
            yield Page((commit(f"{number:040d}"),), next=str(number + 1) if number < 2 else None)

    def _raise(self, number: int) -> None:
        for at, (page, fault) in enumerate(self.faults):
            if page == number:
                del self.faults[at]
                raise fault


@pytest.fixture
def made(postgres: Postgres) -> Seed:
    return seed(postgres)


def planned(postgres: Postgres, made: Seed) -> tuple[UUID, UUID]:
    run_id = manual_run(postgres, made)
    assert plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=100) == 1
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id)
    return run_id, batch_id  # type: ignore[return-value]


def planned_batches(postgres: Postgres, made: Seed, trigger: str) -> int:
    """How many batches a further run gets, which is cancelled then."""
    run_id = manual_run(postgres, made)
    column(postgres, "UPDATE sync_runs SET trigger = :trigger WHERE id = :id RETURNING 1", id=run_id, trigger=trigger)
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=100)
    found = column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id)
    column(postgres, "DELETE FROM sync_runs WHERE id = :id RETURNING 1", id=run_id)
    return len(found)


def work(
    postgres: Postgres,
    batch_id: UUID,
    reader: Any,
    *,
    is_draining: Callable[[], bool] = lambda: False,
    blocked_by: batch.BlockedBy = lambda _: None,
) -> str:
    return batch.run(
        postgres, batch_id, reader_of=lambda *_: reader, bounds=BOUNDS, is_draining=is_draining, blocked_by=blocked_by
    )


def row(postgres: Postgres, batch_id: UUID) -> dict[str, Any]:
    (found,) = column(postgres, "SELECT to_jsonb(b) FROM sync_batches b WHERE id = :id", id=batch_id)
    return found  # type: ignore[return-value]


def owed(postgres: Postgres, batch_id: UUID) -> list[object]:
    return column(
        postgres,
        "SELECT extract(epoch FROM available_at - now())::float8 FROM task_outbox WHERE kwargs ->> 'batch_id' = :id "
        "AND available_at > now()",
        id=str(batch_id),
    )


def test_s16_deferred_batch_keeps_its_pages_and_waits_at_least_what_was_said(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    assert work(postgres, batch_id, Pages([(2, limited(3600))])) == "deferred"
    found = row(postgres, batch_id)
    assert (found["state"], found["attempt"], found["pages"], found["deferrals"]) == ("deferred", 0, 2, 1)
    assert (found["lease_owner"], found["lease_until"]) == (None, None)
    assert found["cursor"]["position"] == "2"
    assert found["defer_reason"] == {
        "gate": "github on github.com", "bucket": "core", "reason": "window", "detail": "secondary: slow down",
    }  # fmt: skip
    (wait,) = owed(postgres, batch_id)
    assert 3590 < wait <= 3630  # type: ignore[operator]


def test_s18_deferral_owes_one_message_and_early_copies_do_nothing(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    reader = Pages([(1, limited(600))])
    assert work(postgres, batch_id, reader) == "deferred"
    assert [work(postgres, batch_id, reader) for _ in range(3)] == ["duplicate"] * 3
    assert len(owed(postgres, batch_id)) == 1
    assert reader.read_pages == [0]


def test_s19_batch_goes_on_at_its_page_when_its_moment_has_come(postgres: Postgres, made: Seed) -> None:
    clock = VirtualClock(postgres)
    run_id, batch_id = planned(postgres, made)
    reader = Pages([(1, limited(7200))])
    assert work(postgres, batch_id, reader) == "deferred"
    clock.move(timedelta(hours=2, minutes=1))
    assert work(postgres, batch_id, reader) == "succeeded"
    assert (reader.read_pages, reader.begun) == ([0, 1, 2], 1)
    assert row(postgres, batch_id)["attempt"] == 0
    state = finish.run(postgres, run_id, lease_seconds=60)
    assert state is not None
    assert state.value == "succeeded"


def test_s17_batch_that_is_known_to_be_blocked_is_neither_claimed_nor_read(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    reader = Pages()
    assert work(postgres, batch_id, reader, blocked_by=lambda _: limited(58)) == "deferred"
    found = row(postgres, batch_id)
    assert (found["state"], found["attempt"], found["deferrals"], found["started_at"]) == ("deferred", 0, 1, None)
    assert reader.begun == 0
    assert len(owed(postgres, batch_id)) == 1


def test_blocked_by_is_told_whose_requests_they_would_be(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    asked: list[tuple[UUID, str, str, str]] = []

    def look(waiting: Any) -> None:
        asked.append((waiting.org_id, waiting.provider, waiting.host, waiting.dataset))

    work(postgres, batch_id, Pages(), blocked_by=look)
    assert asked == [(made.org.id, "git", "localhost", "commits")]


def test_s20_waits_spend_no_attempt_however_many_there_are(postgres: Postgres, made: Seed) -> None:
    clock = VirtualClock(postgres)
    _, batch_id = planned(postgres, made)
    reader = Pages([(-1, limited(60, fails=n)) for n in range(1, 21)])
    for _ in range(20):
        assert work(postgres, batch_id, reader) == "deferred"
        clock.move(timedelta(seconds=70))
    assert work(postgres, batch_id, reader) == "succeeded"
    assert row(postgres, batch_id)["attempt"] == 0


def test_s06_page_counts_waits_anew(postgres: Postgres, made: Seed) -> None:
    clock = VirtualClock(postgres)
    _, batch_id = planned(postgres, made)
    reader = Pages([(0, limited(60)), (0, limited(60)), (1, limited(60))])
    deferrals = []
    for _ in range(3):
        assert work(postgres, batch_id, reader) == "deferred"
        deferrals.append(row(postgres, batch_id)["deferrals"])
        clock.move(timedelta(seconds=70))
    assert deferrals == [1, 2, 1]


def test_batch_fails_only_when_nothing_comes_and_every_window_is_refused(postgres: Postgres, made: Seed) -> None:
    clock = VirtualClock(postgres)
    _, batch_id = planned(postgres, made)
    reader = Pages([(0, limited(3000, fails=n)) for n in range(1, 9)])
    for _ in range(3):
        assert work(postgres, batch_id, reader) == "deferred"
        clock.move(timedelta(seconds=3100))
    assert work(postgres, batch_id, reader) == "failed"
    found = row(postgres, batch_id)
    assert (found["state"], found["error_class"]) == ("failed", "RateLimited")
    assert "github on github.com" in found["error"]


def test_drain_gives_a_batch_back_that_sleeps_in_the_gate(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    assert work(postgres, batch_id, Pages([(1, limited(3))]), is_draining=lambda: True) == "drained"
    found = row(postgres, batch_id)
    assert (found["state"], found["attempt"], found["deferrals"]) == ("queued", 0, 0)


def test_batch_that_was_taken_over_writes_nothing_when_it_is_deferred(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)

    class TakenOver(Pages):
        def begin(self, *given: Any) -> Walk:
            column(
                postgres,
                "UPDATE sync_batches SET lease_owner = gen_random_uuid() WHERE id = :id RETURNING 1",
                id=batch_id,
            )
            raise limited(60)

    assert work(postgres, batch_id, TakenOver()) == "lost"
    assert row(postgres, batch_id)["state"] == "running"


def test_disabled_dataset_ends_its_batch_and_is_asked_again_only_later(postgres: Postgres, made: Seed) -> None:
    run_id, batch_id = planned(postgres, made)
    assert work(postgres, batch_id, Pages([(-1, errors.DatasetDisabled("issues are switched off"))])) == "disabled"
    assert row(postgres, batch_id)["state"] == "succeeded"
    finish.run(postgres, run_id, lease_seconds=60)
    assert planned_batches(postgres, made, "schedule") == 0
    assert planned_batches(postgres, made, "manual") == 1


def test_archived_source_is_read_once_a_day_unless_somebody_asks(postgres: Postgres, made: Seed) -> None:
    clock = VirtualClock(postgres)
    run_id, batch_id = planned(postgres, made)
    assert work(postgres, batch_id, Pages()) == "succeeded"
    finish.run(postgres, run_id, lease_seconds=60)
    column(postgres, "UPDATE sources SET state = 'archived' RETURNING 1")
    assert planned_batches(postgres, made, "schedule") == 0
    clock.move(timedelta(hours=24))
    assert planned_batches(postgres, made, "schedule") == 1


def test_state_of_a_source_keeps_what_the_provider_said(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    fault = errors.SourceUnavailable(
        "acme asks for single sign-on", state="sso_required", evidence={"status": 403, "body": "Resource protected"}
    )
    assert work(postgres, batch_id, Pages([(-1, fault)])) == "failed"
    assert column(postgres, "SELECT state || ' ' || (state_evidence ->> 'status') FROM sources") == ["sso_required 403"]


def test_message_that_no_text_may_hold_fails_its_batch_all_the_same(postgres: Postgres, made: Seed) -> None:
    _, batch_id = planned(postgres, made)
    fault = errors.ProviderRefused("GitHub says a\0b \ud83d", status=422)
    assert work(postgres, batch_id, Pages([(0, fault)])) == "failed"
    assert row(postgres, batch_id)["error"] == "GitHub says a\ufffdb ?"


def test_f25_renamed_repository_keeps_its_row_and_its_history(postgres: Postgres) -> None:
    made = seed(postgres)
    column(
        postgres,
        "UPDATE sources SET provider = 'github', host = 'github.com', ext_id = '42', external_name = 'acme/a' RETURNING 1",
    )

    class Renamed(Pages):
        def read(self, source: Source, walk: Walk, position: str | None) -> Iterator[Page]:
            yield Page((Repository("42", "beta/b", "main", False),), next=None)

    run_id = manual_run(postgres, made)
    column(postgres, "UPDATE sync_runs SET provider = 'github' WHERE id = :id RETURNING 1", id=run_id)
    plan.run(postgres, run_id, lease_seconds=60, cap=8, max_batches=100)
    for batch_id in column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id):
        assert work(postgres, batch_id, Renamed()) == "succeeded"  # type: ignore[arg-type]
    assert column(postgres, "SELECT external_name FROM sources") == ["beta/b"]
    assert column(postgres, "SELECT external_name FROM source_names ORDER BY seen_from") == ["acme/a"]
