"""The app of the service with tasks that do what no task may: they put the credential that they hold into whatever they can.

Started as `celery --app tests.integration.worker.leaking worker …`.
"""

import base64
import logging
import threading
from typing import Any
from uuid import UUID

import structlog

from worker_app import runtime
from worker_app.celery import app as app

log = structlog.get_logger(__name__)


def _token(org_id: str, credential_id: str) -> Any:
    return runtime.current().connections.resolve(UUID(org_id), UUID(credential_id), None).token  # type: ignore[union-attr]


@app.task(name="tests.leak", ignore_result=False)  # type: ignore[untyped-decorator]
def leak(*, org_id: str, credential_id: str) -> None:
    """Log it, lose it in a thread, and fail with it in message, cause, attribute and locals."""
    held = _token(org_id, credential_id)
    token = held.reveal()
    headers = {"Authorization": f"Bearer {token}", "X-Other": [token]}
    basic = base64.b64encode(f"somebody:{token}".encode()).decode()
    log.warning("leak.logged", headers=headers, token=token, held=held, basic=basic)
    logging.getLogger("foreign").warning("sent %r with %s", headers, token)
    logging.getLogger("foreign").warning("%d", token)  # a record that cannot be written
    thread = threading.Thread(target=_fail, args=(token,))
    thread.start()
    thread.join(10)
    try:
        _fail(basic)
    except RuntimeError as error:
        fault = ValueError(f"refused: {token}", headers)
        fault.add_note(f"with {token}")
        fault.request = headers  # type: ignore[attr-defined]
        raise fault from error


@app.task(name="tests.leak_retried", ignore_result=False, bind=True, max_retries=1)  # type: ignore[untyped-decorator]
def leak_retried(self: Any, *, org_id: str, credential_id: str) -> None:
    """Be tried again with it as the reason."""
    held = _token(org_id, credential_id)
    raise self.retry(exc=ValueError(f"again with {held.reveal()}"), countdown=0)


@app.task(name="tests.leak_returned", ignore_result=False)  # type: ignore[untyped-decorator]
def leak_returned(*, org_id: str, credential_id: str) -> list[object]:
    """Return it."""
    held = _token(org_id, credential_id)
    _kept.append(held)  # what is returned is stored when the task has ended
    return [{"token": held.reveal()}, f"glpat-{'a' * 20}"]


_kept: list[object] = []


def _fail(word: str) -> None:
    raise RuntimeError(f"failed with {word}")
