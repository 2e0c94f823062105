"""Peer: pgqueuer. One statement takes all due schedules, batches enqueue their jobs and free them again."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from pgqueuer import db, models, queries, sm
from sqlalchemy.engine import make_url

from bench import dispatch_side
from bench.dispatch_side import Found, Gate, Place, Share, lines

COUNTS = {
    "jobs": "SELECT count(*) AS n FROM pgqueuer",
    "entrypoints": "SELECT count(DISTINCT entrypoint) AS n FROM pgqueuer",
    "stamped": "SELECT count(*) AS n FROM pgqueuer_schedules WHERE next_run > now() AND status = 'queued'",
}


async def nothing(_: models.Schedule) -> None:
    """The function of every schedule; the batch below enqueues instead of it."""


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[sm.SchedulerManager]:
    """A scheduler on a pool of the recommended driver, with all schedules registered."""
    dsn = make_url(place.database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    async with asyncpg.create_pool(dsn, min_size=2, max_size=4) as pool:
        manager = sm.SchedulerManager(queries.Queries(db.AsyncpgPoolDriver(pool)))
        for number, line in enumerate(lines(place.count, place.at)):
            manager.schedule(f"job-{number}", line.cron)(nothing)
        yield manager


def seed(place: Place) -> None:
    """The tables and the due schedules."""

    async def make() -> None:
        async with opened(place) as manager:
            await manager.queries.install()
            slots = (line.slot - place.at - timedelta(seconds=1) for line in lines(place.count, place.at))
            await manager.queries.insert_schedule(dict(zip(manager.registry, slots, strict=True)))

    asyncio.run(make())


def work(place: Place, gate: Gate) -> Share:
    """Fetch, enqueue, free, until nothing is due. Its own loop enqueues and frees one by one; batches are the faster way."""

    async def run() -> Share:
        async with opened(place) as manager:
            start, done = gate(), 0
            share = start.share(0)
            while True:
                waits = {key: executor.next_in() for key, executor in manager.registry.items()}
                due = await manager.queries.fetch_schedule(waits)
                if not due:
                    return share
                names = [schedule.entrypoint for schedule in due]
                await manager.queries.enqueue(names, [None] * len(due), [0] * len(due))  # type: ignore[arg-type]
                await manager.queries.set_schedule_queued({schedule.id for schedule in due})
                done += len(due)
                share = start.share(done)

    return asyncio.run(run())


def found(place: Place) -> Found:
    """Jobs, the schedules they are of, and the schedules that have their next slot."""

    async def count() -> Found:
        async with opened(place) as manager:
            driver = manager.queries.driver
            answers = [await driver.fetch(query) for query in COUNTS.values()]
            return {name: int(str(rows[0]["n"])) for name, rows in zip(COUNTS, answers, strict=True)}

    return asyncio.run(count())


if __name__ == "__main__":
    dispatch_side.main(seed, work, found)
