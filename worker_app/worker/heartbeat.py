"""Heartbeat: the probe files of this process, and its presence in Redis that tells others what it consumes and runs.

`alive` is touched by a thread (a greenlet in a patched process), so a hub that stands still lets it age. `ready` stands from
the first message on until a drain. Presence has a short life: a killed worker vanishes by itself.
"""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import redis
import structlog

from worker_app import queues

BEAT_SECONDS = 5.0
PRESENCE_SECONDS = 30
CUT_OFF_SECONDS = 30.0

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


class Heartbeat:
    """Touches the probe files and renews the presence every five seconds until it is stopped."""

    def __init__(
        self, files: ProbeFiles, client: redis.Redis, node: str, presence: Callable[[], dict[str, object]]
    ) -> None:
        self._files = files
        self._client = client
        self._node = node
        self._presence = presence
        self._takes_work = False
        self._heard_at = time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Begin, and say that this process takes work."""
        self.takes_work(True)
        self._thread.start()

    def takes_work(self, does: bool) -> None:
        """Say whether this process takes work; one whose Redis has been away for 30 seconds is not ready all the same."""
        self._takes_work = does
        self._files.ready(is_ready=does and not self._is_cut_off())

    def stop(self) -> None:
        """End, and take the presence back."""
        self._over.set()
        self._thread.join(timeout=BEAT_SECONDS)
        self.takes_work(False)
        try:
            self._client.delete(presence_key(self._node))
        except redis.RedisError as error:
            log.warning("presence.redis_away", error=type(error).__name__)

    def _run(self) -> None:
        while True:
            self._files.alive()
            try:
                self._client.set(presence_key(self._node), json.dumps(self._presence()), ex=PRESENCE_SECONDS)
                self._heard_at = time.monotonic()
            except redis.RedisError as error:
                log.warning("presence.redis_away", error=type(error).__name__)
            self.takes_work(self._takes_work)
            if self._over.wait(BEAT_SECONDS):
                return

    def _is_cut_off(self) -> bool:
        return time.monotonic() - self._heard_at > CUT_OFF_SECONDS
