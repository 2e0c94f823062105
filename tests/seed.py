"""Rows that integration tests start from, made through the same functions as in production."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import text

from worker_app.records import Commit, Source
from worker_app.store import runs, schedules, sources
from worker_app.store.postgres import Postgres
from worker_app.store.schedules import NewSchedule
from worker_app.store.sources import Org

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Seed:
    """One organisation with one source."""

    org: Org
    source: Source


def seed(postgres: Postgres, name: str = "acme", tz: str = "UTC", path: Path | str = "/srv/app") -> Seed:
    """An organisation and a git source at `path`."""
    with postgres.transaction() as tx:
        org = sources.add_org(tx, name, tz)
        return Seed(org, sources.add_source(tx, org.id, "git", "localhost", str(path), str(path)))


def schedule(
    postgres: Postgres,
    made: Seed,
    *,
    due: timedelta = timedelta(minutes=5),
    cron: str = "*/5 * * * *",
    **changes: object,
) -> UUID:
    """A schedule of the source whose first unserved slot lies `due` before the newest one."""
    job_id = uuid4()
    now = postgres.now().replace(second=0, microsecond=0)
    grid = now - timedelta(minutes=now.minute % 5)
    given = {
        "id": job_id, "org_id": made.org.id, "kind": "sync", "provider": "git", "source_ids": (made.source.id,),
        "cron_source": cron, "cron": cron, "tz": "UTC", "next_run_at": grid - due, **changes,
    }  # fmt: skip
    with postgres.transaction() as tx:
        schedules.add(tx, NewSchedule(**given))  # type: ignore[arg-type]
    return job_id


def due_jobs(postgres: Postgres, made: Seed, count: int) -> None:
    """`count` jobs of the organisation, due since an hour with one slot or two, in one statement."""
    execute(
        postgres,
        "INSERT INTO scheduled_jobs (id, org_id, kind, provider, cron_source, cron, next_run_at) "
        "SELECT gen_random_uuid(), :org, 'sync', 'git', '0 * * * *', '0 * * * *', date_trunc('hour', now()) - interval '1 hour' "
        "FROM generate_series(1, :count)",
        org=made.org.id,
        count=count,
    )


def manual_run(postgres: Postgres, made: Seed) -> UUID:
    """A queued run of the source."""
    with postgres.transaction() as tx:
        return runs.add_manual(tx, made.org.id, "git", made.source.id, uuid4())


def commit(sha: str, at: datetime = NOON, **changes: object) -> Commit:
    """A commit of the seed's source."""
    given = {
        "ext_id": sha, "repo_ext_id": "/srv/app", "author_ext_id": None, "author_email_hash": b"a" * 32, "authored_at": at,
        "committed_at": at, "is_merge": False, "files": 1, "additions": 2, "deletions": 1, **changes,
    }  # fmt: skip
    return Commit(**given)  # type: ignore[arg-type]


def column(postgres: Postgres, statement: str, **given: object) -> list[object]:
    """The first column of a query."""
    with postgres.transaction() as tx:
        return list(tx.execute(text(statement), given).scalars())


def execute(postgres: Postgres, statement: str, **given: object) -> None:
    """Run one statement."""
    with postgres.transaction() as tx:
        tx.execute(text(statement), given)
