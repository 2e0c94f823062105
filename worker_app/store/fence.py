"""A fenced lock in Redis: one holder at a time, a number that grows with each holder, and no way to hold it by mistake.

For what must be one of a kind (beat). Any Redis error means "not the holder". The owner is a fresh uuid, never a host name.
"""

import time
from uuid import uuid4

import redis
import structlog

TTL_SECONDS = 15.0
MARGIN_SECONDS = 1.0  # the holder stops this long before its lock ends, by its own monotonic clock

RENEW = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
"""
RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""

log = structlog.get_logger(__name__)


class Fence:
    """The lock called `name`. Call `hold` often: it takes the lock, renews it, or says that somebody else has it."""

    def __init__(self, client: redis.Redis, name: str, ttl_seconds: float = TTL_SECONDS) -> None:
        self._client = client
        self._key = f"dev-hops/{name}"
        self._epoch_key = f"dev-hops/{name}/epoch"
        self._owner = str(uuid4())
        self._ttl_seconds = ttl_seconds
        self._held_until = 0.0
        self.epoch = 0  # of this holder; grows by one with each take-over

    def hold(self) -> bool:
        """Take or renew the lock; whether this process may act until the next call."""
        asked_at, ttl_ms = time.monotonic(), int(self._ttl_seconds * 1000)
        self._held_until = 0.0
        try:
            if self._renew(ttl_ms) or self._take(ttl_ms):
                self._held_until = asked_at + self._ttl_seconds - MARGIN_SECONDS
        except redis.RedisError as error:
            log.warning("fence.redis_away", lock=self._key, error=type(error).__name__)
        return self.is_held()

    def _renew(self, ttl_ms: int) -> bool:
        """Push the end of our lock out; a number whose lock is gone is forgotten, since others may have counted on."""
        if not self.epoch:
            return False
        if self._client.eval(RENEW, 1, self._key, self._owner, ttl_ms):
            return True
        log.warning("fence.lost", lock=self._key, epoch=self.epoch)
        self.epoch = 0
        return False

    def _take(self, ttl_ms: int) -> bool:
        if not self._client.set(self._key, self._owner, nx=True, px=ttl_ms):
            return False
        self.epoch = int(self._client.incr(self._epoch_key))
        log.info("fence.taken", lock=self._key, epoch=self.epoch)
        return True

    def is_held(self) -> bool:
        """Whether the lock is still ours, by the local monotonic clock alone."""
        return time.monotonic() < self._held_until

    def release(self) -> None:
        """Let the next one have it at once."""
        self._held_until = 0.0
        if self.epoch:
            try:
                self._client.eval(RELEASE, 1, self._key, self._owner)
            except redis.RedisError as error:
                log.warning("fence.redis_away", lock=self._key, error=type(error).__name__)


def is_taken(client: redis.Redis, name: str) -> bool:
    """Whether anybody holds the lock. Raises redis-py's errors."""
    return bool(client.exists(f"dev-hops/{name}"))


def is_overtaken(client: redis.Redis, name: str, epoch: int) -> bool:
    """Whether the lock has had a holder after number `epoch`. A Redis that is away knows of none."""
    try:
        return epoch < current_epoch(client, name)
    except redis.RedisError as error:
        log.warning("fence.redis_away", lock=f"dev-hops/{name}", error=type(error).__name__)
        return False


def current_epoch(client: redis.Redis, name: str) -> int:
    """The number of the lock's newest holder, 0 before the first. Raises redis-py's errors."""
    value = client.get(f"dev-hops/{name}/epoch")
    return int(value) if isinstance(value, bytes | str) else 0
