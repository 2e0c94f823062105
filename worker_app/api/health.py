"""Health: whether this process turns, and whether it can serve. Both are open and tell no address."""

from collections.abc import Sequence
from dataclasses import dataclass

import redis
import structlog

from worker_app import errors
from worker_app.api import deadline
from worker_app.migrate import status
from worker_app.migrate.status import USABLE
from worker_app.migrate.steps import Series
from worker_app.store.postgres import Postgres

POSTGRES_SECONDS = 1.0
REDIS_SECONDS = 0.5  # both together stay below the 3 s that a probe waits

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Part:
    """One thing that serving needs or likes to have. The field names are public."""

    ok: bool
    detail: str


class Readiness:
    """Looks at the stores, whose schemas are to be `wanted`. Redis is shown and does not decide: without it the door still reads
    and takes orders.
    """

    def __init__(self, postgres: Postgres, client: redis.Redis, wanted: Sequence[Series]) -> None:
        self._postgres = postgres
        self._wanted = wanted
        self._redis = client
        self._was_ready = True

    def look(self) -> tuple[bool, dict[str, Part]]:
        """The verdict and its parts, at most 1.5 s later."""
        parts = {**self._look_at_postgres(), "redis": self._look_at_redis()}
        is_ready = parts["postgres"].ok and parts["schema"].ok
        if is_ready != self._was_ready:
            self._was_ready = is_ready
            log.warning("api.readiness", ready=is_ready, **{name: part.detail for name, part in parts.items()})
        return is_ready, parts

    def _look_at_postgres(self) -> dict[str, Part]:
        try:
            with deadline.within(POSTGRES_SECONDS, "Postgres"):
                seen = status.look(self._postgres, self._wanted)
        except errors.StoreAway:
            return {"postgres": Part(False, "does not answer"), "schema": Part(False, "unknown: Postgres is away")}
        return {"postgres": Part(True, "answers"), "schema": _schema(seen)}

    def _look_at_redis(self) -> Part:
        try:
            with deadline.within(REDIS_SECONDS, "Redis"):
                self._redis.ping()
        except (errors.StoreAway, redis.RedisError):
            return Part(False, "does not answer; nothing is lost, only late")
        return Part(True, "answers")


def _schema(seen: Sequence[status.Status]) -> Part:
    return Part(all(item.state in USABLE for item in seen), "; ".join(item.message for item in seen))
