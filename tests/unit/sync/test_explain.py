import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from worker_app import jobs
from worker_app.gate.key import Decision, GateKey, Reason
from worker_app.gate.refusal import rate_limited
from worker_app.queue_depth import QueueDepth, Worker
from worker_app.store.explain import (
    ActiveRun,
    BatchFacts,
    JobFacts,
    Lock,
    Occurrence,
    Owed,
    Place,
    PlannedCredential,
    Rival,
    RunFacts,
)
from worker_app.store.schedules import Schedule
from worker_app.sync import deferral, explain_fleet
from worker_app.sync.explain_batch import batch_findings
from worker_app.sync.explain_findings import Bounds, Finding
from worker_app.sync.explain_fleet import Fleet
from worker_app.sync.explain_job import job_findings, job_state, ledger
from worker_app.sync.explain_run import run_findings, run_state

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
BOUNDS = Bounds(
    cap=8,
    outbox_max_depth=10_000,
    dispatch_interval_seconds=300,
    rescue_interval_seconds=60,
    visibility_timeout_seconds=3600,
)
RUN_ID, BATCH_ID, JOB_ID = UUID(int=1 << 120), UUID(int=2 << 120), UUID(int=3 << 120)
WORKER = Worker(node="a", fleet="worker", queues=("scheduler", "sync", "sync.git"), slots=4, running={})
BESIDE = {"attempts", "deadline", "more_runs", "cancel_requested"}  # codes of what stands beside a reason


def depth(queue: str, ready: int = 0, consumers: int = 1) -> QueueDepth:
    return QueueDepth(queue, ready, 12.0 if ready else None, 0, 0, consumers)


def fleet(ready: int = 0, consumers: int = 1, **changes: Any) -> Fleet:
    """A Redis in which nothing is wrong, unless told."""
    names = ("scheduler", "sync", "sync.git", "metrics", "reports")
    given: dict[str, Any] = {
        "is_beat_there": True,
        "workers": (WORKER,),
        "depths": {name: depth(name, ready, consumers) for name in names},
        "searched": frozenset(names),
        "is_emptied": False,
        **changes,
    }
    return Fleet(**given)


def batch(**changes: Any) -> BatchFacts:
    given: dict[str, Any] = {
        "now": NOW, "id": BATCH_ID, "run_id": RUN_ID, "org_id": UUID(int=9), "org": "acme", "provider": "git",
        "source": "/srv/app", "dataset": "commits", "queue": "sync.git", "state": "queued", "pages": 0, "records": 0,
        "lease_until": None, "not_before": None, "defer_reason": None, "deferrals": 0, "attempt": 0, "wakes": 1, "complete": None,
        "incomplete_reason": None, "error_class": None, "error": None, "created_at": NOW - HOUR, "armed_at": NOW - HOUR,
        "started_at": None, "finished_at": None, "cancel_requested_at": None, "deadline_at": NOW + HOUR, "owed": None,
        "rival": None, **changes,
    }  # fmt: skip
    return BatchFacts(**given)


def run(**changes: Any) -> RunFacts:
    batches: tuple[BatchFacts, ...] = changes.get("batches", ())
    given: dict[str, Any] = {
        "now": NOW, "id": RUN_ID, "org_id": UUID(int=9), "org": "acme", "kind": "sync", "provider": "git", "trigger": "schedule",
        "job_id": JOB_ID, "scheduled_for": NOW - HOUR, "state": "queued", "batches_total": None, "batches_done": 0,
        "batches_failed": 0, "lease_until": None, "attempt": 0, "wakes": 1, "cancel_requested_at": None,
        "deadline_at": NOW + HOUR, "error_class": None, "error": None, "created_at": NOW - HOUR, "armed_at": NOW - HOUR,
        "started_at": None, "finished_at": None, "owed": None,
        "counts": {item.state: sum(other.state == item.state for other in batches) for item in batches},
        "batches": batches, "place": Place("git", len(batches), ((RUN_ID, len(batches)),)), **changes,
    }  # fmt: skip
    return RunFacts(**given)


def job(**changes: Any) -> JobFacts:
    facts = {"now": NOW, "lock": None, "ledger": (), "active": (), "run": None}
    facts |= {name: changes.pop(name) for name in list(changes) if name in facts}
    given: dict[str, Any] = {
        "id": JOB_ID, "org_id": UUID(int=9), "org": "acme", "kind": "sync", "provider": "git", "source_ids": (), "sources": (),
        "template": None, "period_days": None, "cron_source": "@hourly", "cron": "0 * * * *", "tz": "UTC", "enabled": True,
        "next_run_at": NOW + HOUR, "buffered_slot": None, "catchup": "latest", "catchup_max": 24,
        "catchup_window_seconds": 604_800, "overlap": "skip", "max_jitter_seconds": 0, "fault": None, "fault_count": 0,
        "quarantined_until": None, **changes,
    }  # fmt: skip
    return JobFacts(schedule=Schedule(**given), **facts)  # type: ignore[arg-type]


def slot(outcome: str, hours_ago: int = 1, **changes: Any) -> Occurrence:
    given: dict[str, Any] = {
        "scheduled_for": NOW - hours_ago * HOUR, "outcome": outcome, "skipped_slots": 0,
        "observed_at": NOW - hours_ago * HOUR + MINUTE, "run_id": None, "run_state": None, **changes,
    }  # fmt: skip
    return Occurrence(**given)


def codes(found: list[Finding]) -> list[str]:
    return [item.code for item in found]


def of_job(facts: JobFacts, at: Fleet | None = None) -> list[Finding]:
    return job_findings(facts, at or fleet(), BOUNDS)


def of_run(facts: RunFacts, at: Fleet | None = None) -> list[Finding]:
    return run_findings(facts, at or fleet(), BOUNDS)


def of_batch(facts: BatchFacts, at: Fleet | None = None, place: Place | None = None) -> list[Finding]:
    return batch_findings(facts, place or Place("git", 1, ((RUN_ID, 1),)), at or fleet(), BOUNDS)


OWED = (None, Owed(NOW + MINUTE, None, 0), Owed(NOW - MINUTE, None, 0), Owed(NOW - MINUTE, NOW + MINUTE, 2))
FLEETS = (
    fleet(),
    fleet(ready=5, ahead={RUN_ID: 2, BATCH_ID: 1}),
    fleet(ready=20_000, consumers=0, searched=frozenset()),
    fleet(taken=frozenset({RUN_ID, BATCH_ID}), is_beat_there=False, workers=()),
    fleet(is_emptied=True),
    Fleet(away="Redis does not answer (ConnectionError)"),
    Fleet(away="the Redis of the locks does not answer (ConnectionError)", workers=(), depths={"sync": depth("sync")}),
)
LEASES = (None, NOW - MINUTE, NOW + MINUTE)


def assert_explains(found: list[Finding]) -> None:
    assert found
    assert found[0].code not in BESIDE - {"cancel_requested"}
    assert len(found) == len(set(found))
    for item in found:
        assert "None" not in item.text
        assert item.text.strip()


@pytest.mark.parametrize("state", sorted(jobs.OPEN_STATES - {jobs.RunState.DEFERRED}))
def test_every_open_state_of_a_run_has_a_reason(state: str) -> None:
    kinds, batches = (
        ("sync", "metrics", "report", "backfill"),
        ((), (batch(),), (batch(state="deferred"), batch(state="planned"))),
    )
    for kind, owed, at, lease, open_ in product(kinds, OWED, FLEETS, LEASES, batches):
        assert_explains(of_run(run(state=state, kind=kind, owed=owed, lease_until=lease, batches=open_, attempt=1), at))


@pytest.mark.parametrize("state", list(jobs.BatchState))
def test_every_state_of_a_batch_has_a_reason(state: str) -> None:
    for owed, at, lease, not_before in product(OWED, FLEETS, LEASES, LEASES):
        assert_explains(
            of_batch(batch(state=state, owed=owed, lease_until=lease, not_before=not_before, attempt=2), at)
        )


@pytest.mark.parametrize("next_run_at", [None, NOW - MINUTE, NOW + MINUTE])
def test_every_state_of_a_job_has_a_reason(next_run_at: datetime | None) -> None:
    active = (ActiveRun(RUN_ID, "queued", NOW - HOUR, is_exclusive=True),)
    for enabled, at, until, has_run in product((True, False), FLEETS, LEASES, (True, False)):
        facts = job(
            enabled=enabled,
            next_run_at=next_run_at,
            quarantined_until=until,
            fault="no such zone" if until else None,
            active=active if has_run else (),
            run=run() if has_run else None,
        )
        assert_explains(of_job(facts, at))


@pytest.mark.parametrize("facts", [run(), run(state="finishing"), run(state="running", batches=(batch(),))])
def test_redis_that_is_away_is_said_and_nothing_is_concluded_from_it(facts: RunFacts) -> None:
    found = of_run(facts, Fleet(away="Redis does not answer (ConnectionError)"))
    assert "redis_away" in codes(found)
    assert not {"lost_message", "no_consumer", "no_beat", "no_relay", "in_queue", "taken"} & set(codes(found))
    assert "is not known: Redis does not answer" in found[0].text


def test_message_is_lost_only_where_the_whole_queue_was_looked_through() -> None:
    assert codes(of_run(run()))[0] == "lost_message"
    seen_in_part = of_run(run(), fleet(ready=20_000, searched=frozenset()))
    assert codes(seen_in_part)[0] == "not_seen"
    assert "not among the oldest 10000" in seen_in_part[0].text


def test_lost_message_says_when_it_is_armed_again() -> None:
    found = of_run(run())[0]
    assert found.until == NOW + HOUR
    assert "the first rescue after 2026-06-01 13:00:00Z arms it again" in found.text
    emptied = of_run(run(), fleet(is_emptied=True))[0]
    assert emptied.until is None
    assert "the next one arms it again" in emptied.text


def test_what_waits_for_a_rescue_says_that_none_can_come() -> None:
    at = fleet(is_beat_there=False, consumers=0)
    for facts in (run(), run(state="planning", lease_until=NOW - MINUTE), run(deadline_at=NOW - MINUTE)):
        found = of_run(facts, at)
        assert codes(found)[:2] == ["no_beat", "no_consumer"]
        assert "queue scheduler" in found[1].text
    moving = of_run(run(state="planning", lease_until=NOW + MINUTE), at)
    assert codes(moving) == ["planning", "deadline"]


def test_queue_without_consumers_comes_before_the_queue_and_names_the_fleet() -> None:
    found = of_run(run(kind="metrics"), fleet(ready=1, consumers=0, ahead={RUN_ID: 0}))
    assert codes(found)[:2] == ["no_consumer", "in_queue"]
    assert found[0].remedy == "dev-hops worker --fleet worker-heavy"


def test_open_batches_are_grouped_by_reason_with_one_example_each() -> None:
    waiting = tuple(
        batch(id=UUID(int=number), state="deferred", not_before=NOW + MINUTE, defer_reason={"reason": "drain"})
        for number in range(1, 4)
    )
    found = of_run(run(state="running", batches=(*waiting, batch(state="planned"))))
    assert codes(found)[:3] == ["deferred", "planned", "running"]
    assert found[0].text.startswith("3 batches, for example batch 00000000 (commits of /srv/app): it waits until")
    assert found[1].text.startswith("batch 02000000 (commits of /srv/app): 4 of 8 places")
    assert found[2].text == "0 of 4 batches are over (1 planned, 3 deferred)"


def test_what_holds_up_batches_that_hold_places_comes_before_those_that_wait_for_one() -> None:
    closed = {"gate": "github of acme on github.com", "reason": "window"}
    held = batch(id=UUID(int=1), state="deferred", not_before=NOW + MINUTE, defer_reason=closed)
    waiting = tuple(batch(id=UUID(int=number), state="planned") for number in range(2, 6))
    full = Place("git", released=8, deferred=8, holders=((RUN_ID, 8),))
    found = of_run(run(state="running", batches=(*waiting, held), place=full))
    assert codes(found)[:2] == ["gate", "cap"]


def test_run_that_moves_says_so_first() -> None:
    moving = batch(state="running", lease_until=NOW + MINUTE)
    found = of_run(run(state="running", batches=(batch(state="planned"), moving)))
    assert codes(found)[:2] == ["running", "planned"]
    stuck = of_run(run(state="running", batches=(batch(state="running", lease_until=NOW - MINUTE),)))
    assert codes(stuck)[:2] == ["lease_over", "running"]


def test_run_whose_released_batches_all_wait_shows_as_deferred() -> None:
    waiting, planned = batch(state="deferred"), batch(state="planned")
    assert run_state(run(state="running", batches=(waiting, planned))) == "deferred"
    assert run_state(run(state="running", batches=(waiting, batch()))) == "running"
    assert run_state(run(state="queued")) == "queued"


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"state": "failed", "batches_total": 2, "counts": {"failed": 2}}, "dev-hops runs retry 01000000"),
        ({"state": "failed", "batches_total": None}, "dev-hops runs retry 01000000"),
        ({"state": "lost", "batches_total": 1, "counts": {"cancelled": 1}}, "dev-hops runs retry 01000000"),
        ({"state": "partial", "batches_total": 1, "counts": {"succeeded": 1}}, "dev-hops sync SOURCE"),
        ({"state": "succeeded", "batches_total": 1, "counts": {"succeeded": 1}}, None),
        ({"state": "cancelled", "batches_total": 1, "counts": {"cancelled": 1}}, None),
    ],
)
def test_remedy_of_an_ended_run_is_one_that_helps(changes: dict[str, Any], remedy: str | None) -> None:
    (found,) = of_run(run(finished_at=NOW, **changes))
    assert found.code == changes["state"]
    assert (remedy in (found.remedy or "")) if remedy else found.remedy is None


def test_error_of_a_known_class_is_put_into_words() -> None:
    (found,) = of_run(run(state="failed", error_class="SourceUnavailable", error="404"))
    assert found.text == "it failed: its source cannot be read: 404"
    (other,) = of_run(run(state="failed", error_class="worker_lost", error="its worker was lost 5 times"))
    assert other.text == "it failed: its worker was lost 5 times"


@pytest.mark.parametrize("state", ["planned", "queued"])
def test_rival_comes_before_places_and_messages(state: str) -> None:
    rival = Rival(UUID(int=5), UUID(int=6), NOW + MINUTE)
    assert codes(of_batch(batch(state=state, rival=rival)))[0] == "same_source"


def test_cap_names_who_holds_the_places() -> None:
    holders = tuple((UUID(int=number << 96), 2) for number in range(1, 6))
    found = of_batch(batch(state="planned"), place=Place("git", 10, holders))[0]
    assert found.code == "cap"
    assert "run 00000001 (2), run 00000002 (2), run 00000003 (2) and 2 more" in found.text


def test_places_that_wait_for_a_gate_are_not_to_be_made_more() -> None:
    holders = ((UUID(int=1 << 96), 8),)
    found = of_batch(batch(state="planned"), place=Place("github", 8, holders, deferred=8))[0]
    assert "8 released, 8 of them deferred" in found.text
    assert found.remedy == "dev-hops gate list"


GATE = {"gate": "github on github.com", "bucket": "core", "reason": "window", "detail": "secondary: slow down"}


def deferred(reason: dict[str, str] | None, **changes: Any) -> Finding:
    given = {"provider": "github", "not_before": NOW + timedelta(seconds=58), "defer_reason": reason, **changes}
    return of_batch(batch(state="deferred", **given))[0]


def test_gate_is_named_with_the_providers_own_word_and_the_seconds_left() -> None:
    found = deferred(GATE)
    assert found.text == (
        "the gate of github on github.com is closed for core until 2026-06-01 12:00:58Z (58 s): secondary: slow down; "
        "that spends no attempt"
    )
    assert (found.code, found.until) == ("gate", NOW + timedelta(seconds=58))
    assert found.remedy == "dev-hops gate show github/acme/github.com"


def test_what_a_deferral_notes_of_a_refusal_is_what_is_told() -> None:
    refused = Decision(False, 58.0, Reason.WINDOW, "core", "secondary: slow down")
    noted = deferral.reason_of(rate_limited(GateKey("github", "9", "github.com"), refused))
    assert noted == GATE
    whole = deferral.reason_of(rate_limited(GateKey("github", "9", "github.com"), refused._replace(bucket="*")))
    assert "is closed until" in deferred(whole).text


def test_gate_that_is_closed_as_a_whole_names_no_bucket() -> None:
    found = deferred({**GATE, "bucket": "*"}, org="the orbit")
    assert found.text.startswith("the gate of github on github.com is closed until 2026-06-01")
    assert found.remedy == "dev-hops gate show 'github/the orbit/github.com'"


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("quota", "lets it wait for core until 2026-06-01 12:00:58Z (58 s): what is left of the quota is kept"),
        ("probe", "one request is under way to find out"),
        ("concurrency", "as many requests are under way as there may be"),
        ("pace", "the next request is due later"),
        ("tides", "lets it wait for core until 2026-06-01 12:00:58Z (58 s): tides"),
    ],
)
def test_gate_that_is_open_and_lets_wait_says_what_for(reason: str, words: str) -> None:
    found = deferred({"gate": "github on github.com", "bucket": "core", "reason": reason})
    assert found.code == "gate"
    assert words in found.text


def test_deferral_by_anything_else_is_said_as_it_was_noted() -> None:
    away = deferred({"reason": "outage", "detail": "the gate's Redis has been away for 61 s"})
    assert away.text == (
        "it waits until 2026-06-01 12:00:58Z (58 s): the gate's Redis has been away for 61 s; that spends no attempt"
    )
    assert (away.code, away.remedy) == ("deferred", "look at REDIS_URL, and whether Redis runs")
    busy, none = deferred({"reason": "busy"}), deferred(None)
    assert (busy.code, none.code) == ("deferred", "deferred")
    assert "reason busy" in busy.text
    assert "no reason was noted" in none.text
    assert busy.remedy is None


def test_gate_that_holds_up_a_run_is_what_the_run_waits_for() -> None:
    waiting = batch(state="deferred", provider="github", not_before=NOW + MINUTE, defer_reason=GATE)
    found = of_run(run(state="running", provider="github", batches=(waiting, batch(state="planned"))))
    assert found[0].code == "gate"
    assert "is closed for core until" in found[0].text
    assert found[0].remedy == "dev-hops gate show github/acme/github.com"


def test_next_slot_is_told_by_both_clocks_and_a_broken_zone_is_said() -> None:
    assert "2026-06-01 13:00:00Z (2026-06-01T15:00+02:00 Europe/Berlin)" in of_job(job(tz="Europe/Berlin"))[0].text
    assert "zone Mars/Olympus cannot be read" in of_job(job(tz="Mars/Olympus"))[0].text


def test_job_without_anything_wrong_only_says_when_it_is_due() -> None:
    assert codes(of_job(job())) == ["not_due"]
    assert job_state(job()) == "waiting"


def test_quarantine_that_is_over_is_a_fault_that_is_tried_again() -> None:
    facts = job(fault="no such zone", fault_count=2, quarantined_until=NOW - MINUTE, next_run_at=NOW - HOUR)
    found = of_job(facts)
    assert codes(found) == ["fault", "due"]
    assert "2 tries in a row failed, the last with: no such zone" in found[0].text
    assert job_state(facts) == "due"


def test_row_that_somebody_holds_is_said_of_a_due_job_alone() -> None:
    held = Lock(NOW - MINUTE, "psql")
    assert codes(of_job(job(lock=held, next_run_at=NOW - HOUR)))[0] == "locked"
    assert "locked" not in codes(of_job(job(lock=held)))
    unknown = of_job(job(lock=Lock(None, ""), next_run_at=NOW - HOUR))[0]
    assert unknown.text == "another transaction holds its row; a tick skips what somebody holds"


def test_active_run_comes_first_unless_a_slot_met_it() -> None:
    active = (ActiveRun(RUN_ID, "queued", NOW - HOUR, is_exclusive=True),)
    minted = slot("minted", run_id=RUN_ID, run_state="queued")
    quiet = of_job(job(active=active, run=run(), ledger=(minted,)))
    assert codes(quiet)[0] == "lost_message"
    assert quiet[0].text.startswith("run 01000000 is queued: its message left the outbox")
    for changes in ({"next_run_at": NOW - MINUTE}, {"ledger": (slot("skipped_overlap"), minted)}):
        assert codes(of_job(job(active=active, run=run(), **changes)))[0] == "overlap"


def test_active_runs_of_a_job_that_allows_them_are_no_overlap() -> None:
    active = tuple(ActiveRun(UUID(int=number), "queued", NOW - HOUR, is_exclusive=False) for number in range(1, 4))
    found = of_job(job(overlap="allow", active=active, run=run()))
    assert "overlap" not in codes(found)
    assert [item.text for item in found if item.code == "more_runs"] == [
        "2 more runs are active: 00000000 (queued), 00000000 (queued)"
    ]
    due = of_job(job(overlap="allow", active=active, run=run(), next_run_at=NOW - MINUTE))
    assert codes(due)[0] == "due"  # they do not keep the slot away


@pytest.mark.parametrize(
    ("facts", "outcome", "reason"),
    [
        (job(ledger=(slot("minted", run_id=RUN_ID, run_state="failed"),)), "minted", "became run 01000000, which is failed"),
        (job(ledger=(slot("minted", run_id=RUN_ID),)), "minted", "became run 01000000, which is not kept any more"),
        (
            job(ledger=(slot("minted", run_id=RUN_ID, run_state="queued", skipped_slots=3),)),
            "minted",
            "became run 01000000, which is queued; 3 older slots were folded into it",
        ),
        (job(ledger=(slot("skipped_overlap"),)), "skipped_overlap", "a run of the schedule was active"),
        (
            job(ledger=(slot("skipped_overlap", run_id=RUN_ID, run_state="failed"),)),
            "skipped_overlap",
            "it had run 01000000 already, which is failed",
        ),
        (
            job(ledger=(slot("skipped_catchup", skipped_slots=1),)),
            "skipped_catchup",
            "a tick saw it 60 s after its time: too old for catch-up; 1 older slot was folded into it",
        ),
        (job(ledger=(slot("buffered"),), buffered_slot=NOW - HOUR), "buffered", "waits for a rescue"),
        (
            job(ledger=(slot("buffered", run_id=RUN_ID, run_state="queued"),)),
            "buffered",
            "waited for an active run, then became run 01000000, which is queued",
        ),
        (
            job(ledger=(slot("buffered"),)),
            "displaced",
            "waited for an active run and was let go without a run, as pausing a schedule does",
        ),
    ],
)  # fmt: skip
def test_ledger_says_in_words_what_became_of_a_slot(facts: JobFacts, outcome: str, reason: str) -> None:
    (line,) = ledger(facts)
    assert (line.outcome, line.reason) == (outcome, reason)


def test_slot_is_displaced_by_the_newer_one_that_counts_it() -> None:
    newer = slot("buffered", 1, skipped_slots=1)
    facts = job(ledger=(newer, slot("buffered", 2)), buffered_slot=newer.scheduled_for)
    assert [line.outcome for line in ledger(facts)] == ["buffered", "displaced"]
    assert ledger(facts)[1].reason.endswith("until slot 2026-06-01 11:00:00Z took its place")
    uncounted = replace(facts, ledger=(replace(newer, skipped_slots=0), facts.ledger[1]))
    assert "pausing" in ledger(uncounted)[1].reason


@pytest.mark.parametrize(
    ("beginning", "digits"),
    [
        ("1", "1"),
        ("12AB", "12ab"),
        ("12ab34cd-", "12ab34cd"),
        ("12ab34cd-00", "12ab34cd00"),
        ("12ab34cd00", "12ab34cd00"),
    ],
)
def test_beginning_of_an_id_is_a_range_of_ids(beginning: str, digits: str) -> None:
    assert jobs.id_range(beginning) == (UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f")))


@pytest.mark.parametrize("text", ["", "-", "app", "12-ab", "1" * 33, "1 2"])
def test_what_no_id_begins_with_is_no_range(text: str) -> None:
    assert jobs.id_range(text) is None


@pytest.mark.parametrize("shape", [lambda text: text, lambda text: b'[%s, "", "sync"]' % text])
def test_message_is_known_by_its_task_and_its_arguments(shape: Callable[[bytes], bytes]) -> None:
    raw = b'{"body": "W10=", "headers": {"task": "worker_app.tasks.dispatch_sync_run", "kwargsrepr": "{\'run_id\': \'%s\'}"}}'
    assert explain_fleet._subject(shape(raw % str(RUN_ID).encode())) == (RUN_ID, "dispatch_sync_run")
    assert explain_fleet._subject(shape(raw % (b"-" * 36))) is None
    assert explain_fleet._subject(b"nonsense") is None


def test_what_is_wrong_with_the_whole_fleet_is_said_once() -> None:
    active = (ActiveRun(RUN_ID, "queued", NOW - HOUR, is_exclusive=True),)
    facts = job(active=active, run=run(), next_run_at=NOW - MINUTE)
    for at in (fleet(is_beat_there=False), Fleet(away="Redis does not answer (ConnectionError)")):
        found = codes(of_job(facts, at))
        assert max(found.count(code) for code in ("no_beat", "redis_away")) == 1


@pytest.mark.parametrize("state", ["active", "superseded", "revoked"])
def test_credential_of_the_plan_is_named_beside_what_is_open_and_what_failed(state: str) -> None:
    planned = PlannedCredential("main", "github.com", 3, state)
    code = "credential_revoked" if state == "revoked" else "credential"
    for of_it in ("planned", "queued", "running", "failed"):
        found = of_batch(batch(state=of_it, credential=planned))
        assert codes(found)[0] != code  # what keeps it from running comes first
        assert codes(found).count(code) == 1
        (named,) = (item for item in found if item.code == code)
        assert "version 3 of credential 'main' for github.com" in named.text
        assert (named.remedy is not None) == (state == "revoked")
    assert code not in codes(of_batch(batch(state="succeeded", credential=planned)))
    whole = of_run(run(state="running", batches=(batch(credential=planned),), credentials=(planned,)))
    assert codes(whole).count(code) == 1


def test_every_code_stands_in_the_how_to() -> None:
    top = Path(__file__).resolve().parents[3]
    sources = sorted((top / "worker_app" / "sync").glob("explain_*.py"))
    said = {code for path in sources for code in re.findall(r'\b(?:Finding|leased)\(\s*"(\w+)"', path.read_text())}
    ended = {"succeeded", "partial", "failed", "cancelled", "lost"}
    outcomes = {"minted", "buffered", "displaced", "skipped_overlap", "skipped_catchup"}
    page = (top / "docs" / "howto" / "why-is-it-not-running.md").read_text()
    described = {
        code for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for code in re.findall(r"`(\w+)`", row)
    }
    assert said | ended | outcomes | {"gate", "deferred"} == described
