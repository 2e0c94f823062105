"""The schema: what holds for every table of records, whoever adds the next one, and that each revision can be taken back."""

from collections.abc import Sequence

import pytest
from alembic import command
from sqlalchemy import create_engine

from tests.seed import column
from worker_app.migrate import steps
from worker_app.migrate.postgres import configuration
from worker_app.store import schema, shapes
from worker_app.store.postgres import Postgres

pytestmark = pytest.mark.integration

TABLES = [shape.table for shape in shapes.SHAPES]
CATALOGUE = (
    "SELECT concat_ws(' ', table_name, column_name, data_type, is_nullable, column_default) FROM information_schema.columns "
    "WHERE table_schema = 'public' UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' "
    "UNION ALL SELECT concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace ORDER BY 1"
)


def test_every_table_of_records_goes_with_its_organisation(postgres: Postgres) -> None:
    found = column(
        postgres,
        "SELECT conrelid::regclass::text FROM pg_constraint "
        "WHERE contype = 'f' AND confrelid = 'orgs'::regclass AND confdeltype = 'c' AND conkey[1] = 1",
    )
    assert set(TABLES) <= set(found)


def test_every_identity_of_a_provider_is_text(postgres: Postgres) -> None:
    found = column(
        postgres,
        "SELECT DISTINCT data_type FROM information_schema.columns "
        "WHERE table_schema = 'public' AND column_name LIKE '%ext\\_id'",
    )
    assert found == ["text"]


def test_every_number_of_a_provider_has_64_bits(postgres: Postgres) -> None:
    found = column(
        postgres,
        "SELECT DISTINCT data_type FROM information_schema.columns WHERE table_name = ANY (:tables) "
        "AND column_name IN ('number', 'reverts_number', 'additions', 'deletions')",
        tables=TABLES,
    )
    assert found == ["bigint"]


def test_revisions_go_up_down_and_up_again(empty_database_url: str) -> None:
    opened = Postgres(empty_database_url, pool_size=1)
    seen: list[Sequence[object]] = []
    for target in ("head", "base", "head"):
        with create_engine(empty_database_url).connect() as connection:
            schema.create_ledger(connection)
            connection.commit()
            config = configuration(steps.postgres())
            config.attributes["connection"] = connection
            (command.downgrade if target == "base" else command.upgrade)(config, target)
        seen.append(column(opened, CATALOGUE))
    opened.close()
    first, between, again = seen
    assert first == again
    assert not [
        line for line in between if not str(line).startswith(("alembic_version", "schema_ledger", "CREATE UNIQUE"))
    ]
