"""Recycle: asks for a renewal of a gevent worker that has done its tasks or has grown too large.

Stock gevent reads neither limit. The process is renewed as a whole, so the limit is per slot times slots, with ten per
cent of chance in it: replicas that started together do not renew together.
Page: https://docs.celeryq.dev/en/stable/userguide/workers.html#max-tasks-per-child-setting
"""

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
import psutil
import structlog
from celery import signals

from worker_app.worker.drain import Reason

JITTER = 0.1
LOOK_SECONDS = 0.2  # between two tasks that end; a task that leaks quickly must not fill the container meanwhile
IDLE_LOOK_SECONDS = 5.0
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
CONTAINER_SHARE = 0.85
NO_LIMIT_BYTES = 1 << 50  # what a kernel writes for none
BASE_MB, SLOT_MB, ALLOWANCE = 200, 15, 1.3  # the rule of the profile where no limit is set

log = structlog.get_logger(__name__)


class Recycle:
    """Counts the tasks of this process and watches its memory; calls `ask` once, with the reason."""

    def __init__(
        self, ask: Callable[[Reason], None], *, most_tasks: int, most_bytes: int, least_age_seconds: float
    ) -> None:
        self._ask = ask
        self._most_tasks = round(most_tasks * random.uniform(1 - JITTER, 1 + JITTER))  # noqa: S311 - spreads, guards nothing
        self._most_bytes = most_bytes
        self._least_age_seconds = least_age_seconds
        self._began_at = time.monotonic()
        self._tasks = 0
        self._looked_at = 0.0
        self._is_asked = False
        self._own = psutil.Process()
        self._greenlet: Any = None

    def start(self) -> None:
        """Begin to count and to watch."""
        signals.task_postrun.connect(self._count, weak=False)
        self._greenlet = gevent.spawn(self._run)

    def _count(self, **_: Any) -> None:
        self._tasks += 1
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._look()

    def _run(self) -> None:
        while True:
            gevent.sleep(IDLE_LOOK_SECONDS)
            self._look()

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        age, used = self._looked_at - self._began_at, self._own.memory_info().rss
        if self._is_asked:
            return
        if used > self._most_bytes:
            log.warning("recycle.memory", used_mb=used // 10**6, most_mb=self._most_bytes // 10**6, tasks=self._tasks)
            self._is_asked = True
            self._ask("memory")
        elif self._tasks >= self._most_tasks and age >= self._least_age_seconds:
            log.info("recycle.tasks", tasks=self._tasks, most=self._most_tasks, age_seconds=round(age))
            self._is_asked = True
            self._ask("tasks")


def container_bytes(limits: tuple[Path, ...] = CGROUP_LIMITS) -> int | None:
    """The memory that the container of this process has; None where nothing bounds it."""
    for path in limits:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal() and int(text) < NO_LIMIT_BYTES:
            return int(text)
    return None


def most_bytes(megabytes: int | None, slots: int, limits: tuple[Path, ...] = CGROUP_LIMITS) -> int:
    """The memory above which a process is renewed: as set, else 85 % of the container's, else the rule with an allowance."""
    if megabytes is not None:
        return megabytes * 10**6
    if container := container_bytes(limits):
        return round(container * CONTAINER_SHARE)
    return round((BASE_MB + SLOT_MB * slots) * ALLOWANCE) * 10**6
