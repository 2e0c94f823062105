"""The app of the service, which tells of every variable of its environment that is written once its worker is ready. Started as
`celery --app tests.integration.worker.watched worker …`; the first that it tells of is one that it writes itself.
"""

import json
import os
import sys
from typing import Any

from celery.signals import worker_ready

from worker_app.celery import app as app

OWN = "WRITTEN_BY_THE_TEST"


def _tell(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("os.putenv", "os.unsetenv"):
        sys.stderr.write(json.dumps({"event": "environment.written", "name": os.fsdecode(arguments[0])}) + "\n")
        sys.stderr.flush()


@worker_ready.connect(weak=False)  # type: ignore[untyped-decorator]
def _watch(**_: object) -> None:
    sys.addaudithook(_tell)
    os.environ[OWN] = "yes"
