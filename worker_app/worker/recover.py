"""Recover: brings back what a killed worker held, and says of what this one holds that it is still being worked on.

Under gevent stock Celery never does the former (its sweep stands behind a poll that is never empty), and nobody does the
latter: a task longer than the visibility timeout runs twice. Every five seconds, whatever the poller does.
Page: https://docs.celeryq.dev/projects/kombu/en/stable/reference/kombu.transport.redis.html
"""

from typing import Any

import gevent
import redis
import structlog
from celery import bootsteps
from celery.worker.consumer import Consumer
from celery.worker.consumer.tasks import Tasks

from worker_app.worker.deliveries import RENEWALS
from worker_app.worker.transport import Channel

SWEEP_SECONDS = 5.0

log = structlog.get_logger(__name__)


class Recover(bootsteps.StartStopStep):
    """The step of the consumer's blueprint that sweeps and renews while there is a consumer."""

    requires = (Tasks,)
    greenlet: Any = None

    def start(self, consumer: Consumer) -> None:
        """Begin; the first sweep comes at once, for what a dead predecessor left."""
        channel = consumer.task_consumer.channel
        channel.open_deliveries()
        self.greenlet = gevent.spawn(_run, channel)

    def stop(self, _: Consumer) -> None:
        """End."""
        if self.greenlet is not None:
            self.greenlet.kill(block=False)
            self.greenlet = None


def _run(channel: Channel) -> None:
    pause = min(SWEEP_SECONDS, float(channel.visibility_timeout) / RENEWALS)
    while True:
        try:
            channel.tend()
        except redis.RedisError as error:
            log.debug("recover.broker_away", error=type(error).__name__)
        except Exception:  # a message that nobody has thought of must not end the renewals of all the others
            log.exception("recover.failed")
        gevent.sleep(pause)
