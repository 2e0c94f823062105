"""Permits: leave for one request each, from the grant to the reply. What a reply teaches is told to all."""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from uuid import uuid4

from worker_app.gate.book import BucketAsk, Granted, Learned, Told
from worker_app.gate.key import WHOLE_KEY, Decision, GateKey, Reason
from worker_app.gate.knowledge import Knowledge
from worker_app.gate.policy import Endpoint, ProviderPolicy
from worker_app.gate.refusal import reason_text
from worker_app.gate.signals import REFUSED, Kind, RateSignal

NO_REPLY = RateSignal(Kind.UNKNOWN, bucket=WHOLE_KEY)


class Leases:
    """The leases that this process holds. Their names tell what they cost, so that whoever frees one needs no other key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, tuple[GateKey, float]] = {}  # lease -> its key and monotonic end
        self._count = 0
        self._process = (0, "")

    def name(self, buckets: tuple[BucketAsk, ...]) -> str:
        """The name of a new lease."""
        with self._lock:
            if self._process[0] != os.getpid():  # a forked child must not give its parent's leases back
                self._process, self._live = (os.getpid(), uuid4().hex[:12]), {}
            self._count += 1
            priced = ",".join(f"{item.name}:{item.cost}" for item in buckets if item.policy.model != "none")
            return f"{self._process[1]}.{self._count}|{priced}"

    def add(self, key: GateKey, lease: str, seconds: float) -> None:
        """A lease was granted for at most `seconds`."""
        with self._lock:
            self._live[lease] = (key, time.monotonic() + seconds)

    def remove(self, lease: str) -> None:
        """A lease has ended."""
        with self._lock:
            self._live.pop(lease, None)

    def live(self, key: GateKey) -> dict[str, int]:
        """The leases of a key, with the milliseconds that each may last."""
        now = time.monotonic()
        with self._lock:
            mine = [(lease, ends) for lease, (of, ends) in self._live.items() if of == key and ends > now]
        return {lease: round((ends - now) * 1000) for lease, ends in mine}


@dataclass(slots=True, eq=False)
class Permit:
    """Leave to send one request. It must be ended: by `observe` with the reply, or by `end` without one."""

    key: GateKey
    policy: ProviderPolicy
    endpoint: Endpoint
    lease: str
    sent_ms: int  # time of Redis at which the request may start
    remaining: int | None  # of the scarcest quota when it was granted; None: nobody knows
    is_local: bool  # granted by this process alone, while Redis was away
    learn: Callable[["Permit", RateSignal], Decision]
    is_ended: bool = False

    def observe(self, signal: RateSignal) -> Decision:
        """End the permit and learn from the reply; later calls do nothing. A refusal is returned, never raised."""
        if self.is_ended:
            return Decision(True)
        self.is_ended = True
        return self.learn(self, signal)

    def end(self) -> None:
        """End the permit without a reply; nothing is learned, and nothing happens when it has ended."""
        self.observe(NO_REPLY)

    def __enter__(self) -> "Permit":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Permits:
    """Makes permits and ends them."""

    def __init__(self, knowledge: Knowledge, leases: Leases, freed: Callable[[GateKey], None]) -> None:
        self._knowledge = knowledge
        self._leases = leases
        self._freed = freed  # told that a request of the key has ended

    def make(
        self, key: GateKey, endpoint: Endpoint, lease: str, granted: Granted, lease_ms: int, *, is_local: bool
    ) -> Permit:
        """The permit of a granted lease."""
        self._leases.add(key, lease, (granted.delay_ms + lease_ms) / 1000)
        sent_ms = granted.now_ms + granted.delay_ms
        policy = self._knowledge.policy(key)
        return Permit(key, policy, endpoint, lease, sent_ms, granted.remaining, is_local, self._learn)

    def _learn(self, permit: Permit, signal: RateSignal) -> Decision:
        """End a permit. What it teaches is known to this process even where Redis does not hear of it."""
        key, knowledge, told = permit.key, self._knowledge, _told(permit, signal)
        self._leases.remove(permit.lease)
        if signal.kind is not Kind.UNKNOWN:
            knowledge.listener.told(key, signal)
            knowledge.outage.mirror(key, told=told)
        learned = knowledge.outage.call(lambda book: book.observe(key, told))
        if learned is None:
            learned = knowledge.outage.observe(key, told)
        else:
            knowledge.heard(key, learned.now_ms, learned.cleared, learned.stepped_ms)
            if not learned.was_live and not permit.is_local:
                knowledge.listener.lease_lost(key)
        decision = self._decide(key, told, learned)
        self._freed(key)
        return decision

    def _decide(self, key: GateKey, told: Told, learned: Learned) -> Decision:
        if told.signal.kind not in REFUSED:
            return Decision(True, bucket=told.signal.bucket)
        left, listener = learned.left_ms / 1000, self._knowledge.listener
        self._knowledge.windows.note(key, learned.bucket, left, told.text, learned.fails)
        if learned.opened:
            event = "opened" if learned.opened == 1 else "extended"
            listener.window(event, key, learned.bucket, seconds=left, text=told.text)
        if learned.has_leaked:
            listener.leaked(key, learned.bucket)
        return Decision(False, left, Reason.WINDOW, learned.bucket, told.text, learned.fails)


def _told(permit: Permit, signal: RateSignal) -> Told:
    policy = permit.policy
    return Told(
        lease=permit.lease,
        sent_ms=permit.sent_ms,
        signal=signal,
        text=reason_text(signal.kind.value, signal.detail),
        guard_ms=round(policy.guard * 1000),
        default_after_ms=round(policy.default_after * 1000),
        max_conc=policy.max_conc,
        policies=policy.buckets,
        buckets=(WHOLE_KEY, *permit.endpoint.buckets),
    )
