"""The Celery app: `celery --app worker_app worker` finds it. Built from the settings when this file is imported.

A process whose settings are wrong ends here with every fault in one message, before Celery starts anything.
"""

import sys

from celery_utils import create_worker_app
from worker_app import core_dumps, errors, queues
from worker_app import settings as environment
from worker_app.worker import promises, redaction
from worker_app.worker.boot import Boot, configure_logs
from worker_app.worker.guarded_app import GuardedApp

core_dumps.forbid()
try:
    settings = environment.load()
except errors.SettingsError as error:
    print(error, file=sys.stderr)  # noqa: T201 - no log is configured yet
    raise SystemExit(78) from None

app = create_worker_app(
    "worker_app",
    settings.profile,
    broker_url=settings.broker_url,
    result_backend=settings.result_backend,
    queues=queues.ALL_QUEUES,
    default_queue=queues.DEFAULT_QUEUE,
    include=["worker_app.tasks"],
    settings={
        "beat_scheduler": "worker_app.beat.FencedScheduler",  # also where `celery beat` is started without a word
        "task_routes": {f"worker_app.tasks.{task}": {"queue": queue} for task, queue in queues.TASK_QUEUES.items()},
    },
    app_class=GuardedApp,
)
redaction.install(app)
configure_logs(settings)
kept = promises.keep(
    app,
    settings.profile,
    drain_seconds=settings.worker_drain_seconds,
    silent_seconds=settings.worker_silent_seconds,
    log_format=settings.log_format,
)
Boot(app, settings, kept).connect()
