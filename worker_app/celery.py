"""The Celery app: `celery --app worker_app worker` finds it. Built from the settings when this file is imported.

A process whose settings are wrong ends here with every fault in one message, before Celery starts anything.
"""

import sys
import time

from gevent import monkey
from kombu.utils import functional as kombu_functional

from celery_utils import create_worker_app
from worker_app import errors, queues
from worker_app import settings as environment
from worker_app.worker.boot import Boot, configure_logs

if monkey.is_module_patched("time"):
    # gevent reaches celery.local's proxies while it patches locks, which imports kombu before `time` is patched. kombu
    # would then sleep with the real clock while it waits for a broker, and every task, timer and heartbeat with it.
    kombu_functional.sleep = time.sleep  # type: ignore[attr-defined]

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
        "task_routes": {f"worker_app.tasks.{task}": {"queue": queue} for task, queue in queues.TASK_QUEUES.items()}
    },
)
configure_logs(settings)
Boot(app, settings, settings.profile).connect()
