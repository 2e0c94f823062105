"""Peer: APScheduler 4, a pre-release. Schedulers without workers turn due schedules into jobs of one shared data store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from apscheduler import AsyncScheduler, SchedulerRole
from apscheduler.datastores.sqlalchemy import SQLAlchemyDataStore
from apscheduler.eventbrokers.redis import RedisEventBroker
from apscheduler.triggers.cron import CronTrigger
from sqlalchemy import text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from bench import dispatch_side
from bench.dispatch_side import Found, Gate, Place, Share, lines

LOOK_SECONDS = 0.05  # between two looks at whether anything is due; the scheduler itself never says so
COUNTS = {
    "jobs": "SELECT count(*) FROM jobs",
    "schedules": "SELECT count(DISTINCT schedule_id) FROM jobs",
    "stamped": "SELECT count(*) FROM schedules WHERE next_fire_time > now() AND acquired_by IS NULL",
}

DUE = text("SELECT EXISTS (SELECT FROM schedules WHERE next_fire_time <= now())")


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[tuple[AsyncScheduler, AsyncEngine]]:
    """A scheduler as its documentation sets up several: a shared data store on asyncpg and a shared event broker.

    Its broker on asyncpg raises in every notification with anyio 4.16; the one on psycopg is slower than that on Redis.
    """
    url = make_url(place.database_url).set(drivername="postgresql+asyncpg", query={})
    engine = create_async_engine(url)
    try:
        store, broker = SQLAlchemyDataStore(engine), RedisEventBroker(place.redis_url)
        async with AsyncScheduler(store, broker, identity=place.name, role=SchedulerRole.scheduler) as scheduler:
            yield scheduler, engine
    finally:
        await engine.dispose()


def seed(place: Place) -> None:
    """The tables and the due schedules."""

    async def make() -> None:
        async with opened(place) as (scheduler, _):
            await scheduler.configure_task("noop", func=dispatch_side.noop)
            for number, line in enumerate(lines(place.count, place.at)):
                trigger = CronTrigger.from_crontab(line.cron, start_time=line.slot, timezone="UTC")
                await scheduler.add_schedule("noop", trigger, id=f"job-{number}")

    asyncio.run(make())


def work(place: Place, gate: Gate) -> Share:
    """Run the scheduler until nothing is due."""

    async def run() -> Share:
        async with opened(place) as (scheduler, engine):
            start = gate()
            await scheduler.start_in_background()
            while await is_due(engine):
                await asyncio.sleep(LOOK_SECONDS)
            share = start.share()
            await scheduler.stop()
            return share

    return asyncio.run(run())


async def is_due(engine: AsyncEngine) -> bool:
    """Whether a schedule still waits; its own look leaves out those that a scheduler has taken."""
    async with engine.connect() as connection:
        return bool((await connection.execute(DUE)).scalar_one())


def found(place: Place) -> Found:
    """Jobs, the schedules they are of, and the schedules that have their next slot."""

    async def count() -> Found:
        async with opened(place) as (_, engine), engine.connect() as connection:
            return {name: int((await connection.execute(text(query))).scalar_one()) for name, query in COUNTS.items()}

    return asyncio.run(count())


if __name__ == "__main__":
    dispatch_side.main(seed, work, found)
