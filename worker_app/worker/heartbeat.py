"""Heartbeat: the probe files of this process, and its presence in Redis that tells others what it consumes and runs.

`alive` is touched by a thread (a greenlet in a patched process), so a hub that stands still lets it age; and the watchdog
lets it age in a worker that turns but takes nothing of what waits for it. `ready` stands from the first message on until a
drain. Presence has a short life: a killed worker vanishes by itself.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import redis
import structlog

from worker_app import queues

BEAT_SECONDS = 5.0
PRESENCE_SECONDS = 30
CUT_OFF_SECONDS = 30.0
WATCHDOG_SECONDS = 300.0  # default of WORKER_WATCHDOG_SECONDS
UNWATCHED_SECONDS = 60.0  # a longer gap between two looks, as of a stopped process, says nothing about the time between
ALIVE_SECONDS = 120  # the age of `alive` at which the liveness probe fails: the default of `dev-hops probe --max-age`
ROLL_CALL = resources.files("worker_app.worker").joinpath("lua/roll_call.lua").read_text()

log = structlog.get_logger(__name__)


def presence_key(node: str) -> str:
    """The Redis key that says that this node is there."""
    return f"{queues.PRESENCE_PREFIX}{node}"


class ProbeFiles:
    """The files in `folder` that the probe looks at. A folder that cannot be written costs one warning, not the worker."""

    def __init__(self, folder: Path, role: str) -> None:
        self._alive, self._ready = folder / f"{role}.alive", folder / f"{role}.ready"
        self._is_usable = True
        self._try(lambda: folder.mkdir(parents=True, exist_ok=True))
        self._try(lambda: (folder / "role").write_text(role, encoding="utf-8"))

    def alive(self) -> None:
        """Say that this process still turns."""
        self._try(self._alive.touch)

    def ready(self, *, is_ready: bool) -> None:
        """Say whether this process takes work."""
        self._try(self._ready.touch if is_ready else lambda: self._ready.unlink(missing_ok=True))

    def _try(self, act: Callable[[], object]) -> None:
        if not self._is_usable:
            return
        try:
            act()
        except OSError as error:
            self._is_usable = False
            log.warning("probe.files_unusable", folder=str(self._alive.parent), error=str(error), remedy="set RUN_DIR")


@dataclass(frozen=True, slots=True)
class Intake:
    """What a worker knows of its own taking."""

    free_slots: int  # as the pool counts them, not Celery's sets
    last_received_at: float | None  # of time.monotonic; None: nothing yet


class Watchdog:
    """Decides when a worker that turns is dead all the same: it has room, work waits, the broker answers, and it takes none.

    Only a state that held at each look counts, so a broker outage, a full pool or a drain starts the time anew.
    """

    def __init__(self, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self.idle_seconds = 0.0  # how long the state has held at the last look
        self._since: float | None = None
        self._looked_at = 0.0

    def withholds(self, now: float, intake: Intake, *, ready: int, is_draining: bool, is_redis_answering: bool) -> bool:
        """Whether `alive` is to age. `now` is of time.monotonic, `ready` counts the messages in the consumed queues."""
        was_watched = now - self._looked_at <= UNWATCHED_SECONDS
        self._looked_at = now
        if is_draining or not is_redis_answering or ready == 0 or intake.free_slots <= 0:
            self._since, self.idle_seconds = None, 0.0
            return False
        if self._since is None or not was_watched:
            self._since = now
        began_at = self._since if intake.last_received_at is None else max(self._since, intake.last_received_at)
        self.idle_seconds = now - began_at
        return self.idle_seconds >= self._most_seconds


class Heartbeat:
    """Touches the probe files and renews the presence every five seconds until it is stopped.

    `intake` is this worker's own view and `consumed` the queues it takes from; without `intake` there is no watchdog.
    `heard_of` is told how many processes all workers have together, of which this one has `processes`.
    """

    def __init__(
        self,
        files: ProbeFiles,
        client: redis.Redis,
        node: str,
        presence: Callable[[], dict[str, object]],
        *,
        intake: Callable[[], Intake] | None = None,
        consumed: Sequence[str] = (),
        watchdog_seconds: float = WATCHDOG_SECONDS,
        processes: int = 1,
        heard_of: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._client = client
        self._node = node
        self._presence = presence
        self._intake = intake
        self._consumed = tuple(consumed)
        self._watchdog = Watchdog(watchdog_seconds)
        self._processes = processes
        self._heard_of = heard_of
        self._is_withheld = False
        self._takes_work = False
        self._heard_at = time.monotonic()
        self._is_answering = True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to give signs of life."""
        self._thread.start()

    def takes_work(self, does: bool) -> None:
        """Say whether this process takes work; one whose Redis has been away for 30 seconds is not ready all the same."""
        self._takes_work = does
        self._files.ready(is_ready=does and not self._is_cut_off())

    def stop(self) -> None:
        """End, and take the presence back."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(timeout=BEAT_SECONDS)
        self.takes_work(False)
        if not self._is_answering:
            return  # the presence ends by itself; a Redis that is away must not hold up the end
        try:
            with self._client.pipeline(transaction=False) as pipe:
                pipe.delete(presence_key(self._node))
                pipe.zrem(queues.ROLL_CALL_KEY, f"{self._node}|{self._processes}")
                pipe.execute()
        except redis.RedisError as error:
            log.warning("presence.redis_away", error=type(error).__name__)

    def beat(self, now: float) -> None:
        """One turn, at `now` of time.monotonic. `alive` comes first: a slow broker must not delay it."""
        if not self._is_withheld:
            self._files.alive()
        ready = self._renew(now)
        if self._intake is not None:
            self._judge(now, self._intake(), ready)
        self.takes_work(self._takes_work)

    def _run(self) -> None:
        while True:
            self.beat(time.monotonic())
            if self._over.wait(BEAT_SECONDS):
                return

    def _renew(self, now: float) -> dict[str, int] | None:
        """Renew the presence and read what waits in each consumed queue, in one round trip; None while Redis is away."""
        try:
            with self._client.pipeline(transaction=False) as pipe:
                pipe.set(presence_key(self._node), json.dumps(self._presence()), ex=PRESENCE_SECONDS)
                pipe.eval(ROLL_CALL, 1, queues.ROLL_CALL_KEY, self._node, self._processes, PRESENCE_SECONDS)
                for queue in self._consumed:
                    pipe.llen(queue)
                _, processes, *depths = pipe.execute()
        except redis.RedisError as error:
            self._is_answering = False
            log.warning("presence.redis_away", error=type(error).__name__)
            return None
        self._heard_at, self._is_answering = now, True
        self._heard_of(processes)
        return dict(zip(self._consumed, depths, strict=True))

    def _judge(self, now: float, intake: Intake, ready: dict[str, int] | None) -> None:
        """Let `alive` age from now on, or no more; a line for each change."""
        waiting = {queue: depth for queue, depth in (ready or {}).items() if depth}
        was_withheld = self._is_withheld
        self._is_withheld = self._watchdog.withholds(
            now,
            intake,
            ready=sum(waiting.values()),
            is_draining=not self._takes_work,
            is_redis_answering=ready is not None,
        )
        if self._is_withheld and not was_withheld:
            log.critical(
                "watchdog.alive_withheld",
                reason="slots are free and messages wait, but none was received",
                queues=waiting,
                free_slots=intake.free_slots,
                seconds=round(self._watchdog.idle_seconds),
                follows=f"the liveness probe fails in {ALIVE_SECONDS} s, then the container restarts",
            )
        elif was_withheld and not self._is_withheld:
            log.warning("watchdog.alive_again", queues=waiting, free_slots=intake.free_slots)

    def _is_cut_off(self) -> bool:
        return time.monotonic() - self._heard_at > CUT_OFF_SECONDS
