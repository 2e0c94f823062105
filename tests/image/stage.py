"""A stage for one test of the image: a Redis database and a Postgres database of its own, and roles that run on them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import redis

from tests.containers import IMAGE, Container, Yard, docker
from tests.seed import column
from worker_app.store.postgres import Postgres

PASSWORD = "p@ss:w/rd%"
QUOTED = quote(PASSWORD, safe="")
TEMPLATE = "template_of_tests"
WRITABLE = "/var/tmp/dev-hops"  # the folder of the mirrors
HARDENED = (
    "--read-only",
    "--tmpfs=/tmp",
    "--tmpfs=/run/worker",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--health-interval=1s",  # of the image's own check; a test does not wait for its 30 s
)
SHORT_TIMES = {
    "OUTBOX_POLL_SECONDS": "1",
    "BATCH_LEASE_SECONDS": "8",
    "RESCUE_INTERVAL_SECONDS": "1",
    "DISPATCH_INTERVAL_SECONDS": "1",
    "WORKER_SILENT_SECONDS": "5",
    "SCHEMA_WAIT_SECONDS": "30",
    "LOG_FORMAT": "text",
}


@dataclass(frozen=True, slots=True)
class Stores:
    """The servers of the session, each behind a password that a URL has to quote."""

    redis: Container
    postgres: Container

    def redis_url(self, number: int, host: str | None = None) -> str:
        """The address of one of its 16 databases, for containers unless a host is given."""
        return f"redis://:{QUOTED}@{host or self.redis.name}:6379/{number}"

    def database_url(self, name: str, host: str | None = None) -> str:
        """The address of a database, for containers unless a host is given."""
        return f"postgresql://dev-hops:{QUOTED}@{host or self.postgres.name}:5432/{name}"

    def statement(self, sql: str, database: str = "postgres") -> None:
        """Run one statement as the owner of everything."""
        self.postgres.exec("psql", "-qXh", "/tmp", "-U", "dev-hops", "-d", database, "-c", sql)


@dataclass(frozen=True, slots=True)
class Stage:
    """What one test works with. `redis` and `postgres` look at the stores from outside."""

    yard: Yard
    stores: Stores
    number: int
    redis: redis.Redis
    postgres: Postgres
    started: list[Container] = field(default_factory=list)

    def environment(self, **changes: str) -> dict[str, str]:
        """The environment of a role."""
        addresses = {
            "DATABASE_URL": self.stores.database_url(f"test_{self.number}"),
            "REDIS_URL": self.stores.redis_url(self.number),
        }
        return {**addresses, **SHORT_TIMES, **changes}

    def role(self, *command: str, options: Sequence[str] = HARDENED, **changes: str) -> Container:
        """Start a role as compose and the chart do: read-only, without privileges, two folders in memory."""
        name = command[0] if command else "worker"
        made = self.yard.run(IMAGE, *command, name=name, environment=self.environment(**changes), options=options)
        self.started.append(made)
        return made

    def worker(self, *command: str, options: Sequence[str] = HARDENED, **changes: str) -> Container:
        """A worker that takes work."""
        made = self.role(*command, options=options, **changes)
        made.wait_for_log(" ready.")
        return made

    def depth(self, queue: str) -> int:
        """Messages that are ready, as redis-cli in the Redis container counts them."""
        command = ("redis-cli", "--no-auth-warning", "-a", PASSWORD, "-n", str(self.number), "llen", queue)
        return int(self.stores.redis.exec(*command))

    def unacked(self) -> int:
        """Messages that are taken and not settled."""
        return int(self.redis.hlen("unacked"))

    def column(self, sql: str, **given: Any) -> list[object]:
        """The first column of a query on the stage's database."""
        return list(column(self.postgres, sql, **given))


def opened(yard: Yard, stores: Stores, number: int) -> Iterator[Stage]:
    """A stage on the databases of this number; the roles that it started end with it."""
    stores.statement(f'CREATE DATABASE "test_{number}" TEMPLATE "{TEMPLATE}"')
    client = redis.Redis.from_url(stores.redis_url(number, stores.redis.address))
    client.flushdb()
    address = stores.database_url(f"test_{number}", stores.postgres.address).replace("://", "+psycopg2://", 1)
    postgres = Postgres(address, pool_size=4)
    made = Stage(yard, stores, number, client, postgres)
    try:
        yield made
    finally:
        if names := [container.name for container in made.started]:
            docker("rm", "--force", "--volumes", *names)
        postgres.close()
        client.close()
        stores.statement(f'DROP DATABASE "test_{number}" WITH (FORCE)')
