"""What ClickHouse itself knows of its schema: one row for each step, so that an emptied or restored one is seen.

The ledger in Postgres decides; this table is its witness. Only the migration job writes it.
"""

from worker_app import errors
from worker_app.store.clickhouse import UNKNOWN_DATABASE, ClickHouse
from worker_app.store.schema import Step

UNKNOWN_TABLE = 60
TABLE = """
CREATE TABLE IF NOT EXISTS schema_steps (number UInt32, name String, checksum String, applied_at DateTime64(3, 'UTC'))
ENGINE = ReplacingMergeTree(applied_at) ORDER BY number
"""


def create(client: ClickHouse) -> None:
    """Make the table where it does not stand yet."""
    client.command(TABLE)


def checksums(client: ClickHouse) -> dict[int, bytes]:
    """The checksum of every step by number; empty where the table or the database is missing."""
    try:
        rows = client.query("SELECT number, checksum FROM schema_steps FINAL")
    except errors.StoreRefused as error:
        if error.code not in (UNKNOWN_TABLE, UNKNOWN_DATABASE):
            raise
        return {}
    return {number: bytes.fromhex(checksum) for number, checksum in rows}


def stamp(client: ClickHouse, step: Step) -> None:
    """Write that a step was applied; writing it again changes nothing."""
    client.command(
        "INSERT INTO schema_steps SELECT {number:UInt32}, {name:String}, {checksum:String}, now64(3, 'UTC')",
        {"number": step.number, "name": step.name, "checksum": step.checksum.hex()},
    )
