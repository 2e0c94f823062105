"""Autoscaler: the slots of a gevent worker follow its work at once, and go back to the minimum when they stood free.

Celery's own grows by one slot a second under gevent, since it looks once a second and sees one request too many; ours
looks when a message comes in, before the request goes to the pool.
Page: https://docs.celeryq.dev/en/stable/userguide/workers.html#autoscaling
"""

import threading
import time
from typing import Any

import structlog
from celery.worker import autoscale

from worker_app import telemetry

TICK_SECONDS = 1.0

log = structlog.get_logger(__name__)


class Autoscaler(autoscale.Autoscaler):
    """Grows with each message, shrinks in one step after `keepalive` seconds in which the slots were not all used."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._over = threading.Event()
        self._is_frozen = False
        self._full_at = time.monotonic()
        self._said = self.processes
        self._most = self.max_concurrency

    def on_task_received(self, _: object) -> None:
        """Make room for a message that has just come in. Called by the consumer before the pool gets it."""
        needed = min(self.qty, self.max_concurrency)
        if needed >= self.processes:
            self._full_at = time.monotonic()
        if needed > self.processes and not self._is_frozen:
            self._grow(needed - self.processes)

    def body(self) -> None:
        """One tick: shrink when it is time, and say what has changed since the last one."""
        with self.mutex:
            self._shrink_unused()
            if self.processes != self._said:
                log.info("autoscale.changed", before=self._said, slots=self.processes, needed=self.qty)
                self._said = self.processes
        telemetry.WORKER_SLOTS.set(self.processes)
        self._over.wait(TICK_SECONDS)

    def _shrink_unused(self) -> None:
        wanted = max(self.qty, self.min_concurrency)
        if wanted >= self.processes or self._is_frozen:
            self._full_at = time.monotonic()
        elif time.monotonic() - self._full_at > self.keepalive:
            self._shrink(self.processes - wanted)
            self._full_at = time.monotonic()

    def update(self, max: int | None = None, min: int | None = None) -> tuple[int, int]:  # noqa: A002 - Celery's names
        """Change the bounds, as `celery control autoscale` asks; not beyond the maximum that connections are counted for.

        Raises ValueError unless max >= min >= 1.
        """
        highest, lowest = self.max_concurrency if max is None else max, self.min_concurrency if min is None else min
        if not 1 <= lowest <= highest:
            raise ValueError(f"max={highest} min={lowest}: give two numbers with max >= min >= 1, as 20 2")
        if max is not None and max > self._most:
            log.warning("autoscale.capped", asked=max, most=self._most, remedy="start the worker with a larger maximum")
            max = self._most  # noqa: A001
        bounds: tuple[int, int] = super().update(max, min)
        return bounds

    def freeze(self) -> None:
        """Change nothing any more: the worker drains."""
        self._is_frozen = True

    def stop(self) -> None:
        """End at once."""
        self._over.set()
        super().stop()

    def _grow(self, n: int) -> None:
        self.pool.grow(n)

    def _shrink(self, n: int) -> None:
        self.pool.shrink(n)
