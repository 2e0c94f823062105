"""The relay: publishes what the outbox owes, after its commit, and forgets it only after Redis has it.

Each worker process of fleet `worker` runs one, in a thread (a greenlet in a patched process). It is woken after every own
commit that owes something and looks by itself now and then, so it needs no beat. A message published twice by a crash is
the same task, and its consumer's compare-and-swap makes the second a no-op.
"""

import random
import threading
from collections.abc import Callable, Sequence
from uuid import uuid4

import structlog

from worker_app import errors
from worker_app.jobs import Message
from worker_app.store import outbox
from worker_app.store.postgres import Postgres

SPREAD = 0.2  # share by which each pause differs, so that a fleet's relays do not look at the same moment
STOP_SECONDS = 5.0

log = structlog.get_logger(__name__)


class PublishError(errors.TransientError):
    """The broker did not take a message; it stays in the outbox."""


class Relay:
    """Publishes owed messages until it is stopped.

    `publish` sends one message and raises PublishError when the broker does not take it. `held_queues` names the queues that
    are full. `pause_seconds` is the time between two looks.
    """

    def __init__(
        self,
        postgres: Postgres,
        publish: Callable[[Message], None],
        held_queues: Callable[[], Sequence[str]],
        pause_seconds: float,
    ) -> None:
        self._postgres = postgres
        self._publish = publish
        self._held_queues = held_queues
        self._pause_seconds = pause_seconds
        self._woken = threading.Event()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="outbox-relay", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def wake(self) -> None:
        """Look now: the caller has just committed something that is owed."""
        self._woken.set()

    def stop(self) -> None:
        """Publish nothing more; what is owed stays for another relay."""
        self._is_stopped = True
        self._woken.set()
        self._thread.join(timeout=STOP_SECONDS)

    def drain(self) -> int:
        """Publish all that is due now; returns how many. Raises PublishError or StoreAway; nothing is lost."""
        published = 0
        held = self._held_queues()
        while not self._is_stopped:
            token = uuid4()
            with self._postgres.transaction() as tx:
                messages = outbox.claim(tx, token, held)
            if not messages:
                break
            sent: list[int] = []
            try:
                for message in messages:
                    self._publish(message)
                    sent.append(message.id)
            finally:
                with self._postgres.transaction() as tx:
                    outbox.delete(tx, token, sent)
                    outbox.release(tx, token)
            published += len(sent)
        return published

    def _run(self) -> None:
        while not self._is_stopped:
            self._woken.wait(self._pause_seconds * random.uniform(1 - SPREAD, 1 + SPREAD))  # noqa: S311 - jitter, no secret
            self._woken.clear()
            try:
                self.drain()
            except (PublishError, errors.StoreAway) as error:
                log.warning("outbox.publish_failed", error=str(error))
