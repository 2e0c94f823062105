"""The relay: publishes what the outbox owes, after its commit, and forgets it only after Redis has it.

Each worker process of fleet `worker` runs one, in a thread (a greenlet in a patched process). It is woken after every own
commit that owes something and looks by itself now and then, so it needs no beat. A message published twice by a crash is
the same task, and its consumer's compare-and-swap makes the second a no-op.
"""

import random
import threading
from collections.abc import Callable, Sequence
from itertools import count
from uuid import UUID, uuid4

import structlog

from worker_app import errors, telemetry
from worker_app.jobs import Message
from worker_app.store import outbox
from worker_app.store.postgres import Postgres

SPREAD = 0.2  # share by which each pause differs, so that a fleet's relays do not look at the same moment
FIRST_BACKOFF_SECONDS = 1.0  # after a fault, doubled up to the pause: an outage that is over is seen soon
LOOK_EVERY = 40  # batches, some thousand messages, between two looks at how full the queues are
STOP_SECONDS = 5.0

log = structlog.get_logger(__name__)


class PublishError(errors.TransientError):
    """The broker did not take the messages, or did not say so; they stay in the outbox."""


class Relay:
    """Publishes owed messages until it is stopped.

    `publish` sends a batch in one round trip; on PublishError none of it counts as sent. `held_queues` names the queues that
    are full. `pause_seconds` is the time between two looks.
    """

    def __init__(
        self,
        postgres: Postgres,
        publish: Callable[[Sequence[Message]], None],
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
        token, total = uuid4(), 0
        held: Sequence[str] = ()
        claimed: list[int] = []
        sent: list[int] = []
        try:
            with self._postgres.statements() as connection:
                for batch in count():
                    if self._is_stopped:
                        break
                    if batch % LOOK_EVERY == 0:
                        held = self._held_queues()
                    messages = outbox.exchange(connection, token, sent, held)
                    claimed, sent = [message.id for message in messages], []
                    if not messages:
                        break
                    self._publish(messages)
                    sent, total = claimed, total + len(messages)
                    _tell(messages)
        except PublishError:
            self._settle(token, claimed, sent)
            raise
        self._settle(token, claimed, sent)
        return total

    def _settle(self, token: UUID, claimed: Sequence[int], sent: Sequence[int]) -> None:
        """Forget what went out, and let any relay take at once what did not."""
        if claimed:
            with self._postgres.transaction() as tx:
                outbox.delete(tx, token, sent)
                outbox.release(tx, token, claimed)

    def _run(self) -> None:
        backoff = 0.0
        while not self._is_stopped:
            pause = min(backoff or self._pause_seconds, self._pause_seconds)
            self._woken.wait(pause * random.uniform(1 - SPREAD, 1 + SPREAD))  # noqa: S311 - jitter, no secret
            self._woken.clear()
            try:
                self.drain()
            except (PublishError, errors.StoreAway) as error:
                telemetry.OUTBOX_PUBLISH_FAILURES.inc()
                log.warning("outbox.publish_failed", error=str(error))
                backoff = max(FIRST_BACKOFF_SECONDS, 2 * backoff)
            else:
                backoff = 0.0


def _tell(messages: Sequence[Message]) -> None:
    telemetry.OUTBOX_PUBLISHED.inc(len(messages))
    for message in messages:
        telemetry.OUTBOX_DELAY.observe(message.age_seconds)
