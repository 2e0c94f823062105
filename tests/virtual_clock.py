"""A clock of Postgres that tests move: `now()` of one database, read by every statement that asks for the time.

A function `now()` stands before that of pg_catalog in the search path, so the engine runs on real SQL and real rows while a
day goes by in seconds. Column defaults keep the real clock: they were bound when the table was made.
"""

from datetime import datetime, timedelta

from sqlalchemy import text

from worker_app.store.postgres import Postgres

SETUP = """
CREATE SCHEMA virtual;
CREATE TABLE virtual.clock (shift interval NOT NULL);
INSERT INTO virtual.clock VALUES ('0');
CREATE FUNCTION virtual.now() RETURNS timestamptz LANGUAGE sql STABLE
  AS 'SELECT pg_catalog.now() + (SELECT shift FROM virtual.clock)';
"""


class VirtualClock:
    """Moves the clock of one database. Connections that are made after it see it."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        with postgres.transaction() as tx:
            tx.execute(text(SETUP))
            name = tx.execute(text("SELECT current_database()")).scalar_one()
            tx.execute(text(f'ALTER DATABASE "{name}" SET search_path = virtual, pg_catalog, public'))
        postgres.engine.dispose()

    def now(self) -> datetime:
        """The time that the database tells."""
        return self._postgres.now()

    def go_to(self, moment: datetime) -> None:
        """Make it `moment`; the clock goes on from there."""
        self.move(moment - self.now())

    def move(self, by: timedelta) -> None:
        """Let `by` go by at once."""
        with self._postgres.transaction() as tx:
            tx.execute(text("UPDATE virtual.clock SET shift = shift + :by"), {"by": by})
