"""Examination: the schema of every configured store, with all that knows it: ledger, files, Alembic, ClickHouse itself."""

from worker_app.migrate import clickhouse, status, steps
from worker_app.migrate.status import Status, Witness
from worker_app.settings import Settings
from worker_app.store.postgres import Postgres


def examine(postgres: Postgres, settings: Settings) -> tuple[Status, ...]:
    """How each store stands, Postgres first. Raises StoreAway when one does not answer, StoreRefused when it lets nobody in."""
    witnesses: dict[str, Witness] = {"postgres": status.alembic_agrees}
    if settings.clickhouse_url is not None:
        witnesses["clickhouse"] = clickhouse.agrees(settings.clickhouse_url.get_secret_value())
    return status.examine(postgres, steps.configured(settings), witnesses)
