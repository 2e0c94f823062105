"""Peer: procrastinate. Every process defers every schedule, as its workers do; a unique row lets the first one win."""

import asyncio

import procrastinate
from procrastinate import periodic
from sqlalchemy.engine import make_url

from bench import dispatch_side
from bench.dispatch_side import Found, Gate, Place, Share, lines

COUNTS = {
    "jobs": "SELECT count(*) AS n FROM procrastinate_jobs",
    "schedules": "SELECT count(DISTINCT args ->> 'timestamp' || queue_name) AS n FROM procrastinate_jobs",
    "defers": "SELECT count(*) AS n FROM procrastinate_periodic_defers WHERE job_id IS NOT NULL",
}


def job(timestamp: int) -> None:
    """The task of every schedule; nobody runs it."""


def app_of(place: Place) -> procrastinate.App:
    """An app with the recommended connector and its pool, and all schedules registered."""
    dsn = make_url(place.database_url).set(drivername="postgresql").render_as_string(hide_password=False)
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))
    task = app.task(name="job")(job)
    for number, line in enumerate(lines(place.count, place.at)):
        app.periodic(cron=line.cron, periodic_id=f"job-{number}", queue=f"queue-{number}")(task)
    return app


def seed(place: Place) -> None:
    """The tables; the schedules live in the program."""

    async def make() -> None:
        async with app_of(place).open_async() as app:
            await app.schema_manager.apply_schema_async()

    asyncio.run(make())


def work(place: Place, gate: Gate) -> Share:
    """Defer the newest slot of every schedule, by the class that a worker runs."""

    async def defer() -> Share:
        async with app_of(place).open_async() as app:
            deferrer = periodic.PeriodicDeferrer(registry=app.periodic_registry)
            start = gate()
            await deferrer.defer_jobs(deferrer.get_previous_tasks(at=place.at.timestamp()))
            return start.share()

    return asyncio.run(defer())


def found(place: Place) -> Found:
    """Jobs, the schedules they are of, and the rows that say that a slot was deferred."""

    async def count() -> Found:
        async with app_of(place).open_async() as app:
            answers = [await app.connector.execute_query_one_async(query) for query in COUNTS.values()]
            return {name: int(answer["n"]) for name, answer in zip(COUNTS, answers, strict=True)}

    return asyncio.run(count())


if __name__ == "__main__":
    dispatch_side.main(seed, work, found)
