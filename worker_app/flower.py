"""The app that Flower runs on: the broker and nothing else. `celery --app worker_app.flower flower` finds it."""

import sys

from celery_utils import create_broker_app
from worker_app import core_dumps, errors, queues
from worker_app import settings as environment

core_dumps.forbid()
try:
    settings = environment.load()
except errors.SettingsError as error:
    print(error, file=sys.stderr)  # noqa: T201 - no log is configured yet
    raise SystemExit(78) from None

app = create_broker_app("worker_app", broker_url=settings.broker_url, queues=queues.ALL_QUEUES)
