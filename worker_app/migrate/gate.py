"""The gate at the start: no role goes on with a schema that it cannot use, however its process was started.

Only the migration job changes a schema. A Kubernetes Job holds back no Deployment, so the process itself has to look.
"""

import time
from collections.abc import Callable, Sequence

from worker_app import errors
from worker_app.migrate import status, steps
from worker_app.migrate.status import Status
from worker_app.migrate.steps import Series
from worker_app.settings import Settings
from worker_app.store.postgres import Postgres

LOOK_SECONDS = 2.0


def await_schema(chosen: Settings, report: Callable[[str], None]) -> None:
    """Return once every configured store can be used, by a connection that is closed again.

    Looks for SCHEMA_WAIT_SECONDS, then raises SchemaBehind or StoreAway (exit 75); raises SchemaAhead (exit 78) at once.
    """
    postgres = Postgres(chosen.require_database(), pool_size=1, application_name="dev-hops-start")
    wanted = steps.configured(chosen)
    try:
        require_current(postgres, wanted, chosen.schema_wait_seconds, report)
    finally:
        postgres.close()


def require_current(
    postgres: Postgres,
    wanted: Sequence[Series],
    wait_seconds: float,
    report: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return once the schema of every store in `wanted` can be used; look again until `wait_seconds` are over.

    Raises SchemaBehind with both numbers and the remedy, StoreAway when Postgres did not answer to the end (both exit 75),
    SchemaAhead (exit 78) when waiting cannot help. `report` gets each new reason to wait, and a schema that is ahead.
    """
    deadline = time.monotonic() + wait_seconds
    said = ""
    while True:
        fault = _look(postgres, wanted, report)
        if fault is None:
            return
        if time.monotonic() >= deadline:
            raise fault
        if str(fault) != said:
            said = str(fault)
            report(said)
        sleep(min(LOOK_SECONDS, max(0.1, deadline - time.monotonic())))


def _look(postgres: Postgres, wanted: Sequence[Series], report: Callable[[str], None]) -> errors.TransientError | None:
    """Why to wait, or nothing where the role may go on."""
    try:
        seen = status.look(postgres, wanted)
    except errors.StoreAway as error:
        return error
    if unusable := _messages(seen, "unusable"):
        raise errors.SchemaAhead(unusable)
    if behind := _messages(seen, "behind"):
        return errors.SchemaBehind(behind)
    if ahead := _messages(seen, "ahead"):
        report(ahead)
    return None


def _messages(seen: Sequence[Status], state: str) -> str:
    return "; ".join(item.message for item in seen if item.state == state)
