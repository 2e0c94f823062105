"""Beat: the periodic table and the fenced scheduler that sends it. It only triggers; the key (job, slot) decides.

One beat holds the lock; another waits and sends nothing. No schedule file: the table is code, and a restarted beat ticks at
once. Two beats, or none, cannot make a double or a loss.
"""

import signal
import time
from datetime import UTC, datetime
from typing import Any

import redis
import structlog
from celery import Celery
from celery.beat import ScheduleEntry, Scheduler
from celery.schedules import schedule

from worker_app import queues, runtime, telemetry
from worker_app.migrate import gate
from worker_app.settings import Settings, load
from worker_app.store.fence import Fence
from worker_app.worker import boot, publish
from worker_app.worker.heartbeat import ProbeFiles

MAX_LOOP_SECONDS = 5.0  # a tick at least this often: the lock lives 15 s, the probe looks at the tick file
END_SECONDS = 0.5  # between two looks at whether a signal has asked for the end
PRUNE_SECONDS = 24 * 3600.0
MOST_WAITING = 50  # messages in the scheduler queue above which beat adds none
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)

log = structlog.get_logger(__name__)


def periodic_table(settings: Settings) -> dict[str, float]:
    """What beat sends: task -> seconds between two. None expires: that would compare the clocks of two hosts."""
    return {
        "dispatch_scheduled_syncs": float(settings.dispatch_interval_seconds),
        "rescue": float(settings.rescue_interval_seconds),
        "prune": PRUNE_SECONDS,
    }


class FencedScheduler(Scheduler):
    """Celery's scheduler in memory, silent unless it holds the lock."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._settings = load()
        self._fence = Fence(runtime.redis_client(self._settings.redis_url.get_secret_value(), connections=2), "beat")
        self._broker = runtime.redis_client(self._settings.broker_url, connections=2)
        self._clock = publish.RedisClock(self._broker)
        self._files = ProbeFiles(self._settings.run_dir, "beat")
        self._is_over = False
        self._next_tick = float("-inf")
        kwargs["max_interval"] = MAX_LOOP_SECONDS
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        """Wait for the schema, take the table, every entry due at once, and the signals, and begin to serve telemetry.

        Celery's banner makes a scheduler that never gets here. It is no handler of a signal: Celery drops the errors of those.
        """
        with boot.refusals():
            gate.await_schema(self._settings, boot.warn)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._end)
        telemetry.serve(self._settings.metrics_host, self._settings.metrics_port, telemetry.BEAT)
        self.app.enqueue_clock = self._clock.about_now
        app: Celery = self.app
        self.data = {
            name: ScheduleEntry(
                name=name,
                task=f"worker_app.tasks.{name}",
                schedule=schedule(seconds, app=app),
                last_run_at=LONG_AGO,
                app=app,
            )
            for name, seconds in periodic_table(self._settings).items()
        }

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Send what is due if the lock is ours; returns the seconds to the next look. Raises SystemExit after a signal."""
        if self._is_over:
            raise SystemExit
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + self._send_due(*args, **kwargs)
        return min(END_SECONDS, max(0.0, self._next_tick - time.monotonic()))

    def _end(self, *_: Any) -> None:
        """End before the next tick. Celery's own handler raises wherever the program stands; in a destructor that is dropped,
        and beat would send on after it gave its lock away.
        """
        self._is_over = True

    def _send_due(self, *args: Any, **kwargs: Any) -> float:
        """One tick; returns the seconds to the next."""
        self._files.alive()
        telemetry.BEAT_LAST_TICK.set(time.time())
        is_held = self._fence.hold()
        telemetry.BEAT_LEADER.set(int(is_held))
        if not is_held:
            return 1.0
        self._clock.refresh()
        return min(float(super().tick(*args, **kwargs)), MAX_LOOP_SECONDS)

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **kwargs: Any) -> Any:
        """Send one entry with the number of this holder, so that a worker can drop what an old one sent."""
        if not self._fence.is_held() or self._is_flooded():
            return None
        entry.kwargs = {"epoch": self._fence.epoch}
        return super().apply_async(entry, producer=producer, advance=advance, **kwargs)

    def _is_flooded(self) -> bool:
        """Whether nobody has taken what was sent before: one more tick would tell the workers nothing new."""
        try:
            depth = self._broker.llen(queues.TASK_QUEUES["rescue"])
        except redis.RedisError:
            return False  # sending will say so, and try again
        if is_flooded := int(depth) >= MOST_WAITING:
            log.warning("beat.nobody_consumes", queue=queues.TASK_QUEUES["rescue"], ready=depth)
        return is_flooded

    def close(self) -> None:
        """Let the next beat begin at once."""
        self._fence.release()
        super().close()
