"""Each code of `dev-hops explain` on real stores, with what makes it; the wording stands in the unit tests."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import redis

from celery_utils import PerformanceProfile, create_worker_app
from tests.seed import Seed, column, execute, manual_run, schedule, seed
from worker_app import errors, queues
from worker_app.jobs import BatchEnd, BatchState
from worker_app.runtime import redis_client as client_of
from worker_app.store import batches, runs, schedules, sources
from worker_app.store import explain as facts_of
from worker_app.store import rescue as lost
from worker_app.store.fence import Fence
from worker_app.store.postgres import Postgres
from worker_app.sync import dispatch, explain, explain_fleet, orders, plan, promote, rescue
from worker_app.sync.explain import Explanation
from worker_app.sync.explain_findings import Bounds, Finding
from worker_app.sync.outbox import Relay
from worker_app.worker import publish

pytestmark = pytest.mark.integration
BOUNDS = Bounds(
    cap=2,
    outbox_max_depth=100,
    dispatch_interval_seconds=300,
    rescue_interval_seconds=60,
    visibility_timeout_seconds=3600,
)
Ask = Callable[[object], Explanation]


@pytest.fixture
def ask(postgres: Postgres, redis_client: redis.Redis) -> Ask:
    """Explains what is named, in a fleet with a beat and with workers for everything."""
    assert Fence(redis_client, "beat", ttl_seconds=60).hold()
    present(redis_client, "worker", "worker-heavy")
    rescue.sweep(postgres, redis_client, cap=2, visibility_timeout_seconds=3600)  # has seen this Redis
    return lambda named: explain.explain(postgres, redis_client, redis_client, BOUNDS, str(named))


@pytest.fixture
def relay(postgres: Postgres, redis_client: redis.Redis, redis_url: str) -> Iterator[Relay]:
    """Publishes as a worker does."""
    app = create_worker_app("t", PerformanceProfile(), broker_url=redis_url, queues=queues.ALL_QUEUES)
    yield Relay(postgres, publish.publisher(app, redis_client), list, 60)
    app.close()


@pytest.fixture
def made(postgres: Postgres) -> Seed:
    return seed(postgres)


def present(client: redis.Redis, *fleets: str) -> None:
    """The presence keys of one worker of each fleet."""
    for fleet in fleets:
        content = {"fleet": fleet, "queues": queues.FLEETS[fleet], "slots": 4, "running": {}}
        client.set(f"{queues.PRESENCE_PREFIX}{fleet}@test", json.dumps(content))


def absent(client: redis.Redis, *fleets: str) -> None:
    client.delete(*(f"{queues.PRESENCE_PREFIX}{fleet}@test" for fleet in fleets))


def codes(found: Explanation) -> list[str]:
    return [item.code for item in found.findings]


def of(found: Explanation, code: str) -> Finding:
    return next(item for item in found.findings if item.code == code)


def planned(postgres: Postgres, made: Seed, cap: int = 2) -> tuple[UUID, UUID]:
    """A planned run of the source, and its batch."""
    run_id = manual_run(postgres, made)
    plan.run(postgres, run_id, lease_seconds=60, cap=cap, max_batches=10)
    (batch_id,) = column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id)
    return run_id, batch_id  # type: ignore[return-value]


def claimed(postgres: Postgres, batch_id: UUID) -> Any:
    """The batch under a lease of 60 s."""
    with postgres.transaction() as tx:
        batch = batches.claim(tx, batch_id, uuid4(), lease_seconds=60, cap=8)
    assert batch is not None
    return batch


def minted(postgres: Postgres, job_id: UUID) -> UUID:
    """The run that a tick makes of a due job."""
    assert dispatch.tick(postgres, "test").minted == 1
    (run_id,) = column(postgres, "SELECT id FROM sync_runs WHERE job_id = :id", id=job_id)
    return run_id  # type: ignore[return-value]


def due_again(postgres: Postgres, hours: int = 1) -> None:
    """The slots of every job lie so many hours further back: the newest one is due once more, and nobody has served it."""
    back = timedelta(hours=hours)
    execute(postgres, "UPDATE schedule_occurrences SET scheduled_for = scheduled_for - :back", back=back)
    execute(postgres, "UPDATE sync_runs SET scheduled_for = scheduled_for - :back", back=back)
    execute(postgres, "UPDATE scheduled_jobs SET next_run_at = next_run_at - interval '5 minutes'")


# What is meant


def test_thing_is_named_by_its_id_its_beginning_or_its_source(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made)
    for named in ("/srv/app", "app", str(made.source.id)):
        assert ask(named).id == job_id
    run_id, batch_id = planned(postgres, made)
    for what, item in (("job", job_id), ("run", run_id), ("batch", batch_id)):
        for named in (str(item), str(item)[:13].upper(), str(item).replace("-", "")[:12]):
            found = ask(named)
            assert (found.what, found.id, found.org) == (what, item, "acme")
    for named in ("/srv/app", "app", str(made.source.id)):  # the run that somebody asked for and waits for
        assert (ask(named).what, ask(named).id) == ("run", run_id)


def test_job_of_a_whole_provider_is_found_by_each_of_its_sources(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made, source_ids=())
    assert ask("app").id == job_id


def test_what_fits_several_is_refused_with_all_of_them(postgres: Postgres, made: Seed, ask: Ask) -> None:
    given = [schedule(postgres, made), schedule(postgres, made)]
    with pytest.raises(errors.UsageError, match="several things fit 'app'") as caught:
        ask("app")
    assert all(f"job {job_id} (sync */5 * * * *, acme)" in str(caught.value) for job_id in given)


@pytest.mark.parametrize("named", ["", " ", "zzz", "00000000-0000-0000-0000-000000000000"])
def test_what_fits_nothing_is_refused_with_where_to_look(named: str, ask: Ask) -> None:
    with pytest.raises(errors.UsageError, match="dev-hops schedules list"):
        ask(named)


def test_source_without_a_schedule_is_told_what_to_do(made: Seed, ask: Ask) -> None:
    with pytest.raises(errors.UsageError, match=f"has no schedule.*dev-hops sync {made.source.id}"):
        ask("app")


# Jobs


def test_paused(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made)
    orders.pause(postgres, orders.find(postgres, "app"))
    found = ask(job_id)
    assert (found.state, codes(found)) == ("paused", ["paused"])
    assert found.answer == f"job {str(job_id)[:8]} is paused: {found.findings[0].text}"


def test_quarantined(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made)
    execute(postgres, "UPDATE scheduled_jobs SET tz = 'Mars/Olympus'")
    assert dispatch.tick(postgres, "test").quarantined == 1
    found = ask(job_id)
    assert (found.state, codes(found)) == ("quarantined", ["quarantined"])
    assert "Mars/Olympus" in found.answer
    assert [found.findings[0].until] == column(postgres, "SELECT quarantined_until FROM scheduled_jobs")


def test_not_due_and_minted(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made)
    run_id = minted(postgres, job_id)
    execute(postgres, "UPDATE sync_runs SET state = 'succeeded', finished_at = now()")
    found = ask(job_id)
    assert (found.state, codes(found)) == ("waiting", ["not_due", "minted"])
    assert [found.findings[0].until] == column(postgres, "SELECT next_run_at FROM scheduled_jobs")
    (line,) = found.ledger
    assert (line.outcome, line.run_id, line.run_state, line.skipped_slots) == ("minted", run_id, "succeeded", 1)


def test_due(postgres: Postgres, made: Seed, ask: Ask) -> None:
    found = ask(schedule(postgres, made))
    assert (found.state, codes(found)) == ("due", ["due"])
    assert [found.findings[0].since] == column(postgres, "SELECT next_run_at FROM scheduled_jobs")


def test_no_beat_and_no_consumer(postgres: Postgres, made: Seed, ask: Ask, redis_client: redis.Redis) -> None:
    job_id = schedule(postgres, made)
    absent(redis_client, "worker")
    redis_client.delete("dev-hops/beat")
    found = ask(job_id)
    assert codes(found) == ["no_beat", "no_consumer", "due"]
    assert found.findings[1].remedy == "dev-hops worker --fleet worker"


def test_locked(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made)
    with postgres.transaction() as tx:
        schedules.lock(tx, job_id)
        assert codes(ask(job_id)) == ["locked", "due"]
    assert codes(ask(job_id)) == ["due"]


def test_look_does_not_keep_a_tick_from_the_job(postgres: Postgres, made: Seed) -> None:
    job_id = schedule(postgres, made)
    with postgres.transaction() as tx:
        facts_of.snapshot(tx)
        assert facts_of.job(tx, job_id) is not None
        assert dispatch.tick(postgres, "test").minted == 1


def test_overlap_and_skipped_overlap(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made)
    run_id = minted(postgres, job_id)
    due_again(postgres)
    due = ask(job_id)
    assert (due.state, codes(due)[0]) == ("due", "overlap")
    assert str(run_id)[:8] in due.answer
    assert [due.findings[0].since] == column(postgres, "SELECT created_at FROM sync_runs")
    assert dispatch.tick(postgres, "test").written.skipped_overlap == 1
    found = ask(job_id)
    assert codes(found)[0] == "overlap"
    assert codes(found)[-1] == "skipped_overlap"
    assert "outbox" in codes(found), "what holds up the active run"
    assert [line.outcome for line in found.ledger] == ["skipped_overlap", "minted"]


def test_buffered_and_displaced(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made, overlap="buffer_one")
    first = minted(postgres, job_id)
    for _ in range(2):
        due_again(postgres)
        assert dispatch.tick(postgres, "test").written.buffered == 1
    found = ask(job_id)
    assert codes(found)[:2] == ["buffered", "overlap"]
    assert f"waits for the end of run {str(first)[:8]}, which is queued" in found.answer
    assert [line.outcome for line in found.ledger] == ["buffered", "displaced", "minted"]
    execute(postgres, "UPDATE sync_runs SET state = 'succeeded', finished_at = now()")
    assert "no run is active any more" in ask(job_id).answer
    # It was made for the same slot, before that went back.
    execute(postgres, "UPDATE sync_runs SET id = gen_random_uuid()")
    execute(postgres, "DELETE FROM task_outbox")
    assert promote.after(postgres, job_id) == 1
    (line, *_) = ask(job_id).ledger
    assert (line.outcome, line.run_state) == ("buffered", "queued")


def test_skipped_catchup(postgres: Postgres, made: Seed, ask: Ask) -> None:
    hour = postgres.now().hour
    old = timedelta(hours=3)
    job_id = schedule(postgres, made, cron=f"0 {(hour - 2) % 24} * * *", due=old, catchup="none")
    assert dispatch.tick(postgres, "test").written.skipped_catchup >= 1
    found = ask(job_id)
    assert codes(found) == ["not_due", "skipped_catchup"]


def test_more_runs(postgres: Postgres, made: Seed, ask: Ask) -> None:
    job_id = schedule(postgres, made, overlap="allow", catchup="all")
    assert dispatch.tick(postgres, "test").minted == 2
    assert codes(ask(job_id))[0] == "outbox"
    assert of(ask(job_id), "more_runs").text.startswith("1 more run is active")


# Runs


def test_jitter(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id = minted(postgres, schedule(postgres, made))
    execute(postgres, "UPDATE task_outbox SET available_at = now() + interval '1 minute'")
    found = ask(run_id)
    assert codes(found) == ["jitter", "deadline"]
    assert [found.findings[0].until] == column(postgres, "SELECT available_at FROM task_outbox")


def test_outbox(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id = manual_run(postgres, made)
    found = ask(run_id)
    assert codes(found) == ["outbox", "deadline"]
    assert "no relay has taken it yet" in found.answer
    execute(postgres, "UPDATE task_outbox SET claimed_until = now() + interval '30 s', attempts = 2")
    assert "a relay has taken it twice and holds it until" in ask(run_id).answer


def test_no_relay(postgres: Postgres, made: Seed, ask: Ask, redis_client: redis.Redis) -> None:
    absent(redis_client, "worker")
    assert codes(ask(manual_run(postgres, made)))[:2] == ["no_relay", "outbox"]


def test_queue_full(postgres: Postgres, made: Seed, ask: Ask, redis_client: redis.Redis) -> None:
    redis_client.rpush("sync", *range(100))
    assert codes(ask(manual_run(postgres, made)))[:2] == ["queue_full", "outbox"]


def test_redis_away(postgres: Postgres, made: Seed) -> None:
    run_id, job_id = manual_run(postgres, made), schedule(postgres, made)
    away = client_of("redis://:canary-5a1@127.0.0.1:1/0", connections=1)
    for named, first in ((run_id, "redis_away"), (job_id, "due")):
        found = explain.explain(postgres, away, away, BOUNDS, str(named))
        assert (codes(found)[0], "redis_away" in codes(found)) == (first, True)
        assert "canary" not in str(found)
    execute(postgres, "DELETE FROM task_outbox")
    assert codes(explain.explain(postgres, away, away, BOUNDS, str(run_id)))[:1] == ["published"]
    away.close()


def test_redis_that_does_not_answer_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    real = redis.Redis.execute_command

    def counted(client: redis.Redis, *command: object, **options: object) -> object:
        asked.append(command[0])
        return real(client, *command, **options)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(redis.Redis, "execute_command", counted)
    locks, broker = (client_of(f"redis://127.0.0.1:1/{number}", connections=1) for number in (0, 1))
    assert explain_fleet.read(broker, locks, [], None).away == "Redis does not answer (ConnectionError)"
    assert asked == ["EXISTS"]
    locks.close()
    broker.close()


def test_in_queue_and_no_consumer(
    postgres: Postgres, made: Seed, ask: Ask, relay: Relay, redis_client: redis.Redis
) -> None:
    first = manual_run(postgres, made)
    assert relay.drain() == 1
    second = manual_run(postgres, seed(postgres, "other", path="/srv/other"))
    assert relay.drain() == 1
    assert codes(ask(first)) == ["in_queue", "deadline"]
    assert "in queue sync, 0 messages before it" in ask(first).answer
    assert "in queue sync, 1 message before it" in ask(second).answer
    absent(redis_client, "worker")
    assert codes(ask(second))[:2] == ["no_consumer", "in_queue"]


def test_message_behind_many_is_found(
    postgres: Postgres, made: Seed, ask: Ask, relay: Relay, redis_client: redis.Redis
) -> None:
    run_id = manual_run(postgres, made)
    relay.drain()
    redis_client.rpush("sync", *(f"{number}" for number in range(1234)))  # the right end is the oldest
    assert "1234 messages before it" in ask(run_id).answer


def test_taken(postgres: Postgres, made: Seed, ask: Ask, relay: Relay, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, made)
    relay.drain()
    raw: Any = redis_client.rpop("sync")
    redis_client.hset("unacked", "tag", b'[%s, "", "sync"]' % raw)  # as a worker notes it
    assert codes(ask(run_id)) == ["taken", "deadline"]


def test_lost_message(postgres: Postgres, made: Seed, ask: Ask, relay: Relay, redis_client: redis.Redis) -> None:
    run_id = manual_run(postgres, made)
    relay.drain()
    redis_client.delete("sync")
    found = ask(run_id)
    assert codes(found) == ["lost_message", "deadline"]
    assert [found.findings[0].until] == column(postgres, "SELECT armed_at + interval '2 hours' FROM sync_runs")
    redis_client.delete(rescue.EPOCH_KEY)
    assert "not as the last rescue saw it" in ask(run_id).answer


def test_message_that_is_worked_off_between_the_two_looks_is_not_lost(
    postgres: Postgres, made: Seed, ask: Ask, redis_client: redis.Redis
) -> None:
    run_id = manual_run(postgres, made)
    execute(postgres, "DELETE FROM task_outbox")

    class Late(redis.Redis):
        """A Redis that a worker empties, and whose message it works off, while somebody looks."""

        def lrange(self, *given: Any, **more: Any) -> Any:
            plan.run(postgres, run_id, lease_seconds=60, cap=2, max_batches=10)
            return super().lrange(*given, **more)

    late = Late(connection_pool=redis_client.connection_pool)
    found = explain.explain(postgres, late, redis_client, BOUNDS, str(run_id))
    assert (found.state, codes(found)[0]) == ("running", "outbox")


def test_planning_and_lease_over(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id = manual_run(postgres, made)
    with postgres.transaction() as tx:
        assert runs.claim(tx, run_id, uuid4(), "plan", 60) is not None
    found = ask(run_id)
    assert codes(found) == ["planning", "deadline"]
    assert [found.findings[0].until] == column(postgres, "SELECT lease_until FROM sync_runs")
    execute(postgres, "UPDATE sync_runs SET lease_until = now() - interval '1 s'")
    assert codes(ask(run_id)) == ["lease_over", "deadline"]


def test_lease_over_of_a_run_that_no_rescue_can_reach(
    postgres: Postgres, made: Seed, ask: Ask, redis_client: redis.Redis
) -> None:
    run_id = manual_run(postgres, made)
    execute(postgres, "UPDATE sync_runs SET state = 'planning', lease_until = now() - interval '1 s'")
    redis_client.delete("dev-hops/beat")
    assert codes(ask(run_id)) == ["no_beat", "lease_over", "deadline"]


def test_running(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id, batch_id = planned(postgres, made)
    waiting = ask(run_id)
    assert codes(waiting) == ["outbox", "running", "deadline"]
    assert f"batch {str(batch_id)[:8]} (commits of /srv/app): its message waits in the outbox" in waiting.answer
    assert waiting.batches == {"queued": 1}
    claimed(postgres, batch_id)
    found = ask(run_id)
    assert codes(found) == ["running", "deadline"]
    assert found.answer.endswith("is running: 0 of 1 batch is over (1 running)")


def test_recount_finishing_and_attempts(postgres: Postgres, made: Seed, ask: Ask, relay: Relay) -> None:
    run_id, _ = planned(postgres, made)
    execute(postgres, "UPDATE sync_batches SET state = 'succeeded', complete = true, finished_at = now()")
    assert codes(ask(run_id))[:2] == ["recount", "running"]
    with postgres.transaction() as tx:
        assert lost.recount(tx) == 1
    assert codes(ask(run_id))[:2] == ["outbox", "finishing"]
    relay.drain()
    assert codes(ask(run_id))[:2] == ["in_queue", "finishing"]
    with postgres.transaction() as tx:
        assert runs.claim(tx, run_id, uuid4(), "finish", 60) is not None
    execute(postgres, "UPDATE sync_runs SET attempt = 2")
    found = ask(run_id)
    assert codes(found) == ["finishing", "attempts", "deadline"]
    assert "its lease holds until" in found.answer
    assert of(found, "attempts").text == "its worker was lost twice; at 5 times it fails"


def test_metrics_run_that_is_computed(postgres: Postgres, made: Seed, ask: Ask, redis_client: redis.Redis) -> None:
    run_id = uuid4()
    execute(
        postgres,
        "INSERT INTO sync_runs (id, org_id, kind, trigger, wakes, deadline_at) "
        "VALUES (:id, :org, 'metrics', 'schedule', 1, now() + interval '1 day')",
        id=run_id, org=made.org.id,
    )  # fmt: skip
    absent(redis_client, "worker-heavy")
    found = ask(run_id)
    assert codes(found)[:2] == ["lost_message", "no_consumer"]
    assert found.findings[1].remedy == "dev-hops worker --fleet worker-heavy"
    with postgres.transaction() as tx:
        assert runs.claim(tx, run_id, uuid4(), "compute", 60) is not None
    assert codes(ask(run_id)) == ["running", "deadline"]
    execute(postgres, "UPDATE sync_runs SET kind = 'backfill', state = 'queued', lease_until = NULL")
    assert codes(ask(run_id)) == ["unknown_kind", "deadline"]
    execute(postgres, "UPDATE sync_runs SET state = 'planning'")
    assert codes(ask(run_id)) == ["no_lease", "deadline"]


def test_cancel_requested(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id, batch_id = planned(postgres, made)
    claimed(postgres, batch_id)
    with postgres.transaction() as tx:
        runs.cancel(tx, run_id, cap=2)
    assert codes(ask(run_id)) == ["cancel_requested", "running", "deadline"]
    assert codes(ask(batch_id)) == ["running", "cancel_requested"]


def test_overdue_and_lost(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id = manual_run(postgres, made)
    execute(postgres, "UPDATE sync_runs SET deadline_at = now() - interval '1 s'")
    assert codes(ask(run_id))[0] == "overdue"
    with postgres.transaction() as tx:
        assert lost.lose_late_runs(tx) == 1
    found = ask(run_id)
    assert (found.state, codes(found)) == ("lost", ["lost"])
    assert "dev-hops runs retry" in (found.findings[0].remedy or "")


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (BatchEnd(BatchState.SUCCEEDED, is_complete=True), "succeeded"),
        (BatchEnd(BatchState.SUCCEEDED, is_complete=False, incomplete_reason="a page was cut"), "partial"),
        (BatchEnd(BatchState.FAILED, error_class="SourceUnavailable", error="no such repository"), "failed"),
        (BatchEnd(BatchState.CANCELLED, error_class="cancelled", error="its run was cancelled"), "cancelled"),
    ],
)
def test_ended_run_and_batch(postgres: Postgres, made: Seed, ask: Ask, end: BatchEnd, state: str) -> None:
    run_id, batch_id = planned(postgres, made)
    batch = claimed(postgres, batch_id)
    with postgres.transaction() as tx:
        assert batches.close(tx, batch_id, batch.owner, end)
    explained = ask(batch_id)
    assert (explained.state, codes(explained)) == (end.state.value, [end.state.value])
    assert (end.error or end.incomplete_reason or "") in explained.answer
    owner = uuid4()
    with postgres.transaction() as tx:
        run = runs.claim(tx, run_id, owner, "finish", 60)
        assert run is not None
        assert runs.finish(tx, run, owner) == state
    found = ask(run_id)
    assert (found.state, codes(found), found.batches) == (state, [state], {end.state.value: 1})
    assert ("it was cancelled" if state == "cancelled" else end.error or end.incomplete_reason or "") in found.answer


# Batches


def crowd(postgres: Postgres, made: Seed, count: int) -> list[tuple[UUID, UUID]]:
    """Planned runs of as many sources of the organisation, with the batch of each."""
    found = []
    for number in range(count):
        with postgres.transaction() as tx:
            path = f"/srv/crowd{number}"
            source = sources.add_source(tx, made.org.id, "git", "localhost", path, path)
        found.append(planned(postgres, Seed(made.org, source)))
    return found


def test_cap_and_planned(postgres: Postgres, made: Seed, ask: Ask) -> None:
    (first, _), (second, _), (third, batch_id) = crowd(postgres, made, 3)
    found = ask(batch_id)
    assert (found.state, codes(found)) == ("planned", ["cap"])
    assert all(f"run {str(run_id)[:8]} (1)" in found.answer for run_id in (first, second))
    assert codes(ask(third))[0] == "cap"
    execute(postgres, "UPDATE sync_batches SET state = 'succeeded' WHERE run_id = :id", id=first)
    assert codes(ask(batch_id)) == ["planned"]
    assert "1 of 2 places of git in acme are taken" in ask(batch_id).answer


def test_same_source(postgres: Postgres, made: Seed, ask: Ask) -> None:
    _, reads = planned(postgres, made)
    claimed(postgres, reads)
    minted(postgres, schedule(postgres, made))
    (run_id,) = column(postgres, "SELECT id FROM sync_runs WHERE trigger = 'schedule'")
    plan.run(postgres, run_id, lease_seconds=60, cap=2, max_batches=10)  # type: ignore[arg-type]
    (waits,) = column(postgres, "SELECT id FROM sync_batches WHERE run_id = :id", id=run_id)
    found = ask(waits)
    assert codes(found) == ["same_source", "outbox"]
    assert str(reads)[:8] in found.answer
    with postgres.transaction() as tx:  # its message comes, and the claim sends it back
        assert batches.claim(tx, waits, uuid4(), lease_seconds=60, cap=8) is None  # type: ignore[arg-type]
    assert codes(ask(waits)) == ["same_source", "planned"]


def test_running_batch_and_lease_over(postgres: Postgres, made: Seed, ask: Ask) -> None:
    run_id, batch_id = planned(postgres, made)
    claimed(postgres, batch_id)
    execute(postgres, "UPDATE sync_batches SET pages = 3, records = 1")
    found = ask(batch_id)
    assert codes(found) == ["running"]
    assert "a worker reads it: 3 pages, 1 record so far; its lease holds until" in found.answer
    execute(postgres, "UPDATE sync_batches SET lease_until = now() - interval '1 s'")
    assert codes(ask(batch_id)) == ["lease_over"]
    assert codes(ask(run_id))[:2] == ["lease_over", "running"]


@pytest.mark.parametrize(
    ("reason", "code", "words"),
    [
        ({"reason": "busy"}, "deferred", "reason busy"),
        (
            {"gate": "github on github.com", "reason": "window", "detail": "burst: slow down"},
            "gate",
            "burst: slow down",
        ),
    ],
)
def test_deferred_and_gate(
    postgres: Postgres, made: Seed, ask: Ask, reason: dict[str, str], code: str, words: str, relay: Relay
) -> None:
    run_id, batch_id = planned(postgres, made)
    batch = claimed(postgres, batch_id)
    with postgres.transaction() as tx:
        assert batches.give_back(tx, batch, BatchState.DEFERRED, wait_seconds=60, defer_reason=reason)
    found = ask(batch_id)
    assert (found.state, codes(found)) == ("deferred", [code])
    assert words in found.answer
    assert [found.findings[0].until] == column(postgres, "SELECT not_before FROM sync_batches")
    run = ask(run_id)
    assert (run.state, codes(run)[0]) == ("deferred", code)
    execute(postgres, "UPDATE sync_batches SET not_before = now()")
    execute(postgres, "UPDATE task_outbox SET available_at = now()")
    assert codes(ask(batch_id)) == ["outbox"]
    relay.drain()
    assert codes(ask(batch_id)) == ["in_queue"]


def test_backoff_and_attempts(postgres: Postgres, made: Seed, ask: Ask) -> None:
    _, batch_id = planned(postgres, made)
    batch = claimed(postgres, batch_id)
    with postgres.transaction() as tx:
        assert batches.give_back(
            tx, batch, BatchState.QUEUED, wait_seconds=60, is_fault=True, error="reset by peer", error_class="TransientError"
        )  # fmt: skip
    found = ask(batch_id)
    assert codes(found) == ["backoff", "attempts"]
    assert "reset by peer" in found.answer
    assert of(found, "attempts").text == "1 of 5 attempts are spent; the last fault: reset by peer"


def test_queued_batch(postgres: Postgres, made: Seed, ask: Ask, relay: Relay, redis_client: redis.Redis) -> None:
    run_id, batch_id = planned(postgres, made)
    assert codes(ask(batch_id)) == ["outbox"]
    relay.drain()
    assert codes(ask(batch_id)) == ["in_queue"]
    absent(redis_client, "worker")
    assert codes(ask(batch_id)) == ["no_consumer", "in_queue"]
    assert codes(ask(run_id))[:2] == ["no_consumer", "running"]
    redis_client.delete("sync.git")
    assert codes(ask(batch_id))[:2] == ["no_consumer", "lost_message"]  # of queue scheduler: no rescue comes
