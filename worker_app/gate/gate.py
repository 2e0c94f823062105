"""The gate: leave to send one request, or the reason why not. After one worker is told to wait, none of the fleet calls.

Needs Redis and `errors`; it knows no settings, no store and no Celery, reads no environment and starts no thread. All workers
share what stands in Redis; what each knows of it stands in its windows, so that a closed key costs no trip.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from queue import LifoQueue
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from worker_app.gate.asking import BULK_OUTAGE_SECONDS, Asking
from worker_app.gate.book import Seen
from worker_app.gate.key import WHOLE_KEY, Decision, GateKey, GateState, Priority, Reason
from worker_app.gate.knowledge import Knowledge
from worker_app.gate.leases import Leases
from worker_app.gate.line import Lines
from worker_app.gate.listener import Listener
from worker_app.gate.outage import Mode, Outage
from worker_app.gate.permits import Permit, Permits
from worker_app.gate.policies import POLICIES
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.redis_book import RedisBook
from worker_app.gate.refusal import reason_text
from worker_app.gate.windows import Windows

YEAR_SECONDS = 366 * 86_400.0
REDIS_TIMEOUT_SECONDS = 0.15  # a gate that waits longer for Redis than for the provider would be no help


class Gate:
    """The gate of one process. Its methods may be called by any number of threads or greenlets at once.

    `slots`: how many tasks this process runs at once; at most a quarter of them sleeps here (None: no bound).
    `outage`: what happens while Redis is away: `local` goes on within this process's share, `closed` defers everything,
    `open` sends where no window is known. `workers` tells how many processes share the limits then.
    `most_sleep`: seconds that one call may sleep at most, whatever its `max_wait`.
    `is_stopping` is asked twice a second by whoever sleeps; once it says yes, the gate is stopped: see `stop`.
    """

    def __init__(
        self,
        client: redis.Redis,
        *,
        policies: Mapping[str, ProviderPolicy] = POLICIES,
        listener: Listener | None = None,
        outage: Mode = "local",
        workers: Callable[[], int] | None = None,
        slots: int | None = None,
        most_sleep: float = 5.0,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._client = client
        self._mode = outage
        self._most_sleep = most_sleep
        self._listener = listener or Listener()
        self._book = RedisBook(client, on_trip=self._listener.trip)
        self._lines, leases, windows = Lines(is_stopping), Leases(), Windows()
        away = Outage(self._book, windows=windows, leases=leases, listener=self._listener, workers=workers)
        self._knowledge = Knowledge(policies, windows, away, self._listener)
        permits = Permits(self._knowledge, leases, self._lines.freed)
        self._asking = Asking(self._knowledge, permits, leases, self._lines, mode=outage, slots=slots)

    @classmethod
    def from_url(
        cls, url: str, *, slots: int | None = 20, queue_class: type[Any] = LifoQueue, **options: Any
    ) -> "Gate":
        """A gate with a client of its own, whose every call ends within 0.15 s. Under gevent give gevent's LifoQueue."""
        pool = redis.BlockingConnectionPool.from_url(
            url,
            max_connections=max(4, math.ceil((slots or 20) / 4)),
            timeout=REDIS_TIMEOUT_SECONDS,
            queue_class=queue_class,
            socket_timeout=REDIS_TIMEOUT_SECONDS,
            socket_connect_timeout=REDIS_TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,  # the newer one takes two more trips for each new connection
        )
        return cls(redis.Redis.from_pool(pool), slots=slots, **options)

    def close(self) -> None:
        """End every sleep and the connections."""
        self.stop()
        self._client.close()

    def stop(self) -> None:
        """End every sleep in the gate now: whoever slept is deferred. For a worker that drains."""
        self._lines.stop()

    def check(self, key: GateKey, bucket: str = "core") -> Decision:
        """Whether the bucket is open. No side effect, never raises; a window that is known costs no trip."""
        closed = self._knowledge.look(key, (bucket,))
        if closed is not None:
            window, left = closed
            return Decision(False, left, Reason.WINDOW, window.bucket, window.text, window.fails)
        if self._mode == "closed" and self._knowledge.outage.is_local:
            return Decision(False, BULK_OUTAGE_SECONDS, Reason.OUTAGE, bucket, "the gate's Redis is away")
        return Decision(True, bucket=bucket)

    def backoff(self, key: GateKey, seconds: float, *, bucket: str = WHOLE_KEY, reason: str, detail: str = "") -> float:
        """Close a bucket of the key for everyone, for `seconds` or for longer where it is closed already.

        Returns the seconds that are left. Raises ValueError for a duration that is none, or longer than a year, and for a
        bucket that the provider's policy does not have.
        """
        if not 0 <= seconds <= YEAR_SECONDS:
            raise ValueError(f"seconds is {seconds!r}: give how long the window lasts, 0 to a year")
        self._knowledge.require_bucket(key, bucket)
        was_closed, text = self._knowledge.look(key, (bucket,)) is not None, reason_text(reason, detail)
        self._knowledge.windows.note(key, bucket, seconds, text)
        self._knowledge.sync(key)
        closed = self._knowledge.closed(key, (bucket,))
        left = 0.0 if closed is None else closed[1]
        if closed is not None:
            self._listener.window("extended" if was_closed else "opened", key, bucket, seconds=left, text=text)
        return left

    @contextmanager
    def slot(
        self,
        key: GateKey,
        endpoint: str,
        *,
        cost: float = 1,
        priority: Priority = Priority.SYNC,
        max_wait: float = 5.0,
        retry: bool = False,
    ) -> Iterator[Permit]:
        """Leave for one request, for the time of the block. Sleeps at most `max_wait` seconds for it.

        Raises RateLimited when that is not enough, GateUnavailable when Redis is away and the work has to stand back,
        ValueError for an endpoint that the policy does not know. A block that is left without `observe` teaches nothing.
        """
        with self.permit(key, endpoint, cost=cost, priority=priority, max_wait=max_wait, retry=retry) as permit:
            yield permit

    def permit(
        self,
        key: GateKey,
        endpoint: str,
        *,
        cost: float = 1,
        priority: Priority = Priority.SYNC,
        max_wait: float = 5.0,
        retry: bool = False,  # noqa: ARG002 - a second try costs no more than a first one yet
    ) -> Permit:
        """What `slot` opens; the caller has to end it. Raises as `slot` does."""
        if not cost > 0:
            raise ValueError(f"cost is {cost!r}: give what the request costs, in the provider's unit, more than 0")
        return self._asking.permit(key, endpoint, cost, priority, min(max_wait, self._most_sleep))

    def states(self) -> list[GateState]:
        """What is known of every bucket of every key. Raises redis.RedisError."""
        return [
            state for key, seen in self._book.every_state() for state in _states(key, seen, self._knowledge.most(key))
        ]

    def clear(self, key: GateKey, bucket: str = WHOLE_KEY, *, by: str) -> int:
        """Open a bucket, `*` the whole key, although its window is not over; who did it is told to the listener.

        Returns how many windows were open. Raises redis.RedisError: nothing was cleared, and whoever knows a window keeps it.
        """
        try:
            count = self._book.clear(key, bucket)
        except redis.RedisError as error:
            raise redis.ConnectionError(
                f"nothing of {key.provider} on {key.host} was cleared, for the gate's Redis is away: {error}"
            ) from error
        self._knowledge.sync(key)
        self._listener.window("cleared", key, bucket, by=by)
        return count


def _states(key: GateKey, seen: Seen, most: int | None) -> Iterator[GateState]:
    windows = {bucket: (left, text) for bucket, left, text, _ in seen.windows()}
    buckets = {name.partition(":")[2] for name in seen.fields if name.startswith(("u:", "L:"))}
    learned = int(seen.fields.get("conc", (most or 0) * 1000)) // 1000
    for bucket in sorted(buckets | {WHOLE_KEY}):
        left, text = windows.get(bucket, (0, ""))
        reason, _, detail = text.partition(": ")
        reset = seen.number("W", bucket)
        yield GateState(
            key=key,
            bucket=bucket,
            reason=reason,
            detail=detail,
            retry_in=left / 1000,
            limit=seen.number("L", bucket),
            remaining=seen.number("R", bucket),
            reset_in=None if reset is None else max(0.0, (reset - seen.now_ms) / 1000),
            conc=learned if most is None else min(most, learned),
            live=seen.live,
        )
