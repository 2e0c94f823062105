"""Judge: whether everything became what it had to, exactly once, told from the stores and from what was published."""

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import text

from tests.chaos.dispatch import actor, points
from tests.chaos.dispatch.fleet import Fleet, Kill
from tests.chaos.dispatch.load import Load
from tests.seed import column
from worker_app import jobs
from worker_app.store.postgres import Postgres

MOST_DUPLICATES = 25  # of messages, per kill
ORPHAN = "orphan "
CLOSED = "SELECT count(*) FROM sync_runs WHERE finished_at IS NOT NULL"
OWED = (
    "SELECT (SELECT count(*) FROM sync_runs WHERE finished_at IS NULL) + (SELECT count(*) FROM task_outbox) "
    "+ (SELECT count(*) FROM sync_batches WHERE finished_at IS NULL)"
)


def is_settled(load: Load) -> bool:
    """Whether nothing is left to do: every slot is in the ledger, every run is over, no message is owed."""
    ledger = column(load.postgres, "SELECT count(*) FROM schedule_occurrences")
    return ledger == [len(load.slots)] and column(load.postgres, OWED) == [0]


def open_runs(load: Load) -> int:
    """Runs that are not over, also those of slots that no dispatcher has seen yet and the metrics that follow."""
    (closed,) = column(load.postgres, CLOSED)
    assert isinstance(closed, int)
    return 2 * len(load.slots) - closed


def story(load: Load, fleet: Fleet) -> str:
    """Where things stand, for a person who looks for what is stuck."""
    postgres = load.postgres
    return "; ".join(
        [
            f"{len(fleet.kills)} kills, {len(fleet.plan)} to come, waiting for {fleet.armed}",
            f"{len(load.slots)} slots, ledger {column(postgres, 'SELECT count(*) FROM schedule_occurrences')}",
            f"runs {column(postgres, 'SELECT kind || state || count(*) FROM sync_runs GROUP BY kind, state')}",
            f"batches {column(postgres, 'SELECT state || count(*) FROM sync_batches GROUP BY state')}",
            f"outbox {column(postgres, 'SELECT count(*) FROM task_outbox')}",
            f"queues { {name: fleet.redis.llen(name) for name in (actor.FIRST_QUEUE, *actor.QUEUES)} }, held {fleet.held()}",
        ]
    )


def check_slots(load: Load) -> None:
    """Each slot is in the ledger once and is one run; no other run of a job exists."""
    with load.postgres.transaction() as tx:
        ledger = tx.execute(text("SELECT job_id, scheduled_for, run_id, outcome FROM schedule_occurrences")).all()
        found = tx.execute(text("SELECT id, job_id, scheduled_for FROM sync_runs WHERE kind = 'sync'")).all()
    assert {row.outcome for row in ledger} <= {"minted"}
    assert {(row.job_id, row.scheduled_for): row.run_id for row in ledger} == load.slots
    assert {(row.job_id, row.scheduled_for): row.id for row in found} == load.slots
    assert len(found) == len(ledger) == len(load.slots)


def check_runs(load: Load) -> None:
    """Each run ended once, as what it had to be, and so did its metrics run; nothing changed after its end."""
    with load.postgres.transaction() as tx:
        found = {row.id: row for row in tx.execute(text("SELECT * FROM sync_runs")).mappings()}
    syncs = {run_id: row for run_id, row in found.items() if row["kind"] == "sync"}
    wrong = {
        run_id: (row["state"], row["error"])
        for run_id, row in syncs.items()
        if row["state"] != ("failed" if run_id in load.failing else "succeeded")
    }
    assert not wrong
    assert {run_id: row["batches_total"] for run_id, row in syncs.items()} == load.batches
    assert {run_id: row["batches_done"] + row["batches_failed"] for run_id, row in syncs.items()} == load.batches
    computed = {run_id: row["state"] for run_id, row in found.items() if row["kind"] == "metrics"}
    assert computed == dict.fromkeys(map(jobs.metrics_run_id, load.slots.values()), "succeeded")
    assert _ends(load.postgres, "run") == dict.fromkeys(map(str, found), 1)
    assert column(load.postgres, "SELECT what || id FROM chaos_audit WHERE what LIKE '% after its end'") == []


def check_batches(load: Load) -> None:
    """Each batch was closed once and stored each of its pages once; every commit is there, and counted in the metrics."""
    postgres, pages, size = load.postgres, actor.PAGES, actor.PAGES * actor.PER_PAGE
    with postgres.transaction() as tx:
        found = tx.execute(text("SELECT id, run_id, state, pages, records FROM sync_batches")).all()
    assert Counter(row.run_id for row in found) == {run_id: count for run_id, count in load.batches.items() if count}
    assert {(row.state, row.pages, row.records) for row in found} <= {("succeeded", pages, size), ("failed", 0, 0)}
    assert {row.run_id for row in found if row.state == "failed"} == load.failing
    assert _ends(postgres, "batch") == dict.fromkeys((str(row.id) for row in found), 1)
    stored = (
        "SELECT count(*) FROM commits c RIGHT JOIN (SELECT DISTINCT org_id, source_id FROM sync_batches "
        "WHERE state = 'succeeded') s USING (org_id, source_id) GROUP BY s.source_id"
    )
    assert set(column(postgres, stored)) <= {size}
    counted = "SELECT sum(value)::bigint FROM metric_daily WHERE metric = 'commits' AND grain = 'repo'"
    assert column(postgres, counted) == column(postgres, "SELECT nullif(count(*), 0) FROM commits")


def check_messages(fleet: Fleet, postgres: Postgres) -> int:
    """Nothing is left over, nobody met what was never committed, and a kill doubled few; returns how many were doubled."""
    left = {queue: fleet.redis.llen(queue) for queue in actor.QUEUES}
    assert left == dict.fromkeys(left, 0)
    faults = fleet.lines("faults")
    forgotten = set(map(str, column(postgres, "SELECT id FROM chaos_audit WHERE what = 'forgotten'")))
    orphans = {line.split()[-1] for line in faults if line.startswith(ORPHAN)}
    assert orphans <= forgotten
    assert [line for line in faults if not line.startswith(ORPHAN) and "LeaseLost" not in line] == []
    doubled, left = _doubled(fleet)
    assert max(left.values(), default=0) <= MOST_DUPLICATES, left
    assert doubled <= MOST_DUPLICATES * len(fleet.kills)
    return doubled


def _doubled(fleet: Fleet) -> tuple[int, Counter[str]]:
    """How many messages were sent again, and of each process that was killed: how many that it had sent, after its death."""
    died = {kill.actor: kill.at for kill in fleet.kills}
    sent = defaultdict[str, list[tuple[float, str]]](list)
    for path in fleet.folder.glob("*.sent"):
        for message, at in map(str.split, path.read_text().splitlines()):
            sent[message].append((float(at), path.stem))
    again = [pair for times in sent.values() for pair in pairwise(sorted(times))]
    return len(again), Counter(actor for (_, actor), (at, _) in again if at > died.get(actor, at))


def check_commits(fleet: Fleet, load: Load) -> None:
    """A COMMIT that was sent whole was heard although nobody waited for the answer; one that was torn was not."""
    forgotten = set(column(load.postgres, "SELECT id FROM chaos_audit WHERE what = 'forgotten'"))
    undone = {str(job_id) for (job_id, _), run_id in load.slots.items() if str(run_id) in forgotten}
    for kill in fleet.kills:
        if kill.point.number == 5:
            wrote = "SELECT DISTINCT job_id::text FROM schedule_occurrences WHERE dispatcher = :actor"
            heard = set(kill.subjects).intersection(map(str, column(load.postgres, wrote, actor=kill.actor)))
            wanted = set(kill.subjects) if kill.point.name == "5-commit-sent" else set()
            assert heard - undone == wanted - undone, kill


def _ends(postgres: Postgres, what: str) -> dict[str, int]:
    with postgres.transaction() as tx:
        rows = tx.execute(
            text("SELECT id, count(*) FILTER (WHERE is_end) AS ends FROM chaos_audit WHERE what = :what GROUP BY id"),
            {"what": what},
        )
        return {row.id: row.ends for row in rows}


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long it took until what a kill had left was over."""

    kill: Kill
    seconds: float


def recoveries(fleet: Fleet, postgres: Postgres) -> list[Recovery]:
    """For each kill: the seconds until each thing that the dead process held went on. Fails where one did not, or late."""
    found = [Recovery(kill, _seconds(postgres, kill)) for kill in fleet.kills]
    late = [
        f"{item.kill.point.name} by {item.kill.actor}: {item.seconds:.1f} s"
        for item in found
        if item.seconds > item.kill.point.within_seconds + points.SLACK_SECONDS
    ]
    assert not late, late
    return found


def _seconds(postgres: Postgres, kill: Kill) -> float:
    """0 for what had gone on before."""
    point = kill.point
    with postgres.transaction() as tx:
        rows = tx.execute(
            text(
                "SELECT s.id, min(a.at) FILTER (WHERE a.at > :at) AS after, min(a.at) AS ever "
                "FROM unnest(CAST(:ids AS text[])) s (id) LEFT JOIN chaos_audit a ON a.id = s.id "
                "AND a.what = ANY (CAST(:what AS text[])) AND (CAST(:states AS text[]) = '{}' "
                "OR a.state = ANY (CAST(:states AS text[])) OR a.what = 'sent again') GROUP BY s.id"
            ),
            {"ids": list(kill.subjects), "at": kill.at, "what": list(point.what), "states": list(point.states)},
        ).all()
    lost = [row.id for row in rows if row.ever is None or (row.after is None and point.name not in points.MAYBE_BEFORE)]
    assert not lost, f"{point.name} by {kill.actor}: {lost} never went on"
    return max((row.after - kill.at for row in rows if row.after is not None), default=0.0)


def table(found: list[Recovery]) -> str:
    """The recoveries of each point, for a person."""
    lines = [f"{'point':16} kills  median    most  promised (shortened)"]
    for name, point in points.POINTS.items():
        times = sorted(item.seconds for item in found if item.kill.point.name == name)
        if times:
            lines.append(
                f"{name:16} {len(times):5} {times[len(times) // 2]:7.2f} {times[-1]:7.2f}  {point.within_seconds:.1f} s"
            )
    return "\n".join(lines)


def say(text: str) -> None:
    """Tell a person what was seen; pytest shows it with `-s`."""
    sys.stdout.write(f"\n{text}\n")
