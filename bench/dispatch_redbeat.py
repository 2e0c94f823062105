"""Peer: celery-redbeat. The one holder of its lock sends a Celery message for every due entry in Redis."""

import json
from datetime import timedelta
from typing import Any

from celery import Celery, signals
from celery.beat import Service
from celery.schedules import crontab
from kombu.entity import Queue
from redbeat import RedBeatScheduler, RedBeatSchedulerEntry
from redbeat.schedulers import get_redis

from bench import dispatch_side
from bench.dispatch_side import Found, Gate, Place, Share, lines

QUEUE = "sync"


def app_of(place: Place) -> Celery:
    """An app whose beat keeps its entries in Redis."""
    app = Celery("bench", broker=place.redis_url)
    app.conf.update(
        redbeat_redis_url=place.redis_url,
        timezone="UTC",
        task_queues=[Queue(QUEUE)],
        task_default_queue=QUEUE,
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
    )
    return app


def seed(place: Place) -> None:
    """The entries, each last run before the slot that is due."""
    app = app_of(place)
    for number, line in enumerate(lines(place.count, place.at)):
        minute, hour = line.fields
        entry = RedBeatSchedulerEntry(
            f"job-{number}", "noop", crontab(minute=minute, hour=hour, app=app), app=app,
            last_run_at=line.slot - timedelta(minutes=1),
        )  # fmt: skip
        entry.save()


def work(place: Place, gate: Gate) -> Share:
    """One tick of beat, which sends all that is due."""
    service = Service(app_of(place), scheduler_cls=RedBeatScheduler)
    signals.beat_init.send(sender=service)  # takes the lock
    start = gate()
    service.scheduler.tick()
    share = start.share(place.count)
    service.scheduler.close()
    return share


def found(place: Place) -> Found:
    """Messages, and the tasks they are."""
    client: Any = get_redis(app_of(place))
    ids = {json.loads(message)["headers"]["id"] for message in client.lrange(QUEUE, 0, -1)}
    return {"messages": int(client.llen(QUEUE)), "distinct_task_ids": len(ids)}


if __name__ == "__main__":
    dispatch_side.main(seed, work, found)
