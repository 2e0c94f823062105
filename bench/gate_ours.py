"""Ours in the fleet: the gate as production opens it, with the policy that a scenario names."""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import redis
from gevent.queue import LifoQueue

from bench import gate_policies
from bench.gate_policies import ENDPOINT, KEY, LINEAR_KEY
from bench.gate_sides import Answer, Place, Send, Tally, pause
from worker_app.errors import Deferral
from worker_app.gate.gate import Gate
from worker_app.gate.key import GateKey, Reason
from worker_app.gate.listener import Listener
from worker_app.gate.policy import ProviderPolicy
from worker_app.gate.redis_book import CLOCK, Script
from worker_app.gate.signals import REFUSED, Reply

MOST_WAIT_SECONDS: Final = 5.0  # in the gate; a longer wait is handed back, and slept here in place of the database
POLICIES: Final[Mapping[str, tuple[GateKey, Callable[[], ProviderPolicy]]]] = {
    "github": (KEY, gate_policies.github),
    "paced": (KEY, lambda: gate_policies.github(gap=0.02)),
    "linear": (LINEAR_KEY, gate_policies.linear),
}


def count_asks(tally: Tally) -> None:
    """Count every run of acquire.lua in this process: the gate tells nobody how often it asks."""
    digest, plain = Script("acquire", CLOCK).digest, redis.Redis.evalsha

    def evalsha(client: redis.Redis, sha: str, *arguments: Any) -> Any:
        tally.asked += sha == digest
        return plain(client, sha, *arguments)

    setattr(redis.Redis, "evalsha", evalsha)  # noqa: B010 - the checker knows the method as fixed


class Notes(Listener):
    """Counts what a run of ours should not hold."""

    def __init__(self, counts: dict[str, int]) -> None:
        self._counts = counts

    def deferred(self, key: GateKey, reason: Reason) -> None:  # noqa: ARG002
        """A wait was handed back."""
        self.add(f"deferred_{reason.value}")

    def leaked(self, key: GateKey, bucket: str) -> None:  # noqa: ARG002
        """A request started in a window that was known."""
        self.add("leaked")

    def lease_lost(self, key: GateKey) -> None:  # noqa: ARG002
        """A lease ran out before its request."""
        self.add("lease_lost")

    def outage(self, is_over: bool, seconds: float, error: str = "") -> None:  # noqa: ARG002
        """Redis did not answer in time."""
        self.add("outage_over" if is_over else "outage")

    def add(self, name: str) -> None:
        """One more of them."""
        self._counts[name] = self._counts.get(name, 0) + 1


class Ours:
    """Every request passes a slot of the gate."""

    def __init__(self, place: Place) -> None:
        self.tally = Tally()
        count_asks(self.tally)
        self._key, policy_of = POLICIES[place.policy]
        self._policy = policy_of()
        self._gate = Gate.from_url(
            place.redis_url,
            slots=place.greenlets,
            queue_class=cast(Any, LifoQueue),  # which is no subclass of the standard one
            policies={self._policy.name: self._policy},
            listener=Notes(self.tally.notes),
        )

    def once(self, send: Send, until: float) -> None:
        """Wait for a slot, send, tell the gate what the reply says."""
        try:
            with self._gate.slot(
                self._key, ENDPOINT, max_wait=min(MOST_WAIT_SECONDS, until - time.monotonic())
            ) as permit:
                self.tally.granted += 1
                if (answer := send()) is None:
                    return
                signal = self._policy.classify(_reply(answer))
                permit.observe(signal)
                if signal.kind in REFUSED:
                    self.tally.recorded.append(time.monotonic())
        except Deferral as error:
            pause(error.retry_in, until)


def _reply(answer: Answer) -> Reply:
    return Reply(answer.status, answer.headers, answer.body, json.loads(answer.body), ENDPOINT)
