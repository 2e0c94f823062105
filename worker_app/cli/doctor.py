"""Doctor: every setting as it resolved, and what would break a promise, each with its remedy."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import click
import redis
from rich.console import Console

from worker_app import broker_health, errors, queue_depth, settings
from worker_app.cli import doctor_redis, exits, output
from worker_app.credentials import canary
from worker_app.migrate import status
from worker_app.migrate.examination import examine
from worker_app.runtime import Runtime, build
from worker_app.settings import Settings
from worker_app.store import fence, outbox, overview, sources, vault_keys

LATE_TICKS = 2  # a slot that has waited for so many ticks is late
OWED_SECONDS = 60.0  # the relay looks every 12 s
MOST_NAMED = 5  # sources in one line


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. The field names are public."""

    check: str
    ok: bool
    detail: str  # what was seen; with a fault also the remedy


@click.command()
@output.json_option
def doctor(as_json: bool) -> None:
    """Check settings, stores, pools and queues; exit 1 when something needs a person, 78 when a setting is wrong."""
    chosen = settings.load()
    findings = list(_findings(chosen))
    answer = {"settings": chosen.shown(), "checks": findings, "ok": all(item.ok for item in findings)}
    output.emit(answer, as_json=as_json, show=lambda console: _draw(console, chosen, findings))
    if not answer["ok"]:
        raise SystemExit(exits.EXIT_FAILED)


def _findings(chosen: Settings) -> Iterator[Finding]:
    profile = chosen.profile
    yield Finding(
        "pools",
        True,
        f"{profile.slots} slots, {profile.broker_connections} broker, {profile.result_connections} result and "
        f"{profile.sql_pool_size} SQL connections",
    )
    if chosen.database_url is None:
        yield Finding("postgres", False, "DATABASE_URL is not set: give postgresql://USER:PASSWORD@HOST:5432/NAME")
        return
    runtime = build(chosen, role="doctor")
    try:
        schema = _check("postgres", lambda: _schema(runtime))
        yield schema
        if schema.ok:
            if chosen.clickhouse_url is not None:
                yield _check("clickhouse", lambda: _clickhouse(runtime))
            yield _check("work", lambda: _work(runtime))
            yield _check("keys", lambda: _keys(runtime))
            yield _check("credentials", lambda: _credentials(runtime))
        yield from _redis(runtime)
    finally:
        runtime.close()


def _check(name: str, look: Callable[[], tuple[bool, str]]) -> Finding:
    try:
        return Finding(name, *look())
    except (errors.StoreAway, errors.StoreRefused) as error:
        return Finding(name, False, str(error))
    except redis.RedisError as error:
        return Finding(name, False, f"Redis does not answer ({type(error).__name__}); look at REDIS_URL")


def _schema(runtime: Runtime) -> tuple[bool, str]:
    seen = status.of_postgres(runtime.postgres)
    return seen.state in status.USABLE, seen.message


def _clickhouse(runtime: Runtime) -> tuple[bool, str]:
    seen = next(item for item in examine(runtime.postgres, runtime.settings) if item.store == "clickhouse")
    return seen.state in status.USABLE, seen.message


def _redis(runtime: Runtime) -> Iterator[Finding]:
    found = _check("redis", lambda: (bool(runtime.broker.ping()), "answers"))
    yield found
    if found.ok:
        broker, fleets = runtime.broker, runtime.settings.dev_hops_fleets
        yield _check("redis eviction", lambda: doctor_redis.policy(broker_health.capacity(broker)))
        yield _check("redis persistence", lambda: doctor_redis.persistence(broker))
        present = cache(lambda: queue_depth.workers(broker))
        yield _check("redis clients", lambda: doctor_redis.clients(broker_health.capacity(broker), present()))
        yield _check("queues", lambda: doctor_redis.consumers(queue_depth.depths(broker, present=present()), fleets))
        yield _check("priorities", lambda: doctor_redis.priorities(broker))
        yield _check("beat", lambda: _beat(runtime.locks))
        yield _check("hub", lambda: _hub(present()))


def _beat(locks: redis.Redis) -> tuple[bool, str]:
    if fence.is_taken(locks, "beat"):
        return True, "a beat holds the lock"
    return False, "no beat holds the lock, so nobody sends ticks and rescues: start one with `dev-hops beat`"


def _work(runtime: Runtime) -> tuple[bool, str]:
    """Slots, runs, schedules and messages that nobody seems to serve."""
    most = LATE_TICKS * runtime.settings.dispatch_interval_seconds
    with runtime.postgres.transaction() as tx:
        lag, owed = overview.schedule_lag_seconds(tx), outbox.backlog(tx).oldest_age_seconds
        stuck, aside = overview.stuck_runs(tx), overview.quarantined_schedules(tx)
    found = [
        f"a slot is {lag:.0f} s late: look whether beat and a worker run" if lag > most else "",
        f"a message has been owed for {owed:.0f} s: look at the workers of fleet worker" if owed > OWED_SECONDS else "",
        f"{stuck} runs are stuck: name one to `dev-hops explain`" if stuck else "",
        f"{aside} schedules are set aside with a fault: `dev-hops schedules list` shows it" if aside else "",
    ]
    return not any(found), "; ".join(item for item in found if item) or "nothing is late, stuck or set aside"


def _keys(runtime: Runtime) -> tuple[bool, str]:
    """The key ring beside the rows that it has to open."""
    with runtime.postgres.transaction() as tx:
        faults, uses = canary.faults(tx, runtime.settings), vault_keys.uses(tx)
    rows = [f"{use.rows} rows on {use.key_id}" for use in uses if use.rows]
    return not faults, "; ".join(faults) or ", ".join(rows) or "nothing is sealed yet"


def _credentials(runtime: Runtime) -> tuple[bool, str]:
    """Sources that name a credential of which no version can be used."""
    with runtime.postgres.transaction() as tx:
        orphans = sources.without_their_credential(tx)
    named = [f"{item.external_name} of {item.org} names {item.credential}" for item in orphans[:MOST_NAMED]]
    more = [f"and {len(orphans) - MOST_NAMED} more"] if len(orphans) > MOST_NAMED else []
    remedy = "their syncs fail: add a credential of that name again, or give the source another one"
    return not orphans, f"{', '.join(named + more)}: {remedy}" if orphans else "every source has the one that it names"


def _hub(present: Sequence[queue_depth.Worker]) -> tuple[bool, str]:
    blocked = [_blockage(worker) for worker in present if worker.hub_blocked_in]
    return not blocked, "; ".join(blocked) or "no worker was blocked in the last 10 minutes"


def _blockage(worker: queue_depth.Worker) -> str:
    is_heavy = worker.fleet == "worker-heavy"
    remedy = "run this fleet with CELERY_POOL=prefork" if is_heavy else "move CPU work to the heavy fleet"
    return f"{worker.node} was blocked for {worker.hub_lag_seconds:g} s in {worker.hub_blocked_in}: {remedy}"


def _draw(console: Console, chosen: Settings, findings: list[Finding]) -> None:
    output.table("SETTING", "VALUE", rows=list(chosen.shown().items()), empty="")(console)
    console.print()
    rows = [("ok" if item.ok else "FAULT", item.check, item.detail) for item in findings]
    output.table("", "CHECK", "FOUND", rows=rows, empty="")(console)


COMMANDS = (doctor,)
