"""The naive relay: the same table, claims of the same size, and a plain Celery app's `send_task` for each row."""

from celery import Celery
from kombu.entity import Queue
from sqlalchemy import text

from bench import dispatch_ours, dispatch_publish, dispatch_side
from bench.dispatch_side import Gate, Place, Share
from worker_app import queues

CLAIM = text(
    "SELECT id, task, queue, kwargs FROM task_outbox WHERE available_at <= now() "
    "ORDER BY available_at, id LIMIT 25 FOR UPDATE SKIP LOCKED"
)
DELETE = text("DELETE FROM task_outbox WHERE id = ANY (CAST(:ids AS bigint[]))")


def plain_app(url: str) -> Celery:
    """A producer on stock settings."""
    app = Celery("bench", broker=url)
    app.conf.update(task_queues=[Queue(queue) for queue in queues.ALL_QUEUES], task_default_queue=queues.DEFAULT_QUEUE)
    return app


def work(place: Place, gate: Gate) -> Share:
    """Claim, send each, forget; until nothing is owed."""
    app, sent = plain_app(place.redis_url), 0
    with app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1)
    with dispatch_ours.opened(place) as postgres:
        start = gate()
        while True:
            with postgres.transaction() as tx:
                rows = tx.execute(CLAIM).all()
                for row in rows:
                    app.send_task(
                        f"worker_app.tasks.{row.task}", kwargs=row.kwargs, queue=row.queue, ignore_result=True
                    )
                tx.execute(DELETE, {"ids": [row.id for row in rows]})
            sent += len(rows)
            if not rows:
                return start.share(sent, postgres.longest_ms)


if __name__ == "__main__":
    dispatch_side.main(dispatch_ours.seed, work, dispatch_publish.found)
